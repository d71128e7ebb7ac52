"""A model's document: who owns it, when it is retrained, on which data, how it is trained, where it is registered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Final, TypeVar

from gpu_training.core.dataversion import LATEST, check_reference
from gpu_training.core.errors import ConfigurationError, DataVersionError
from gpu_training.core.fields import Fields, is_template
from gpu_training.core.parameters import (
    Parameter,
    canonical_number,
    parse_parameters,
    with_parameters,
)
from gpu_training.core.spec import MODEL_NAME, parse_training_spec

CONNECTION_ID: Final = r"[A-Za-z0-9_.-]{1,200}"
_REGISTERED_MODEL: Final = r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,127}"
# MLflow keeps `latest` and `v1`, `v2`, … for itself.
_ALIAS: Final = r"(?!latest\Z|v[0-9]+\Z)[a-z][a-z0-9_-]{0,62}"
_NAMESPACE: Final = "gpu-training"
_CRON: Final = r"\S+( \S+){4}"
_OWNER: Final = r"[^\s,][^,\n]{0,99}"


_Kind = TypeVar("_Kind", bound=StrEnum)


class DataSourceKind(StrEnum):
    """Where data versions come from. A public value: teams write it in YAML."""

    OBJECT_STORE_MANIFEST = "object_store_manifest"


class Verification(StrEnum):
    """How much of a data version is checked before it is used. A public value: teams write it in YAML."""

    CONTENT = "content"
    """Every file is read and its digest compared."""
    SIZES = "sizes"
    """Every file is there and has its size: for data too large to be read twice a night."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSettings:
    """Where a model's data versions are.

    :param uri: folder that holds one folder a version.
    :param conn_id: Airflow connection of the store; None for what needs none (`file://`).
    :param ref: the version that a scheduled run asks for: `latest`, an id, or `as of <time>`.
    """

    source: DataSourceKind
    uri: str
    conn_id: str | None
    ref: str = LATEST
    verify: Verification = Verification.CONTENT

    def to_document(self) -> dict[str, str | None]:
        """Give what :func:`parse_data_settings` reads: plain texts, fit for a task's arguments."""
        return {key: str(value) if value is not None else None for key, value in asdict(self).items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """When a model is retrained.

    :param cron: five fields.
    :param timezone: name in the IANA database; the clock on its walls is what the cron expression means.
    """

    cron: str
    timezone: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrySettings:
    """Where a model's versions are registered.

    :param experiment: MLflow experiment of the runs.
    :param alias: alias that the newest version gets.
    """

    registered_model: str
    experiment: str
    alias: str
    conn_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """One model of the project. Made by :func:`parse_model` only.

    :param retries: how often Airflow tries a task again, `retry_delay_seconds` after it failed.
    :param training: the training document, for a run that nobody changed; it may hold templates.
    :param parameters: what the trigger form of the on-demand DAG opens.
    """

    name: str
    owner: str
    description: str
    retries: int
    retry_delay_seconds: int
    schedule: Schedule
    data: DataSettings
    training: Mapping[str, object]
    registry: RegistrySettings
    kubernetes_conn_id: str
    parameters: tuple[Parameter, ...]

    def training_on_demand(self) -> dict[str, object]:
        """Give the training document in which every parameter is a template of `params`."""
        return with_parameters(self.training, self.parameters)


def parse_model(document: object) -> Model:
    """Give the model in a document; unknown keys are refused with the nearest known one.

    Whether a time zone and a cron expression exist is not looked up here.

    :raises ConfigurationError: the first fault found.
    """
    fields = Fields(document)
    name = fields.text(
        "model", pattern=MODEL_NAME, allowed="a model name (lower-case letters, digits and `-`, at most 40)"
    )
    training = _training(fields, name)
    model = Model(
        name=name,
        owner=fields.text("owner", pattern=_OWNER, allowed="a team or person without a comma"),
        description=fields.text("description"),
        retries=fields.whole("retries", 2, minimum=0, maximum=20),
        retry_delay_seconds=fields.whole("retry_delay_seconds", 60, minimum=0, maximum=24 * 3600, unit="seconds"),
        schedule=_schedule(fields.section("schedule", required=True)),
        data=parse_data_settings(fields.take("data"), templates=True),
        training=training,
        registry=_registry(fields.section("registry"), name),
        kubernetes_conn_id=_kubernetes(fields.section("kubernetes")),
        parameters=parse_parameters(fields, training),
    )
    fields.finish()
    return model


def parse_data_settings(document: object, *, templates: bool = False) -> DataSettings:
    """Give the settings in a section `data`.

    :param templates: whether templated texts pass unchecked; they are then kept as they are.
    :raises ConfigurationError: the first fault found.
    """
    fields = Fields(document, "data", templates=templates)
    uri = fields.text("uri", pattern=r"[a-z][a-z0-9+.-]*://\S+", allowed="a URI (s3://… or file://…)")
    conn_id = fields.optional_text("conn_id", pattern=CONNECTION_ID, allowed="the id of an Airflow connection")
    settings = DataSettings(
        source=_choice(fields, "source", DataSourceKind),
        uri=_kept(fields, "uri", uri),
        conn_id=None if conn_id is None else _kept(fields, "conn_id", conn_id),
        ref=_reference(fields),
        verify=_choice(fields, "verify", Verification, Verification.CONTENT),
    )
    fields.finish()
    return settings


def _choice(fields: Fields, name: str, kind: type[_Kind], default: _Kind | None = None) -> _Kind:
    value = fields.take(name) if default is None else fields.take(name, default)
    if not isinstance(value, str) or value not in set(kind):
        raise fields.refuse(name, f"one of {', '.join(kind)} is expected")
    return kind(value)


def _kept(fields: Fields, name: str, value: str) -> str:
    """Give the template itself where the reader gave a stand-in for it."""
    raw = fields.take(name, None)
    return raw if fields.templates and is_template(raw) and isinstance(raw, str) else value


def _reference(fields: Fields) -> str:
    """Give the reference. No template: it is the usual value in the trigger form, which nothing renders."""
    ref = fields.take("ref", LATEST)
    if isinstance(ref, (bool, Mapping, list)):
        raise fields.refuse("ref", "`latest`, an id, or `as of <time>` is expected")
    try:
        return check_reference(str(ref))
    except DataVersionError as exc:
        raise fields.refuse("ref", str(exc)) from None


def _training(fields: Fields, model: str) -> dict[str, object]:
    body = fields.take("training")
    if isinstance(body, Mapping) and "model" in body:
        raise ConfigurationError("training.model", body["model"], "is the model's own name: leave it out here")
    document: object = {**body, "model": model} if isinstance(body, Mapping) else body
    parse_training_spec(document, templates=True)
    found: dict[str, object] = {"namespace": _NAMESPACE, **(document if isinstance(document, Mapping) else {})}
    if isinstance(arguments := found.get("arguments"), Mapping):
        found["arguments"] = {key: canonical_number(value) for key, value in arguments.items()}
    return found


def _schedule(fields: Fields) -> Schedule:
    schedule = Schedule(
        cron=fields.text("cron", pattern=_CRON, allowed='five fields with one space between, e.g. "30 2 * * *",'),
        timezone=fields.text(
            "timezone", pattern=r"[A-Za-z0-9+_-]+(/[A-Za-z0-9+_-]+)*", allowed="an IANA time zone, e.g. Europe/Berlin,"
        ),
    )
    fields.finish()
    return schedule


def _registry(fields: Fields, model: str) -> RegistrySettings:
    registered = fields.text(
        "registered_model", model, pattern=_REGISTERED_MODEL, allowed="a registered model name without `/` and `:`"
    )
    settings = RegistrySettings(
        registered_model=registered,
        experiment=fields.text("experiment", registered, limit=200),
        alias=fields.text(
            "alias", "candidate", pattern=_ALIAS, allowed="an alias other than `latest` and `v1`, `v2`, …"
        ),
        conn_id=fields.text(
            "conn_id", "mlflow_tracking", pattern=CONNECTION_ID, allowed="the id of an Airflow connection"
        ),
    )
    fields.finish()
    return settings


def _kubernetes(fields: Fields) -> str:
    conn_id = fields.text("conn_id", "kubernetes_gpu", pattern=CONNECTION_ID, allowed="the id of an Airflow connection")
    fields.finish()
    return conn_id
