"""Raw documents of a Job and its pods -> one frozen observation. The one place that reads status.

Total: a field that is absent or of another shape reads as unknown, never as an exception and never as success. A
condition holds only when its status is the text "True". Times are seconds since 1970, UTC.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from gpu_training.core.documents import child, entries, parse_time, text, texts, whole
from gpu_training.core.pods import Condition, PodObservation, observe_conditions, observe_pod
from gpu_training.core.steps import Steps
from gpu_training.core.training_container import mlflow_run_of

# Set by the Job controller on every pod that it makes.
_JOB_UID_LABEL: Final = "batch.kubernetes.io/controller-uid"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobObservation:
    """One Job.

    :param suspended_at: since when it holds no pods; None when it is not suspended yet, or did not say since when.
    :param deadline_seconds: activeDeadlineSeconds, which counts from `started_at`.
    :param completions: pods that have to succeed; None when the Job does not say.
    :param mlflow_run_id: run that its pods are given; "" when it names none.
    :param conditions: those that hold.
    """

    uid: str
    name: str
    namespace: str
    created_at: float | None = None
    started_at: float | None = None
    deleting: bool = False
    suspended: bool = False
    suspended_at: float | None = None
    backoff_limit: int | None = None
    deadline_seconds: int | None = None
    parallelism: int | None = None
    completions: int | None = None
    active: int = 0
    failed: int = 0
    succeeded: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    mlflow_run_id: str = ""
    conditions: tuple[Condition, ...] = ()

    def condition(self, type_: str) -> Condition | None:
        """Give the condition of a type if it holds."""
        return next((c for c in self.conditions if c.type == type_), None)

    @property
    def final(self) -> Condition | None:
        """The condition that ends the Job."""
        return self.condition("Complete") or self.condition("Failed")

    @property
    def ended(self) -> bool:
        return self.final is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What is known of a training now.

    :param job: as it was last seen; None when it never was.
    :param pods: by age; those that are gone as they were last seen.
    :param gone: whether the API server confirmed, by UID, that there is no such Job any more.
    :param findings: pod name -> name of the failure rule that its log matches.
    :param steps: pod name -> which steps it said it did.
    :param told_results: pod name -> text of the result document that stands in its log.
    """

    job: JobObservation | None
    pods: tuple[PodObservation, ...] = ()
    gone: bool = False
    findings: Mapping[str, str] = field(default_factory=dict)
    steps: Mapping[str, Steps] = field(default_factory=dict)
    told_results: Mapping[str, str] = field(default_factory=dict)


def observe(
    job: object,
    pods: Iterable[object],
    *,
    gone_pods: Iterable[object] = (),
    gone: bool = False,
    findings: Mapping[str, str] | None = None,
) -> Observation:
    """Give the observation of a Job's documents.

    :param job: the Job as last seen, or None.
    :param pods: live pods, in any order. Those that belong to another Job, or to none, are left out.
    :param gone_pods: pods that the API server no longer has, as they were last seen.
    :param gone: whether the Job itself is confirmed to be gone.
    :param findings: what the pods' logs say, as :class:`~gpu_training.core.log_matcher.LogMatcher` gives it.
    """
    seen_job = observe_job(job) if job is not None else None
    seen: dict[str, PodObservation] = {}
    for documents, is_gone in ((gone_pods, True), (pods, False)):
        for document in documents:
            if seen_job is None or _controller_uid(document) == seen_job.uid:
                pod = observe_pod(document, gone=is_gone)
                seen[pod.uid or pod.name] = pod
    return Observation(job=seen_job, pods=tuple(sorted(seen.values(), key=_age)), gone=gone, findings=findings or {})


def _controller_uid(document: object) -> str:
    """Give the UID of the Job that made a pod. An orphan has lost the reference and keeps the label."""
    metadata = child(document, "metadata")
    for reference in entries(metadata, "ownerReferences"):
        if reference.get("controller") is True:
            return text(reference, "uid")
    return text(child(metadata, "labels"), _JOB_UID_LABEL)


def _age(pod: PodObservation) -> tuple[float, str, str]:
    return (pod.created_at if pod.created_at is not None else float("inf"), pod.name, pod.uid)


def observe_job(document: object) -> JobObservation:
    """Give the observation of a Job's document."""
    metadata, spec, status = child(document, "metadata"), child(document, "spec"), child(document, "status")
    conditions = tuple(condition for condition in observe_conditions(status) if condition.holds)
    return JobObservation(
        uid=text(metadata, "uid"),
        name=text(metadata, "name"),
        namespace=text(metadata, "namespace"),
        created_at=parse_time(metadata.get("creationTimestamp")),
        started_at=parse_time(status.get("startTime")),
        deleting=bool(metadata.get("deletionTimestamp")),
        suspended=spec.get("suspend") is True,
        suspended_at=next((c.changed_at for c in conditions if c.type == "Suspended"), None),
        backoff_limit=whole(spec, "backoffLimit"),
        deadline_seconds=whole(spec, "activeDeadlineSeconds"),
        parallelism=whole(spec, "parallelism"),
        completions=whole(spec, "completions"),
        active=whole(status, "active") or 0,
        failed=whole(status, "failed") or 0,
        succeeded=whole(status, "succeeded") or 0,
        labels=texts(metadata, "labels"),
        annotations=texts(metadata, "annotations"),
        mlflow_run_id=mlflow_run_of(document),
        conditions=conditions,
    )


def image_of(observation: Observation) -> str:
    """Give the digest reference that a node reported for the training container; "" when none did."""
    found = (pod.training.image_id for pod in reversed(observation.pods) if pod.training is not None)
    return next((image for image in found if image), "")
