"""A program that keeps to the library ends as the contract says, however it ends: each as a real process."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.trainer.harness import Running, eventually
from tests.trainer.programs import Programs

from gpu_training.contract import ExitCode, ResultStatus

pytestmark = pytest.mark.trainer


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Programs]:
    programs = Programs(tmp_path)
    yield programs
    programs.end()


def terminate(running: Running, *, step: int) -> Running:
    running.wait_for(lambda progress: progress.step >= step)
    running.process.send_signal(signal.SIGTERM)
    return running


# --- exit codes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "code", "error"),
    [
        ("raise Failure('loss is nan after step 3', ExitCode.NAN_LOSS)", 83, "loss is nan after step 3"),
        ("raise Failure('2013.csv is empty', ExitCode.BAD_DATA)", 81, "2013.csv is empty"),
        ("raise Failure('no luck')", 1, "no luck"),
        ("raise RuntimeError('CUDA error: out of memory')", 82, "RuntimeError: CUDA error: out of memory"),
        ("raise RuntimeError('NCCL watchdog: operation timed out')", 84, "RuntimeError: NCCL watchdog"),
        ("raise MemoryError", 1, "MemoryError"),
        ("1 / 0", 1, "ZeroDivisionError: division by zero"),
        ("sys.exit(3)", 3, "SystemExit: 3"),
        ("sys.exit(256)", 1, "SystemExit: 256"),
        ("sys.exit('why')", 1, "SystemExit: why"),
        ("sys.exit()", 1, "Attempt.trained was not called"),
        ("pass", 1, "Attempt.trained was not called"),
        ("attempt.trained(metrics={'loss': float('nan')})", 80, "metrics.loss=nan: a result's metrics are finite"),
        ("attempt.trained(metrics={f'metric {n}': 0.5 for n in range(300)})", 80, "at most 2048 fit"),
        ("attempt.environment.require('GPU_TRAINING_X')", 1, "AttributeError"),
    ],
)
def test_every_end_but_a_trained_one_has_a_code_and_a_failed_result(
    programs: Programs, body: str, code: int, error: str
) -> None:
    ended = programs.python(f"with Attempt() as attempt:\n    {body}\n").end()
    assert (ended.code, ended.result.status) == (code, ResultStatus.FAILED)
    assert error in (ended.result.error or "")
    assert ended.result.pod_uid == "pod-1"


def test_trace_is_told_of_what_nobody_foresaw_alone(programs: Programs) -> None:
    unforeseen = programs.python("with Attempt():\n    1 / 0\n").end()
    foreseen = programs.python("with Attempt():\n    raise Failure('no luck')\n").end()
    assert ("Traceback" in unforeseen.stderr, "Traceback" in foreseen.stderr) == (True, False)


def test_trained_is_zero_and_the_program_goes_on_after_it(programs: Programs) -> None:
    ended = programs.python(
        "with Attempt() as attempt:\n    attempt.device = 'cpu'\n"
        "    attempt.trained(metrics={'loss': 0.5}, model_uri='models:/m-1')\nprint('on it goes')\n"
    ).end()
    assert (ended.code, ended.result.status, ended.result.model_uri) == (0, ResultStatus.TRAINED, "models:/m-1")
    assert (dict(ended.result.metrics), ended.result.device) == ({"loss": 0.5}, "cpu")
    assert "on it goes" in ended.stdout


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("GPU_TRAINING_DATA_DIGEST", "sha256:0"),
        ("GPU_TRAINING_GRACE_SECONDS", "soon"),
        ("GPU_TRAINING_POD_UID", "../other"),
    ],
)
def test_variable_that_can_not_be_is_named_before_anything_is_done(
    programs: Programs, variable: str, value: str
) -> None:
    ended = programs.python("with Attempt():\n    print('trains')\n", **{variable: value}).end()
    assert ended.code == ExitCode.BAD_CONFIGURATION
    assert (ended.result.error or "").startswith(f"{variable}={value!r}: ")
    assert "trains" not in ended.stdout


def test_output_that_nobody_reads_any_more_fails_no_training(programs: Programs) -> None:
    body = "sys.stdout.close()\nwith Attempt() as attempt:\n    list(attempt.steps(total=3))\n    attempt.trained()\n"
    ended = programs.python(body).end()
    assert (ended.code, ended.result.last_step) == (0, 3), ended.stderr


def test_place_for_the_result_that_can_not_be_written_is_a_warning(programs: Programs) -> None:
    absent = programs.folder / "absent" / "file"
    running = programs.python(
        "with Attempt() as attempt:\n    attempt.trained()\n", GPU_TRAINING_TERMINATION_LOG=str(absent)
    )
    assert running.process.wait() == 0
    stdout, stderr = running.output()
    assert f"{absent}: the result document was not written" in stderr
    assert 'GPU_TRAINING_RESULT {"v":1,"status":"trained"' in stdout


def test_outside_of_a_container_nothing_is_made_in_dev(programs: Programs) -> None:
    place = programs.folder / "termination-log"
    body = f"import gpu_training.attempt as library\nlibrary.TERMINATION_MESSAGE_PATH = {str(place)!r}\n"
    body += "with Attempt() as attempt:\n    attempt.trained()\n"
    running = programs.python(body, GPU_TRAINING_TERMINATION_LOG="")
    assert running.process.wait() == 0
    assert f"{place} does not exist" in running.output()[1]
    assert not place.exists()
    place.touch()
    assert programs.python(body, GPU_TRAINING_TERMINATION_LOG="").process.wait() == 0
    assert place.read_text().startswith('{"v":1,"status":"trained"')


# --- SIGTERM ----------------------------------------------------------------------------------------------------------

TRAINING = """
with Attempt() as attempt:
    saved = attempt.resume()
    for step in attempt.steps(total=100_000, checkpoint_every={every}):
        attempt.should_stop(wait=0.01)
        attempt.step_done(step)
        if attempt.checkpoint_due():
            attempt.save({save})
    attempt.trained()
