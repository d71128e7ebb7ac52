"""The buttons on a task instance lead where its Job and its MLflow run are."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.execution_time.comms import GetXCom, XComResult
from airflow.sdk.execution_time.supervisor import set_supervisor_comms

from gpu_training.links import MlflowRunLink, TrainingJobLink
from gpu_training_plugin import GpuTrainingPlugin

pytestmark = pytest.mark.unit

TASK = SimpleNamespace(dag_id="d", run_id="r", task_id="train", map_index=-1)
TOLD = {"job": "m-1", "namespace": "gpu training", "job_uid": "u", "mlflow_url": "http://mlflow/#/runs/1"}


class Supervisor:
    """Answers for the XCom that a task has pushed."""

    told: Any = None

    def send(self, message: Any) -> Any:
        assert isinstance(message, GetXCom)
        return XComResult(key=message.key, value=self.told)


@pytest.fixture
def supervisor() -> Iterator[Supervisor]:
    supervisor = Supervisor()
    with set_supervisor_comms(supervisor):
        yield supervisor


def test_the_run_is_linked_as_soon_as_there_is_a_job(supervisor: Supervisor) -> None:
    supervisor.told = TOLD
    assert MlflowRunLink().get_link(None, ti_key=TASK) == "http://mlflow/#/runs/1"  # type: ignore[arg-type]


@pytest.mark.parametrize("told", [None, "text", {}])
def test_a_task_without_a_job_has_no_links(supervisor: Supervisor, told: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    supervisor.told = told
    monkeypatch.setenv("AIRFLOW__GPU_TRAINING__JOB_URL", "https://dashboard/{name}")
    assert MlflowRunLink().get_link(None, ti_key=TASK) == ""  # type: ignore[arg-type]
    assert TrainingJobLink().get_link(None, ti_key=TASK) == ""  # type: ignore[arg-type]


def test_the_job_is_linked_where_a_dashboard_is_configured(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    supervisor.told = TOLD
    assert TrainingJobLink().get_link(None, ti_key=TASK) == ""  # type: ignore[arg-type]
    monkeypatch.setenv("AIRFLOW__GPU_TRAINING__JOB_URL", "https://dashboard/{namespace}/{name}?uid={uid}")
    assert TrainingJobLink().get_link(None, ti_key=TASK) == "https://dashboard/gpu%20training/m-1?uid=u"  # type: ignore[arg-type]


def test_the_plugin_registers_every_link() -> None:
    assert {type(link) for link in GpuTrainingPlugin.operator_extra_links} == {MlflowRunLink, TrainingJobLink}
