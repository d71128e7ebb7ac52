"""Against a real MLflow server: a run tells one training, however many pods it took and whatever MLflow did."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlflow
import pytest
from mlflow.entities import Run
from tests.trainer.harness import Ended, Gate, Trainer, environment, eventually, flight, free_port, write_version

from gpu_training.contract import ExitCode
from trainer.failures import TrackingFailure
from trainer.tracking import Point, RefusedError, ReplacedError, TrackedRun

pytestmark = pytest.mark.trainer

LOSSES = ("train_rmse", "held_out_rmse")


class Tracking:
    """One run that an operator would have made before the Job."""

    def __init__(self, uri: str, name: str) -> None:
        self.uri = uri
        self.client = mlflow.MlflowClient(uri)
        self.experiment_id = self.client.create_experiment(name)
        self.run_id = self.client.create_run(self.experiment_id).info.run_id
        # RUNNING from the start, as MLflow makes it: only then is a change seen.
        self.client.set_terminated(self.run_id, "FAILED")

    def run(self) -> Run:
        return self.client.get_run(self.run_id)

    def steps(self, metric: str) -> list[int]:
        return [entry.step for entry in self.client.get_metric_history(self.run_id, metric)]

    def variables(self, uri: str | None = None) -> dict[str, str]:
        return {"MLFLOW_TRACKING_URI": uri or self.uri, "MLFLOW_RUN_ID": self.run_id}


@pytest.fixture
def tracking(mlflow_uri: str, request: pytest.FixtureRequest) -> Tracking:
    return Tracking(mlflow_uri, request.node.name)


@pytest.fixture
def tracked(trainer: Trainer, tracking: Tracking) -> Trainer:
    trainer.variables = tracking.variables()
    return trainer


@pytest.fixture
def gate(mlflow_uri: str) -> Iterator[Gate]:
    gate = Gate(int(mlflow_uri.rpartition(":")[2]))
    gate.open()
    yield gate
    gate.shut()


@pytest.mark.case("C110")
def test_run_holds_parameters_metrics_of_each_round_and_a_model_that_predicts(
    tracked: Trainer, tracking: Tracking, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = tracked.run("--rounds=25", "--max-depth=4")
    assert ended.code == ExitCode.TRAINED, ended.stderr
    run = tracking.run()
    assert run.info.status == "FINISHED"
    assert run.data.params["rounds"] == "25"
    assert run.data.params["max_depth"] == "4"
    assert run.data.params["data_digest"] == ended.result.data_digest
    for metric in LOSSES:
        assert tracking.steps(metric) == list(range(1, 26))
    assert {name: run.data.metrics[name] for name in ended.result.metrics} == ended.result.metrics

    uri = ended.result.model_uri or ""
    logged = tracking.client.get_logged_model(uri.removeprefix("models:/"))
    assert (logged.status, logged.source_run_id, logged.experiment_id) == (
        "READY",
        tracking.run_id,
        tracking.experiment_id,
    )
    assert logged.artifact_location.startswith("mlflow-artifacts:/")
    assert {metric.key: metric.value for metric in logged.metrics or []}["rmse"] == ended.result.metrics["rmse"]
    monkeypatch.setenv("MLFLOW_TRACKING_URI", tracking.uri)
    mlflow.set_tracking_uri(tracking.uri)
    model = mlflow.pyfunc.load_model(uri, dst_path=str(tmp_path))
    assert [column.name for column in model.metadata.signature.inputs.inputs][:2] == [
        "day_of_week",
        "sched_dep_time_minutes",
    ]
    assert len(model.predict(model.input_example)) == len(model.input_example) == 5

    assert not tracking.client.search_registered_models(), "registering is the operator's"
    version = register(tracking, uri)
    assert version.source == uri


def register(tracking: Tracking, uri: str) -> Any:
    """Register as the operator does."""
    tracking.client.create_registered_model("flight-delay")
    try:
        return tracking.client.create_model_version(
            "flight-delay", uri, tracking.run_id, model_id=uri.removeprefix("models:/")
        )
    finally:
        tracking.client.delete_registered_model("flight-delay")


@pytest.mark.case("C106")
@pytest.mark.case("C108")
def test_killed_and_resumed_training_is_one_run_whose_metrics_do_not_overlap(
    tracked: Trainer, tracking: Tracking
) -> None:
    rounds = ("--rounds=300", "--checkpoint-every=30")
    running = tracked.start(*rounds, "--round-seconds=0.1")
    logged = eventually(
        lambda: [step for step in tracking.steps("train_rmse") if step > 30], "metrics past a checkpoint"
    )
    assert tracking.run().info.status == "RUNNING", "a run that had ended before is said to run again"
    running.process.kill()
    running.process.wait()

    resumed = tracked.run(*rounds)
    assert resumed.code == ExitCode.TRAINED, resumed.stderr
    assert resumed.result.first_step == 31
    assert min(logged) == 31, "what the killed pod logged past its checkpoint is done again"
    for metric in LOSSES:
        assert tracking.steps(metric) == list(range(1, 301))
    assert "this training" not in resumed.stderr, "parameters are the same and logged once"


@pytest.mark.case("C103")
def test_stopped_training_leaves_no_run_that_seems_to_run(tracked: Trainer, tracking: Tracking) -> None:
    running = tracked.start("--rounds=500", "--round-seconds=0.1", "--checkpoint-every=5")
    running.wait_for(lambda progress: progress.step >= 3)
    running.process.terminate()
    stopped = running.end()
    assert stopped.code == ExitCode.INTERRUPTED
    assert tracking.run().info.status == "KILLED"
    assert tracking.steps("train_rmse")[-1] == stopped.result.last_step


@pytest.mark.case("C104")
def test_failed_training_is_never_shown_as_finished(tracked: Trainer, tracking: Tracking) -> None:
    rows = [flight(day, sched_dep_time=500 + day, arr_delay=(-1) ** day * 1e30) for day in range(1, 11)] * 9
    tracked.manifest = write_version(tracked.folder / "data", rows)
    assert tracked.run().code == ExitCode.NAN_LOSS
    assert tracking.run().info.status == "FAILED"


@pytest.mark.case("C114")
def test_outage_during_the_training_costs_neither_the_training_nor_a_metric(
    trainer: Trainer, tracking: Tracking, gate: Gate
) -> None:
    trainer.variables = tracking.variables(gate.uri)
    running = trainer.start("--rounds=40", "--round-seconds=0.1")
    running.wait_for(lambda progress: progress.step >= 1)
    gate.shut()
    running.wait_for(lambda progress: progress.step >= 33)
    gate.open()
    ended = running.end()
    assert ended.code == ExitCode.TRAINED, ended.stderr
    assert "MLflow does not answer, the training goes on" in ended.stderr
    assert tracking.steps("train_rmse") == list(range(1, 41))
    assert ended.result.model_uri


@pytest.mark.case("C114")
def test_outage_to_the_end_is_bounded_and_the_next_pod_only_logs_what_was_trained(
    trainer: Trainer, tracking: Tracking
) -> None:
    trainer.variables = tracking.variables(f"http://127.0.0.1:{free_port()}")
    ended = trainer.run("--rounds=20", "--tracking-patience=2")
    assert ended.code == ExitCode.OTHER
    assert "MLflow did not take the model within 2 s (--tracking-patience)" in (ended.result.error or "")
    assert "Traceback" not in ended.stderr

    trainer.variables = tracking.variables()
    again = trainer.run("--rounds=20", "--tracking-patience=2")
    assert again.code == ExitCode.TRAINED, again.stderr
    assert (again.result.first_step, again.result.last_step) == (21, 20)
    assert tracking.steps("train_rmse") == list(range(1, 21)), "from the checkpoint, which holds what was not logged"


def test_run_that_does_not_exist_is_refused_before_training(trainer: Trainer, mlflow_uri: str) -> None:
    ended: Ended = trainer.run(MLFLOW_TRACKING_URI=mlflow_uri, MLFLOW_RUN_ID="0" * 32)
    assert ended.code == ExitCode.BAD_CONFIGURATION
    assert f"MLFLOW_RUN_ID={'0' * 32}" in (ended.result.error or "")
    assert not ended.progress


@pytest.mark.case("C107")
def test_process_that_the_training_starts_does_not_take_the_run_for_its_own() -> None:
    code = "import os, trainer.__main__ as m; m.main([]); print('MLFLOW_RUN_ID' in os.environ)"
    variables = {
        "DATA_VERSION": "2013-03-04",
        "GPU_TRAINING_DATA_URI": "file:///nowhere/manifest.json",
        "GPU_TRAINING_DATA_DIGEST": "sha256:" + "0" * 64,
        "GPU_TRAINING_CHECKPOINT_URI": "file:///nowhere",
        "MLFLOW_TRACKING_URI": "http://127.0.0.1:9",
        "MLFLOW_RUN_ID": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(**variables), capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "False", done.stdout
    assert "there is no such file" in done.stdout


def test_replaced_attempt_notices_and_stops_writing(tracking: Tracking) -> None:
    zombie, successor = (TrackedRun(tracking.uri, tracking.run_id, writer=writer) for writer in ("pod-1", "pod-2"))
    zombie.open({"rounds": 3}, metric="train_rmse")
    zombie.check_writer()
    successor.open({"rounds": 3}, metric="train_rmse")
    successor.check_writer()
    with pytest.raises(ReplacedError, match=r"was taken over by pod-2"):
        zombie.check_writer()


def test_an_attempt_that_reaches_the_run_late_takes_it_from_no_later_one(
    tracking: Tracking, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its node was cut off when it began, and another pod has taken its place since."""
    zombie = TrackedRun(tracking.uri, tracking.run_id, writer="pod-1")
    with monkeypatch.context() as later:
        later.setattr("trainer.tracking.time.time", lambda: time.time_ns() / 1e9 + 600)
        successor = TrackedRun(tracking.uri, tracking.run_id, writer="pod-2")
    successor.open({"rounds": 3}, metric="train_rmse")
    with pytest.raises(ReplacedError, match=r"was taken over by pod-2"):
        zombie.open({"rounds": 3}, metric="train_rmse", late=True)
    successor.check_writer()
    successor.open({"rounds": 3}, metric="train_rmse", late=True)