"""
SAVE = "{'model': b'%d' % step}"


def test_stop_that_is_taken_for_the_end_is_not_zero(programs: Programs) -> None:
    """The classic mistake: to leave the loop, and to go on as if the model were trained."""
    body = """
with Attempt() as attempt:
    attempt.begin_steps(total=100_000)
    step = 0
    while not attempt.should_stop(wait=0.01):
        step += 1
        attempt.step_done(step)
    attempt.trained(model_uri="models:/half")
"""
    ended = terminate(programs.python(body), step=1).end()
    assert (ended.code, ended.result.status) == (ExitCode.INTERRUPTED, ResultStatus.FAILED)
    assert ended.result.model_uri is None


def test_sigterm_after_the_last_step_does_not_spoil_what_is_trained(programs: Programs) -> None:
    body = """
with Attempt() as attempt:
    for step in attempt.steps(total=3):
        pass
    print('waiting', flush=True)
    assert attempt.should_stop(wait=100)
    attempt.trained()
"""
    ended = terminate(programs.python(body), step=3).end()
    assert (ended.code, ended.result.status) == (ExitCode.TRAINED, ResultStatus.TRAINED), ended.stderr


def test_error_that_follows_a_sigterm_is_an_interruption(programs: Programs) -> None:
    body = """
with Attempt() as attempt:
    attempt.begin_steps()
    attempt.should_stop(wait=100)
    raise RuntimeError('NCCL: a peer is gone, timeout')
"""
    ended = terminate(programs.python(body), step=0).end()
    assert ended.code == ExitCode.INTERRUPTED
    assert "NCCL: a peer is gone" in (ended.result.error or "")


def test_sigterm_while_the_program_hangs_in_native_code_ends_it_before_it_would_be_killed(programs: Programs) -> None:
    body = """
import ctypes
library, mutex = ctypes.CDLL(None), ctypes.create_string_buffer(64)
with Attempt() as attempt:
    attempt.begin_steps(total=10)
    library.pthread_mutex_lock(mutex)
    library.pthread_mutex_lock(mutex)
