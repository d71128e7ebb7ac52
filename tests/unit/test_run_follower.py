"""A run followed to its end, and what came of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.unit.fake_airflow import DAG_ID, PASSWORD, RUN_ID, FakeAirflow, Frame, serve

from gpu_training.airflow_client import AirflowClient, AirflowUnreachableError, RunState
from gpu_training.run_follower import (
    LogWritten,
    PhaseChanged,
    ProgressMade,
    RunEvent,
    TaskChanged,
    follow_run,
    log_tail,
    report_run,
)

pytestmark = pytest.mark.unit

HALF = "progress 50% step 100/200 loss 0.5 eta 3 s"
DONE = "progress 100% step 200/200 loss 0.25"


@pytest.fixture
def airflow() -> Iterator[FakeAirflow]:
    with serve(FakeAirflow()) as server:
        yield server


def follow(airflow: FakeAirflow, *, clock_step: float = 0.0, patience_s: float = 10.0) -> list[str]:
    """Follow the server's run with a clock that only waiting moves, and write down each event in a word or two."""
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds + clock_step

    with AirflowClient(airflow.url, username="op", password=PASSWORD) as client:
        return [
            word(event)
            for event in follow_run(client, DAG_ID, RUN_ID, sleep=sleep, clock=lambda: now[0], patience_s=patience_s)
        ]


def word(event: RunEvent) -> str:
    match event:
        case TaskChanged(task=task):
            return f"{task.task_id} {task.state} {task.try_number}"
        case ProgressMade(progress=progress):
            return f"step {progress.step}"
        case PhaseChanged(text=text):
            return f"phase {text}"
        case LogWritten(line=line):
            return f"> {line}"


def test_states_progress_and_logs_are_told_once_and_in_their_order(airflow: FakeAirflow) -> None:
    airflow.frames = [
        Frame("queued", {"resolve": (None, 0), "train": (None, 0)}),
        Frame("running", {"resolve": ("success", 1), "train": ("deferred", 1)}, {"resolve/1": ["r"], "train/1": ["t"]}),
        Frame("running", {"resolve": ("success", 1), "train": ("deferred", 1)}, {"train/1": ["t", HALF]}),
        Frame("success", {"resolve": ("success", 1), "train": ("success", 1)}, {"train/1": ["t", HALF, DONE]}),
    ]
    assert follow(airflow) == [
        "> r",
        "resolve success 1",
        "> t",
        "train deferred 1",
        "step 100",
        "step 200",
        "train success 1",
    ]


def test_only_the_trainings_own_log_tells_of_phases_and_progress(airflow: FakeAirflow) -> None:
    lines = ["queued: no node has 2 GPUs", "queued (gpus_taken): all are", "stopping", "some: text", HALF]
    logs = {"train/1": lines, "resolve/1": lines}
    airflow.frames = [Frame("success", {"resolve": ("success", 1), "train": ("success", 1)}, logs)]
    assert follow(airflow) == [
        *(f"> {line}" for line in lines),
        "resolve success 1",
        "phase queued: no node has 2 GPUs",
        "phase queued (gpus_taken): all are",
        "phase stopping",
        "> some: text",
        "step 100",
        "train success 1",
    ]


def test_another_try_has_a_log_of_its_own(airflow: FakeAirflow) -> None:
    airflow.frames = [
        Frame("running", {"train": ("running", 1)}, {"train/1": [HALF]}),
        Frame("running", {"train": ("up_for_retry", 1)}, {"train/1": [HALF, "gone"]}),
        Frame("running", {"train": ("running", 2)}, {"train/1": [HALF, "gone"], "train/2": ["again"]}),
        Frame("failed", {"train": ("failed", 2)}, {"train/1": [HALF, "gone"], "train/2": ["again"]}),
    ]
    assert follow(airflow) == [
        "step 100",
        "train running 1",
        "> gone",
        "train up_for_retry 1",
        "> again",
        "train running 2",
        "train failed 2",
    ]


def test_an_outage_shorter_than_the_patience_is_waited_out(airflow: FakeAirflow) -> None:
    airflow.outage = 9
    airflow.frames = [Frame("success", {"train": ("success", 1)})]
    assert follow(airflow, clock_step=2.0, patience_s=10.0) == ["train success 1"]


def test_an_outage_longer_than_the_patience_is_an_error(airflow: FakeAirflow) -> None:
    airflow.outage = 1000
    with pytest.raises(AirflowUnreachableError, match="check the address"):
        follow(airflow, clock_step=2.0, patience_s=10.0)


def test_a_run_is_summed_up_from_what_its_tasks_left(airflow: FakeAirflow) -> None:
    airflow.frames = [
        Frame("success", {"resolve": ("success", 1), "train": ("success", 1), "register": ("success", 1)})
    ]
    airflow.xcoms = {
        "resolve": {"id": "2013-03-04"},
        "train": {
            "data_version": "2013-03-04",
            "fingerprint": "sha256:aa",
            "job": "flight-delay-aa-g1-1",
            "attempts": 1,
            "gpu_seconds": 12.5,
            "metrics": {"rmse": 17.25},
            "mlflow_run_id": "r",
        },
        "register": {"registered_model": "flight-delay", "model_version": 3},
    }
    with AirflowClient(airflow.url, username="op", password=PASSWORD) as client:
        report = report_run(client, DAG_ID, RUN_ID)
    assert (report.state, report.data_version, report.job, report.model_version) == (
        RunState.SUCCESS,
        "2013-03-04",
        "flight-delay-aa-g1-1",
        "3",
    )
    assert report.task_seconds == {"resolve": 1.5, "train": 1.5, "register": 1.5}
    assert report.failed_tasks == ()


def test_a_run_that_failed_early_is_summed_up_as_far_as_it_got(airflow: FakeAirflow) -> None:
    states = {"resolve": ("failed", 2), "train": ("upstream_failed", 0), "register": ("upstream_failed", 0)}
    airflow.frames = [
        Frame(
            "failed",
            states,
            {"resolve/2": ["::group::Pre Execute", *(f"line {n}\nand more" for n in range(99)), "::endgroup::"]},
        )
    ]
    with AirflowClient(airflow.url, username="op", password=PASSWORD) as client:
        report = report_run(client, DAG_ID, RUN_ID)
        tail = log_tail(client, DAG_ID, RUN_ID, "resolve")
        assert log_tail(client, DAG_ID, RUN_ID, "train") == []
    assert (report.state, report.data_version, report.model_version) == (RunState.FAILED, None, None)
    assert report.failed_tasks == ("resolve",)
    assert tail[-2:] == ["line 98", "and more"]
    assert len(tail) == 40
