"""The real program: what it leaves behind when it ends well, when it is stopped, and when it can not train."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.trainer.harness import DEADLINE_S, VERSION, Ended, Trainer, environment, flight, publish, write_version

from gpu_training.contract import RESULT_PREFIX, ExitCode, ResultStatus, parse_result

pytestmark = pytest.mark.trainer

ROUNDS = ("--rounds=30", "--checkpoint-every=10")


@pytest.fixture(scope="module")
def uninterrupted(versions: Path, tmp_path_factory: pytest.TempPathFactory) -> Ended:
    trainer = Trainer(folder=tmp_path_factory.mktemp("whole"), manifest=versions / VERSION / "manifest.json")
    return trainer.run(*ROUNDS)


def test_training_leaves_a_result_that_can_be_believed(uninterrupted: Ended) -> None:
    result = uninterrupted.result
    assert uninterrupted.code == ExitCode.TRAINED, uninterrupted.stderr
    assert (result.status, result.error) == (ResultStatus.TRAINED, None)
    assert (result.data_version, result.first_step, result.last_step) == (VERSION, 1, 30)
    assert result.device == "cpu", "asked of the booster, which is built without CUDA here"
    assert set(result.metrics) == {"rmse", "mae", "r2", "baseline_rmse"}
    assert 0 < result.metrics["mae"] < result.metrics["rmse"] < 100
    assert result.metrics["r2"] < 0.5, "a delay can not be known so well before departure: something leaks"


def test_progress_counts_to_the_end_and_names_checkpoints(uninterrupted: Ended) -> None:
    steps = [line.step for line in uninterrupted.progress]
    assert steps == sorted(set(steps))
    assert {1, 10, 20, 30} <= set(steps)
    assert [line.checkpoint_step for line in uninterrupted.progress if line.step in (1, 10, 30)] == [None, 10, 30]
    assert uninterrupted.progress[-1].fraction == 1
    start, *others = uninterrupted.progress
    assert (start.step, start.loss, start.throughput) == (0, None, None), "told before the first step is done"
    assert all(line.loss and line.throughput for line in others)
    assert {line.first_step for line in uninterrupted.progress} == {1}


def test_result_is_in_the_log_once_more_and_says_whose_it_is(uninterrupted: Ended) -> None:
    lines = [line for line in uninterrupted.stdout.splitlines() if line.startswith(RESULT_PREFIX)]
    assert [parse_result(line.removeprefix(RESULT_PREFIX)) for line in lines] == [uninterrupted.result]
    assert (uninterrupted.result.pod_uid, uninterrupted.result.checkpoint_step) == ("pod-1", 30)


def test_other_target_is_another_model(trainer: Trainer) -> None:
    ended = trainer.run("--rounds=40", "--target=air_time")
    assert ended.code == ExitCode.TRAINED, ended.stderr
    assert ended.result.metrics["r2"] > 0.9, "the distance tells how long a flight takes"


def test_sigterm_takes_a_checkpoint_and_the_next_pod_ends_where_one_alone_would(
    trainer: Trainer, uninterrupted: Ended
) -> None:
    running = trainer.start(*ROUNDS, "--round-seconds=0.1")
    running.wait_for(lambda progress: progress.step >= 10)
    running.process.send_signal(signal.SIGTERM)
    stopped = running.end()
    assert stopped.code == ExitCode.INTERRUPTED
    last = stopped.result.last_step
    assert last is not None
    assert 10 <= last < 30
    assert stopped.result.status is ResultStatus.FAILED
    assert f"interrupted by SIGTERM after step {last} of 30" in (stopped.result.error or "")
    assert stopped.progress[-1].checkpoint_step == last

    resumed = trainer.run(*ROUNDS)
    assert resumed.code == ExitCode.TRAINED, resumed.stderr
    assert (resumed.result.first_step, resumed.result.last_step) == (last + 1, 30)
    start = resumed.progress[0]
    assert (start.step, start.first_step, start.checkpoint_step) == (last, last + 1, last)
    assert resumed.result.metrics == pytest.approx(dict(uninterrupted.result.metrics), rel=1e-6)


def test_killed_pod_is_resumed_from_its_last_whole_checkpoint(trainer: Trainer, uninterrupted: Ended) -> None:
    assert trainer.run(*ROUNDS).code == ExitCode.TRAINED
    (trainer.checkpoints / "pod-1" / "step-00000030" / "COMPLETE").unlink()
    (trainer.checkpoints / "pod-1" / "step-00000020" / "model.ubj").write_bytes(b"half")
    resumed = trainer.run(*ROUNDS)
    assert resumed.result.first_step == 11, resumed.stderr
    assert resumed.stderr.count("is passed over") == 2
    assert resumed.result.metrics == pytest.approx(dict(uninterrupted.result.metrics), rel=1e-6)


def test_pod_killed_anywhere_again_and_again_costs_no_more_than_a_step_each(
    trainer: Trainer, uninterrupted: Ended
) -> None:
    often = ("--rounds=30", "--checkpoint-every=1")
    for step in (3, 9, 16):
        running = trainer.start(*often, "--round-seconds=0.02")
        running.wait_for(lambda progress, step=step: progress.step >= step and progress.loss is not None)
        running.process.kill()
        assert running.process.wait() == -signal.SIGKILL
    ended = trainer.run(*often)
    assert (ended.result.first_step or 0) >= 16, ended.stderr
    assert ended.result.metrics == pytest.approx(dict(uninterrupted.result.metrics), rel=1e-6)


def test_sigterm_while_the_store_hangs_ends_the_training_before_it_would_be_killed(trainer: Trainer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        running = trainer.start(
            *ROUNDS,
            GPU_TRAINING_CHECKPOINT_URI="s3://bucket/checkpoints",
            GPU_TRAINING_GRACE_SECONDS="2",
            AWS_ENDPOINT_URL=f"http://127.0.0.1:{silent.getsockname()[1]}",
            AWS_ACCESS_KEY_ID="key",
            AWS_SECRET_ACCESS_KEY="secret",
        )
        silent.settimeout(DEADLINE_S)
        connection, _ = silent.accept()
        running.process.send_signal(signal.SIGTERM)
        ended = running.end()
        connection.close()
    assert ended.code == ExitCode.INTERRUPTED, ended.stderr
    assert "it hung until the end of the grace period" in (ended.result.error or "")


def test_finished_training_is_not_repeated(trainer: Trainer, uninterrupted: Ended) -> None:
    assert trainer.run(*ROUNDS).code == ExitCode.TRAINED
    again = trainer.run(*ROUNDS)
    assert (again.result.first_step, again.result.last_step) == (31, 30)
    assert again.result.metrics == pytest.approx(dict(uninterrupted.result.metrics), rel=1e-6)


def change_digest(trainer: Trainer) -> dict[str, str]:
    return {"GPU_TRAINING_DATA_DIGEST": "sha256:" + "0" * 64}


def change_file(trainer: Trainer) -> dict[str, str]:
    return own_copy(trainer, lambda path: path.write_bytes(path.read_bytes()[:-1] + b"x"))


def cut_file(trainer: Trainer) -> dict[str, str]:
    return own_copy(trainer, lambda path: path.write_bytes(path.read_bytes()[:-1]))


def lose_file(trainer: Trainer) -> dict[str, str]:
    return own_copy(trainer, Path.unlink)


def own_copy(trainer: Trainer, harm: Callable[[Path], object]) -> dict[str, str]:
    copy = shutil.copytree(trainer.manifest.parent, trainer.folder / "copy")
    harm(copy / "flights-2013-w05.csv.gz")
    return {"GPU_TRAINING_DATA_URI": (copy / "manifest.json").as_uri()}


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (change_digest, "the digest asked for is sha256:0000"),
        (change_file, "flights-2013-w05.csv.gz: sha256="),
        (cut_file, "bytes: the manifest says"),
        (lose_file, "flights-2013-w05.csv.gz: there is no such file"),
    ],
)
def test_data_that_is_not_what_was_resolved_is_refused(
    trainer: Trainer, harm: Callable[[Trainer], dict[str, str]], message: str
) -> None:
    ended = trainer.run(**harm(trainer))
    assert ended.code == ExitCode.BAD_DATA
    assert ended.result.status is ResultStatus.FAILED
    assert message in (ended.result.error or "")
    assert "Traceback" not in ended.stderr


def test_manifest_of_another_version_is_refused(trainer: Trainer) -> None:
    ended = trainer.run(version="2013-03-18")
    assert ended.code == ExitCode.BAD_DATA
    assert "id='2013-03-11': the data version asked for is '2013-03-18'" in (ended.result.error or "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rounds=-1"], "--rounds: '-1': a whole number from 1 to 100000 is expected"),
        (["--epochs=3"], "--epochs: no such argument"),
        (["--device=cuda"], "--device=cuda: this XGBoost is built without CUDA"),
    ],
)
def test_bad_argument_has_a_code_of_its_own_and_one_clear_message(
    trainer: Trainer, arguments: list[str], message: str
) -> None:
    ended = trainer.run(*arguments)
    assert ended.code == ExitCode.BAD_CONFIGURATION
    assert message in (ended.result.error or "")
    assert "Traceback" not in ended.stderr


def test_model_that_would_be_left_nowhere_is_not_trained(trainer: Trainer) -> None:
    ended = trainer.run(GPU_TRAINING_CHECKPOINT_URI="")
    assert ended.code == ExitCode.BAD_CONFIGURATION
    assert "the model would be left nowhere" in (ended.result.error or "")


def test_loss_that_is_not_finite_ends_the_training(trainer: Trainer) -> None:
    rows = [flight(day, sched_dep_time=500 + day, arr_delay=(-1) ** day * 1e30) for day in range(1, 11)] * 9
    trainer.manifest = write_version(trainer.folder / "data", rows)
    ended = trainer.run(*ROUNDS)
    assert ended.code == ExitCode.NAN_LOSS
    assert "rmse is inf after step 1" in (ended.result.error or "")


def test_unforeseen_error_is_told_with_its_trace(trainer: Trainer) -> None:
    # A model of the right digest that XGBoost can not read: whatever wrote it, no rule foresees it.
    from trainer.checkpoints import Checkpoint, open_checkpoints

    losses = {"train_rmse": (1.0,), "held_out_rmse": (1.0,)}
    own = open_checkpoints(trainer.checkpoints.as_uri(), writer="pod-0", fingerprint="f" * 64)
    assert own.save(1, Checkpoint(step=1, model=b"{nonsense", losses=losses).files)
    ended = trainer.run(*ROUNDS)
    assert ended.code == ExitCode.OTHER
    assert "Traceback" in ended.stderr
    assert ended.result.status is ResultStatus.FAILED


def test_help_is_quick_and_no_training() -> None:
    code = "import sys, trainer.__main__ as m\ntry: m.main(['--help'])\nexcept SystemExit: print(sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True)
    assert "--checkpoint-every" in done.stdout
    for heavy in ("'pandas'", "'xgboost'", "'mlflow'", "'fsspec'"):
        assert heavy not in done.stdout


def test_data_and_checkpoints_in_s3(trainer: Trainer, s3_variables: dict[str, str]) -> None:
    published = publish("s3://flights/versions", "--weeks", "2", "--rows-per-day", "40", **s3_variables)
    assert published.returncode == 0, published.stderr
    trainer.variables = {
        **s3_variables,
        "GPU_TRAINING_DATA_URI": f"s3://flights/versions/{VERSION}/manifest.json",
        "GPU_TRAINING_CHECKPOINT_URI": "s3://flights/checkpoints/flight-delay",
    }
    first = trainer.run("--rounds=50", "--checkpoint-every=10")
    assert first.code == ExitCode.TRAINED, first.stderr
    assert first.progress[-1].checkpoint_step == 50
    again = trainer.run("--rounds=50", "--checkpoint-every=10")
    assert (again.result.first_step, again.result.metrics) == (51, first.result.metrics), again.stderr