"""
    ended = terminate(programs.python(body, GPU_TRAINING_GRACE_SECONDS="1"), step=0).end()
    assert (ended.code, ended.result.status) == (ExitCode.INTERRUPTED, ResultStatus.FAILED), ended.stderr
    assert "it hung until the end of the grace period" in (ended.result.error or "")
    assert "GPU_TRAINING_RESULT" in ended.stdout


def test_store_that_hangs_is_left_before_the_kill_and_its_checkpoint_is_torn(programs: Programs) -> None:
    hang = "(lambda folder: (folder / 'model').write_bytes(b'half') and step > 5 and time.sleep(1e6))"
    running = programs.python(TRAINING.format(every=5, save=hang), GPU_TRAINING_GRACE_SECONDS="1")
    running.wait_for(lambda progress: progress.step >= 5)
    eventually((programs.marker(1, 10).parent / "model").exists, "the second checkpoint is being written")
    running.process.send_signal(signal.SIGTERM)
    ended = running.end()
    assert (ended.code, ended.result.checkpoint_step) == (ExitCode.INTERRUPTED, 5), ended.stderr
    assert "hung" in (ended.result.error or "")
    assert programs.marker(1, 5).exists()
    assert not programs.marker(1, 10).exists()


def test_pod_killed_while_it_writes_leaves_a_torn_checkpoint_and_the_next_resumes_before_it(programs: Programs) -> None:
    hang = "(lambda folder: (folder / 'model').write_bytes(b'half') and step > 5 and time.sleep(1e6))"
    running = programs.python(TRAINING.format(every=5, save=hang))
    eventually((programs.marker(1, 10).parent / "model").exists, "the second checkpoint is being written")
    running.process.kill()
    running.process.wait()
    ended = terminate(programs.python(TRAINING.format(every=5, save=SAVE)), step=6).end()
    assert ended.result.first_step == 6
    assert "pod-1/step-00000010 is passed over: COMPLETE is absent" in ended.stderr


def test_last_checkpoint_that_would_not_be_whole_in_time_is_not_begun(programs: Programs) -> None:
    # The one before took longer than the whole grace period: it is over at once.
    slow = "(lambda folder: (time.sleep(2.1), (folder / 'model').write_bytes(b'x')))"
    running = programs.python(TRAINING.format(every=10, save=slow), GPU_TRAINING_GRACE_SECONDS="2")
    running.wait_for(lambda progress: progress.checkpoint_step == 10)
    running.process.send_signal(signal.SIGTERM)
    ended = running.end()
    assert ended.code == ExitCode.INTERRUPTED
    assert ended.result.checkpoint_step == 10
    assert f"no checkpoint of step {ended.result.last_step} is taken: " in ended.stderr
    assert "and the last one took 2." in ended.stderr
    assert "hung" not in (ended.result.error or "")


def test_processes_that_a_training_forks_die_of_sigterm_and_it_does_not_take_theirs_for_its_own(
    programs: Programs,
) -> None:
    """Loaders of data end their workers so."""
    body = """
import multiprocessing
with Attempt() as attempt:
    attempt.begin_steps(total=1)
    worker = multiprocessing.get_context('fork').Process(target=time.sleep, args=(1e6,))
    worker.start()
    worker.terminate()
    worker.join(60)
    print('worker:', worker.exitcode, attempt.should_stop(wait=0.2), flush=True)
    attempt.step_done(1)
    attempt.trained()
"""
    ended = programs.python(body).end()
    assert "worker: -15 False" in ended.stdout
    assert ended.code == 0


def test_attempt_begins_in_the_main_thread_alone(programs: Programs) -> None:
    body = """
import threading
from gpu_training.contract import ContractError
codes = []
def train():
    try:
        with Attempt() as attempt:
            attempt.trained()
    except ContractError as error:
        codes.append(80)
thread = threading.Thread(target=train)
thread.start()
thread.join()
sys.exit(codes[0])
"""
    ended = programs.python(body).end()
    assert ended.code == ExitCode.BAD_CONFIGURATION
    assert "begin the attempt there" in (ended.result.error or "")


def test_a_second_sigterm_changes_nothing(programs: Programs) -> None:
    running = programs.python(TRAINING.format(every=0, save=SAVE))
    running.wait_for(lambda progress: progress.step >= 3)
    for _ in range(3):
        running.process.send_signal(signal.SIGTERM)
    ended = running.end()
    assert (ended.code, ended.result.checkpoint_step) == (ExitCode.INTERRUPTED, ended.result.last_step)


# --- numbers of other libraries, and steps that nobody told -----------------------------------------------------------


@pytest.mark.parametrize("number", ["numpy.float32(0.5)", "numpy.array([0.5])", "numpy.float64('nan')", "'much'"])
def test_no_loss_of_whatever_kind_ends_a_training(programs: Programs, number: str) -> None:
    ended = programs.python(
        "import numpy\n"
        "with Attempt() as attempt:\n"
        "    for step in attempt.steps(total=2):\n"
        f"        attempt.step_done(step, loss={number})\n"
        "    attempt.trained(metrics={'loss': numpy.float32(0.5)})\n"
    ).end()
    assert (ended.code, ended.result.status) == (0, ResultStatus.TRAINED)
    assert dict(ended.result.metrics) == {"loss": 0.5}


@pytest.mark.parametrize("metric", ["'much'", "True", "numpy.array([1, 2])", "None"])
def test_a_metric_that_is_no_number_is_refused_and_leaves_a_document(programs: Programs, metric: str) -> None:
    ended = programs.python(
        f"import numpy\nwith Attempt() as attempt:\n    attempt.trained(metrics={{'loss': {metric}}})\n"
    ).end()
    assert (ended.code, ended.result.status) == (80, ResultStatus.FAILED)
    assert "metrics.loss" in (ended.result.error or "")


def test_a_checkpoint_is_of_the_step_in_progress_though_no_progress_was_told(programs: Programs) -> None:
    ended = programs.python(
        "with Attempt() as attempt:\n"
        "    attempt.resume()\n"
        "    for step in attempt.steps(total=10, checkpoint_every=4):\n"
        "        if attempt.checkpoint_due():\n"
        "            attempt.save({'state': str(step).encode()})\n"
        "    attempt.trained()\n"
    ).end()
    assert ended.result.checkpoint_step == 10
    states = {folder.name: (folder / "state").read_text() for folder in programs.checkpoints.glob("*/step-*")}
    assert states == {"step-00000004": "4", "step-00000008": "8", "step-00000010": "10"}


def test_sigterm_after_the_training_ends_what_follows_as_it_would_any_program(programs: Programs) -> None:
    body = """
