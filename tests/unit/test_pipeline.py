"""Parts of the tasks that need no cluster: what templates render to, and what register asks of a training."""

from __future__ import annotations

import contextvars
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from airflow.sdk import DAG, BaseOperator, Param
from airflow.sdk.api.datamodels._generated import DagRunType
from airflow.sdk.bases.operator import ExecutorSafeguard
from airflow.sdk.definitions.context import Context
from airflow.sdk.exceptions import AirflowFailException, ParamValidationError
from jinja2 import Environment, StrictUndefined

from gpu_training.core.naming import fingerprint
from gpu_training.core.parameters import Parameter, ParameterType
from gpu_training.core.precedence import priority_class_of
from gpu_training.core.spec import TrainingSpec, parse_training_spec
from gpu_training.model_files import load_models
from gpu_training.operators.clean_up import CleanUpOperator
from gpu_training.operators.imported_late import ImportedLateOperator
from gpu_training.pipeline import add_tasks, register, trigger_form

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parent.parent.parent
MODELS = load_models(ROOT / "include" / "models")
DIGEST = "sha256:" + "0" * 64


class Variables:
    """Stands for Airflow's `var.value`."""

    def get(self, name: str, default: str) -> str:
        return default


def rendered(document: Any, params: dict[str, Any], **context: object) -> Any:
    """Render every leaf as Airflow renders a template field."""
    if isinstance(document, dict):
        return {key: rendered(value, params, **context) for key, value in document.items()}
    if isinstance(document, list):
        return [rendered(value, params, **context) for value in document]
    if not isinstance(document, str):
        return document
    template = Environment(undefined=StrictUndefined, autoescape=False).from_string(document)  # noqa: S701 - no HTML
    return template.render(params=params, var={"value": Variables()}, **context)


def of_run(training: dict[str, object], run_type: DagRunType) -> TrainingSpec:
    """Give the spec that the task of a run of this type has, as add_tasks hands it on."""
    with DAG("d", schedule=None) as dag:
        add_tasks(MODELS["flight-delay"], training=training, ref="latest")
    run = SimpleNamespace(run_type=run_type)
    spec = parse_training_spec(rendered(dag.get_task("train").arguments["training"], {}, dag_run=run))
    assert spec is not None
    return spec


def work(model: str, **changes: object) -> str:
    """Give the fingerprint of an on-demand run with these values in its form."""
    form = trigger_form(MODELS[model])
    params = {
        name: param.resolve(changes[name]) if name in changes else param.resolve() for name, param in form.items()
    }
    spec = parse_training_spec(rendered(MODELS[model].training_on_demand(), params))
    assert spec is not None
    return fingerprint(spec, DIGEST, ("d", "r"))


@pytest.mark.parametrize("model", MODELS)
def test_a_form_left_alone_is_the_nightly_run_s_work(model: str) -> None:
    nightly = parse_training_spec(rendered(dict(MODELS[model].training), {}))
    assert nightly is not None
    assert work(model) == fingerprint(nightly, DIGEST, ("d", "r"))


@pytest.mark.parametrize(
    ("run_type", "expected"),
    [
        ("scheduled", "gpu-training-nightly"),
        ("asset_triggered", "gpu-training-nightly"),
        ("manual", "gpu-training-on-demand"),
        ("operator_triggered", "gpu-training-on-demand"),
        ("asset_materialization", "gpu-training-on-demand"),
        ("backfill", "gpu-training-backfill"),
    ],
)
def test_what_started_a_run_decides_on_its_priority_and_not_on_its_work(run_type: str, expected: str) -> None:
    training = dict(MODELS["flight-delay"].training)
    spec = of_run(training, DagRunType(run_type))
    assert spec.priority_class == priority_class_of(run_type) == expected
    assert fingerprint(spec, DIGEST, ("d", "r")) == work("flight-delay")


def test_every_run_type_of_airflow_has_its_priority_looked_at() -> None:
    looked_at = {"scheduled", "asset_triggered", "manual", "operator_triggered", "asset_materialization", "backfill"}
    assert {str(kind.value) for kind in DagRunType} == looked_at


