"""A model as a check-up sees it: its training as a run that nobody changed has it, and the Job made from that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from gpu_training.check_up.written_defaults import render_written_defaults
from gpu_training.core.errors import ConfigurationError
from gpu_training.core.ledger import Ledger
from gpu_training.core.manifest import build_job
from gpu_training.core.model import DataSettings, Model
from gpu_training.core.naming import TaskTry
from gpu_training.core.next_job import next_job
from gpu_training.core.orders import wanted_backoff_limit
from gpu_training.core.precedence import PriorityClass
from gpu_training.core.spec import TrainingSpec, parse_training_spec
from gpu_training.core.training_container import RunSettings
from gpu_training.operators.plan import Plan, make_plan

_NOBODY: Final = TaskTry(dag_id="gpu-training-doctor", run_id="doctor", task_id="train", map_index=-1, try_number=1)
_NO_VERSION: Final[Mapping[str, str]] = {
    "source": "doctor",
    "ref": "latest",
    "id": "doctor",
    "digest": "sha256:" + "0" * 64,
    "uri": "file:///doctor/manifest.json",
    "created_at": "2026-01-01T00:00:00+00:00",
}
_NO_TRACKING_URI: Final = "http://mlflow.invalid"
_STAND_INS: Final[Mapping[str, str]] = {
    "image": "image.invalid/known-to-airflow:alone",
    "code_version": "unknown",
    "checkpoint_uri": "file:///unknown",
}
_HARMLESS_SECTIONS: Final = ("arguments.", "environment.")
"""What no check depends on may be made up where Airflow alone knows it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A training as a run that nobody changed has it.

    :param job: the Job's document.
    :param classes: PriorityClasses that its runs' pods get by what starts them, where the model's file names none; the
        first is the Job's.
    :param last_job: the Job of the last attempt, where that goes to other nodes.
    """

    spec: TrainingSpec
    job: Mapping[str, Any]
    classes: tuple[str, ...]
    last_job: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One model, as far as it is known outside of a run.

    :param sample: None where templates that matter are left, or the rendered document is wrong: `fault` says so.
    :param unknown: fields that Airflow alone can render.
    :param data: None where its settings are templates that Airflow alone can render.
    """

    model: Model
    sample: Sample | None
    data: DataSettings | None
    unknown: tuple[str, ...] = ()
    fault: str = ""


def case_of(model: Model) -> Case:
    """Give what is known of a model outside of a run."""
    rendered = render_written_defaults(model.training)
    data, data_unknown = _data_of(model.data)
    training = _with_stand_ins(rendered.document, rendered.unknown)
    classes: tuple[str, ...] = ()
    if "priority_class" not in training:
        # With the class of a nightly run, which is the most frequent one.
        classes = tuple(str(each) for each in PriorityClass)
        training["priority_class"] = classes[0]
    sample, fault = None, ""
    try:
        if parse_training_spec(training, templates=True) is not None:
            sample = _sample(training, classes)
    except ConfigurationError as error:
        fault = str(error)
    return Case(
        model=model,
        sample=sample,
        data=data,
        unknown=(*(f"training.{path}" for path in rendered.unknown), *data_unknown),
        fault=fault,
    )


def _sample(training: Mapping[str, Any], classes: tuple[str, ...]) -> Sample:
    plan = make_plan(training, _NO_VERSION, deployment=_NOBODY.dag_id, owner=_NOBODY)
    return Sample(spec=plan.spec, job=_job_of(plan), classes=classes, last_job=_last_job_of(plan))


def _last_job_of(plan: Plan) -> dict[str, Any] | None:
    fallback = plan.spec.spot_fallback
    if fallback is None:
        return None
    spec = replace(plan.spec, node_selector=fallback.node_selector, tolerations=fallback.tolerations)
    return _job_of(replace(plan, spec=spec))


def _with_stand_ins(document: dict[str, Any], unknown: tuple[str, ...]) -> dict[str, Any]:
    training = dict(document)
    for path in unknown:
        if path in _STAND_INS:
            training[path] = _STAND_INS[path]
        section, _, name = path.partition(".")
        if path.startswith(_HARMLESS_SECTIONS):
            training[section] = {**training[section], name: "unknown"}
    return training


def _data_of(settings: DataSettings) -> tuple[DataSettings | None, tuple[str, ...]]:
    rendered = render_written_defaults({"uri": settings.uri, "conn_id": settings.conn_id})
    if rendered.unknown:
        return None, tuple(f"data.{path}" for path in rendered.unknown)
    uri, conn_id = rendered.document["uri"], rendered.document["conn_id"]
    return replace(settings, uri=str(uri), conn_id=str(conn_id) if conn_id else None), ()


def _job_of(plan: Plan) -> dict[str, Any]:
    """Give the lineage's first Job as the operator builds it, where no parameter of the stock operator adds to it."""
    identity = plan.identity
    ledger = Ledger(model=identity.model, deployment=identity.deployment, fingerprint=identity.fingerprint)
    following = next_job(ledger, plan.spec, plan.budget, 0.0)
    settings = RunSettings(
        data_uri=plan.version.uri,
        tracking_uri=_NO_TRACKING_URI,
        mlflow_run_id=_NOBODY.run_id,
        backoff_limit=wanted_backoff_limit(following.allowance, admissions=0),
        deadline_seconds=following.outer_deadline_seconds,
        work_seconds=following.work_seconds,
    )
    return build_job({}, plan.spec, plan.identity, settings, plan.rules)