with Attempt() as attempt:
    list(attempt.steps(total=2))
    attempt.trained()
attempt.begin_steps(total=9)
time.sleep(1e6)
"""
    running = programs.python(body)
    running.wait_for(lambda progress: progress.total == 9)
    running.process.send_signal(signal.SIGTERM)
    ended = running.end(seconds=20)
    assert (ended.code, ended.result.status) == (-signal.SIGTERM, ResultStatus.TRAINED)


@pytest.mark.parametrize(
    ("resumed", "first"), [("", 1), ("attempt.resumed_from(4)", 5), ("attempt.resumed_from(0)", 1)]
)
def test_program_that_does_not_ask_for_checkpoints_writes_them_all_the_same(
    programs: Programs, resumed: str, first: int
) -> None:
    body = f"""
with Attempt() as attempt:
    {resumed}
    for step in attempt.steps(total=6, checkpoint_every=3):
        attempt.step_done(step)
        if attempt.checkpoint_due():
            assert attempt.save({{"model": b"x"}})
    attempt.trained()
"""
    ended = programs.python(body).end()
    assert (ended.code, ended.result.first_step, ended.result.checkpoint_step) == (0, first, 6), ended.stderr
    assert programs.marker(1, 6).exists()


def test_training_whose_last_step_is_in_the_checkpoint_has_only_its_result_left_to_tell(programs: Programs) -> None:
    """A pod that is killed while it publishes: the last step always takes a checkpoint."""
    body = """
with Attempt() as attempt:
    saved = attempt.resume()
    weight = float(saved.files["weight"].read_text()) if saved else 0.0
    for step in attempt.steps(total=4, checkpoint_every=2):
        weight += 1
        attempt.step_done(step, loss=4 - weight)
        if attempt.checkpoint_due():
            attempt.save({"weight": str(weight).encode()})
    if not saved:
        os.kill(os.getpid(), signal.SIGKILL)
    attempt.trained(metrics={"loss": 4 - weight})
"""
    assert programs.python(body).process.wait() == -signal.SIGKILL
    again = programs.python(body).end()
    assert (again.code, again.result.first_step, again.result.last_step) == (0, 5, 4), again.stderr
    assert dict(again.result.metrics) == {"loss": 0}


def test_training_that_went_beyond_its_end_is_named_and_not_taken_for_trained(programs: Programs) -> None:
    body = "with Attempt() as attempt:\n    attempt.resumed_from(400)\n"
    ended = programs.python(body + "    list(attempt.steps(total=200))\n    attempt.trained()\n").end()
    assert (ended.code, ended.result.status) == (ExitCode.BAD_CONFIGURATION, ResultStatus.FAILED)
    assert (ended.result.error or "").startswith(
        "total=200: the checkpoint that the training goes on from is of step 400"
    )


def test_training_that_is_trained_and_hangs_while_it_cleans_up_is_trained(programs: Programs) -> None:
    body = """
with Attempt() as attempt:
    list(attempt.steps(total=3))
    attempt.trained(metrics={'loss': 0.5})
    attempt.device = object()
    time.sleep(1e6)
"""
    running = programs.python(body, GPU_TRAINING_GRACE_SECONDS="1")
    running.wait_for(lambda progress: progress.step >= 3)
    running.process.send_signal(signal.SIGTERM)
    ended = running.end()
    assert (ended.code, ended.result.status, dict(ended.result.metrics)) == (0, ResultStatus.TRAINED, {"loss": 0.5})


@pytest.mark.parametrize("odd", ["attempt.metrics = 7", "attempt.last_step = 'far'", "attempt.data_version = object()"])
def test_whatever_the_program_has_set_its_failure_is_told(programs: Programs, odd: str) -> None:
    ended = programs.python(f"with Attempt() as attempt:\n    {odd}\n    raise Failure('no luck')\n").end()
    assert (ended.code, ended.result.status, ended.result.error) == (1, ResultStatus.FAILED, "no luck")