@pytest.mark.parametrize(("declared", "expected"), [("batch", "batch"), ("", None), (None, None)])
def test_a_model_that_speaks_of_its_priority_is_heeded(declared: str | None, expected: str | None) -> None:
    training = {**MODELS["flight-delay"].training, "priority_class": declared}
    assert of_run(training, DagRunType.BACKFILL).priority_class == expected


@pytest.mark.parametrize(("run_type", "queue"), [("backfill", "backfills"), ("scheduled", "trainings")])
def test_a_model_s_queue_may_depend_on_what_started_the_run(run_type: str, queue: str) -> None:
    (template,) = re.findall(r"^queue: \"(.+)\"$", (ROOT / "docs" / "queues.md").read_text(), re.MULTILINE)
    training = {**MODELS["flight-delay"].training, "queue": template}
    assert of_run(training, DagRunType(run_type)).queue == queue


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"rounds": 200}, {"rounds": 200.0}),
        ({"learning_rate": 1}, {"learning_rate": 1.0}),
        ({"learning_rate": 0.05}, {}),
        ({"gpus": 2}, {"gpus": 1}),
        ({"deadline_seconds": 60}, {"deadline_seconds": 600}),
        ({"image": "xgboost-trainer:0.1.0"}, {"image": None}),
    ],
)
def test_the_same_work_has_one_fingerprint_however_it_is_written(
    first: dict[str, object], second: dict[str, object]
) -> None:
    assert work("flight-delay", **first) == work("flight-delay", **second)


@pytest.mark.parametrize("change", [{"rounds": 201}, {"learning_rate": 0.2}, {"image": "xgboost-trainer:0.2.0"}])
def test_other_work_has_another_fingerprint(change: dict[str, object]) -> None:
    assert work("flight-delay", **change) != work("flight-delay")


def test_a_form_s_text_never_reads_a_variable_of_the_pod() -> None:
    parameter = Parameter(
        name="note", sets=("arguments", "note"), type=ParameterType.STRING, description="x", default=None
    )
    param = Param(None, schema=parameter.json_schema())
    assert [param.resolve(value) for value in (None, "$5 (net)")] == [None, "$5 (net)"]
    with pytest.raises(ParamValidationError):
        param.resolve("key $(AWS_SECRET_ACCESS_KEY)")


@pytest.mark.parametrize("trained", [None, {}, {"model_uri": ""}])
def test_a_training_whose_model_did_not_reach_mlflow_is_told(trained: dict[str, Any] | None) -> None:
    with pytest.raises(AirflowFailException, match="the training told no registered_model, model_uri, "):
        register.function(trained, alias="candidate", conn_id="nobody_asks")


class Recorder(BaseOperator):
    """An operator that writes down what is asked of it."""

    seen: ClassVar[list[str]] = []

    def execute(self, context: Any) -> str:
        self.seen.append("execute")
        return self.owner

    def resumed(self, context: Any, event: str) -> str:
        return event

    def on_kill(self) -> None:
        self.seen.append("on_kill")


def test_an_operator_imported_late_runs_resumes_and_is_killed_as_itself(caplog: pytest.LogCaptureFixture) -> None:
    late = ImportedLateOperator(task_id="train", runs=f"{__name__}:Recorder", arguments={}, owner="a-team")
    late.on_kill()
    assert Recorder.seen == []
    context = contextvars.copy_context()
    context.run(ExecutorSafeguard.tracker.set, late)
    assert context.run(late.execute, Context()) == "a-team"
    assert late.resume_execution("resumed", {"event": "done"}, Context()) == "done"
    late.on_kill()
    assert Recorder.seen == ["execute", "on_kill"]
    assert "cannot be called outside" not in caplog.text


def test_an_operator_imported_late_is_the_operator_it_stands_for() -> None:
    late = ImportedLateOperator(
        task_id="clean_up",
        runs="gpu_training.operators.clean_up:CleanUpOperator",
        arguments={"namespace": "somewhere"},
        retries=7,
        owner="a-team",
    )
    late.on_kill()
    assert late.custom_operator_name == "CleanUpOperator"
    became = late._become()
    assert isinstance(became, CleanUpOperator)
    assert (became.task_id, became.retries, became.owner, became.namespace) == ("clean_up", 7, "a-team", "somewhere")
    with pytest.raises(Exception, match="Trigger timeout"):
        late.resume_execution("__fail__", {"error": "Trigger timeout"}, Context())
