"""What to register: a plan from a training's facts and the versions that are there. Its application is registry's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

TAG_PREFIX: Final = "gpu_training."
TAG_FINGERPRINT: Final = TAG_PREFIX + "fingerprint"
TAG_GENERATION: Final = TAG_PREFIX + "generation"
TAG_IMAGE: Final = TAG_PREFIX + "image"
TAG_JOB_UID: Final = TAG_PREFIX + "job_uid"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedModel:
    """What a training that succeeded hands to registration."""

    registered_model: str
    model_uri: str
    mlflow_run_id: str
    fingerprint: str
    generation: int
    data_version: str
    data_digest: str
    image: str
    dag_run: str
    job_uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownModelVersion:
    """A version that the registry has.

    :param usable: whether its status is READY or on the way there; one whose upload failed is not.
    """

    version: str
    tags: Mapping[str, str]
    usable: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrationPlan:
    """What to do.

    :param reuse: version that already holds this training; None to create one.
    :param tags: tags that the version has in the end.
    """

    registered_model: str
    model_uri: str
    mlflow_run_id: str
    reuse: str | None
    tags: Mapping[str, str]
    alias: str


def plan_registration(trained: TrainedModel, known: Iterable[KnownModelVersion], *, alias: str) -> RegistrationPlan:
    """Give the plan that leaves exactly one usable version for a fingerprint and generation, whatever ran before.

    :param known: versions of the registered model; the oldest that fits is reused, so that repeated plans agree.
    """
    tags = tags_of(trained)
    same = [
        version
        for version in known
        if version.usable and all(version.tags.get(tag) == tags[tag] for tag in (TAG_FINGERPRINT, TAG_GENERATION))
    ]
    oldest = min(same, key=lambda version: (len(version.version), version.version), default=None)
    return RegistrationPlan(
        registered_model=trained.registered_model,
        model_uri=trained.model_uri,
        mlflow_run_id=trained.mlflow_run_id,
        reuse=oldest.version if oldest is not None else None,
        tags=tags,
        alias=alias,
    )


def tags_of(trained: TrainedModel) -> dict[str, str]:
    """Give the tags by which a version is traced to its data, program, run and Job."""
    return {
        TAG_FINGERPRINT: trained.fingerprint,
        TAG_GENERATION: str(trained.generation),
        TAG_PREFIX + "data_version": trained.data_version,
        TAG_PREFIX + "data_digest": trained.data_digest,
        TAG_IMAGE: trained.image,
        TAG_PREFIX + "dag_run": trained.dag_run,
        TAG_JOB_UID: trained.job_uid,
    }