def test_points_sent_twice_are_stored_once(tracking: Tracking) -> None:
    run = TrackedRun(tracking.uri, tracking.run_id, writer="pod-1")
    points = [Point(step=step, at=1_000_000 + step, values={"train_rmse": 1 / step}) for step in range(1, 700)]
    run.log(points)
    run.log(points[-50:])
    assert tracking.steps("train_rmse") == list(range(1, 700))
    assert run.open({}, metric="train_rmse") == 699


def test_parameter_that_differs_is_a_warning_and_stays(tracking: Tracking, caplog: pytest.LogCaptureFixture) -> None:
    run = TrackedRun(tracking.uri, tracking.run_id, writer="pod-1")
    run.open({"rounds": 3, "seed": 1}, metric="train_rmse")
    run.open({"rounds": 4, "seed": 1, "target": "arr_delay"}, metric="train_rmse")
    assert tracking.run().data.params == {"rounds": "3", "seed": "1", "target": "arr_delay"}
    assert "has rounds=3, this training 4" in caplog.text
    assert "seed" not in caplog.text


def test_silence_and_refusal_are_told_apart(mlflow_uri: str) -> None:
    with pytest.raises(RefusedError):
        TrackedRun(mlflow_uri, "0" * 32, writer="pod-1").open({}, metric="train_rmse")
    with pytest.raises(TrackingFailure) as silence:
        TrackedRun(f"http://127.0.0.1:{free_port()}", "0" * 32, writer="pod-1").open({}, metric="train_rmse")
    assert not isinstance(silence.value, RefusedError)
