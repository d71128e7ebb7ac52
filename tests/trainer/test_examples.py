"""The two examples keep the contract, run for real: without interruptions, and after each kind of them."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.trainer.harness import ROOT, Ended, Running
from tests.trainer.programs import PYTHON_EXAMPLE, SHELL_EXAMPLE, Programs

from gpu_training.checkpoints import Checkpoints, DirectoryStore
from gpu_training.contract import RESULT_PREFIX, ExitCode, ResultStatus, parse_result

pytestmark = pytest.mark.trainer

EXAMPLES = pytest.mark.parametrize("example", [PYTHON_EXAMPLE, SHELL_EXAMPLE], ids=["python", "shell"])
SLOW = {"STEP_SECONDS": "0.02"}


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Programs]:
    programs = Programs(tmp_path)
    yield programs
    programs.end()


def check_trained(ended: Ended, *, first_step: int, pod: int) -> None:
    result = ended.result
    assert (ended.code, result.status, result.error) == (ExitCode.TRAINED, ResultStatus.TRAINED, None), ended.stderr
    assert (result.first_step, result.last_step, result.checkpoint_step) == (first_step, 200, 200)
    assert (result.pod_uid, result.data_version) == (f"pod-{pod}", "2013-03-11")
    start = ended.progress[0]
    assert (start.step, start.first_step, start.total) == (first_step - 1, first_step, 200)
    assert start.checkpoint_step == (first_step - 1 or None)
    assert (ended.progress[-1].step, ended.progress[-1].checkpoint_step) == (200, 200)
    assert {line.first_step for line in ended.progress} == {first_step}
    lines = [line for line in ended.stdout.splitlines() if line.startswith(RESULT_PREFIX)]
    assert [parse_result(line.removeprefix(RESULT_PREFIX)) for line in lines] == [result]


def at_step(running: Running, step: int) -> Running:
    running.wait_for(lambda progress: progress.step >= step)
    return running


@EXAMPLES
def test_training_without_interruption(programs: Programs, example: tuple[str, ...]) -> None:
    check_trained(programs.start(*example).end(), first_step=1, pod=1)
    whole = Checkpoints(DirectoryStore(programs.checkpoints.as_uri()), writer="reader", fingerprint="f" * 64).newest()
    assert whole is not None
    assert whole.step == 200, "what it leaves is whole by the rules, whichever language wrote it"
    assert len(list(programs.checkpoints.glob("*/*"))) == 3


@EXAMPLES
def test_sigterm_leaves_a_checkpoint_of_the_last_step_and_the_next_pod_goes_on_there(
    programs: Programs, example: tuple[str, ...]
) -> None:
    running = at_step(programs.start(*example, **SLOW), 25)
    running.process.send_signal(signal.SIGTERM)
    stopped = running.end()
    last = stopped.result.last_step
    assert last is not None
    assert 25 <= last < 200
    assert (stopped.code, stopped.result.status) == (ExitCode.INTERRUPTED, ResultStatus.FAILED)
    assert stopped.result.checkpoint_step == last
    assert f"interrupted by SIGTERM after step {last} of 200" in (stopped.result.error or "")
    check_trained(programs.start(*example).end(), first_step=last + 1, pod=2)


@EXAMPLES
def test_sigkill_loses_what_is_past_the_last_checkpoint_only(programs: Programs, example: tuple[str, ...]) -> None:
    running = at_step(programs.start(*example, **SLOW), 45)
    running.process.kill()
    assert running.process.wait() == -signal.SIGKILL
    assert not programs.result_file(1).exists()
    newest = max(int(path.parent.name.removeprefix("step-")) for path in programs.checkpoints.glob("*/*/COMPLETE"))
    assert newest >= 40
    check_trained(programs.start(*example).end(), first_step=newest + 1, pod=2)


@EXAMPLES
@pytest.mark.parametrize("tear", ["no marker", "half a file"])
def test_torn_checkpoint_is_passed_over_with_a_warning(programs: Programs, example: tuple[str, ...], tear: str) -> None:
    programs.start(*example).end()
    marker = programs.marker(1, 200)
    if tear == "no marker":
        marker.unlink()
    else:
        file = next(path for path in marker.parent.iterdir() if path != marker)
        file.write_bytes(file.read_bytes()[:1])
    ended = programs.start(*example).end()
    check_trained(ended, first_step=181, pod=2)
    assert "pod-1/step-00000200 is passed over: " in ended.stderr


@EXAMPLES
def test_checkpoint_of_other_work_is_passed_over(programs: Programs, example: tuple[str, ...]) -> None:
    programs.start(*example, GPU_TRAINING_FINGERPRINT="other").end()
    check_trained(programs.start(*example).end(), first_step=1, pod=2)


@EXAMPLES
@pytest.mark.parametrize("uri", ["s3://bucket/folder", "file:/folder", "folder"])
def test_store_that_can_not_be_written_here_is_bad_configuration(
    programs: Programs, example: tuple[str, ...], uri: str
) -> None:
    ended = programs.start(*example, GPU_TRAINING_CHECKPOINT_URI=uri).end()
    assert (ended.code, ended.result.status) == (ExitCode.BAD_CONFIGURATION, ResultStatus.FAILED)
    assert "file:///path" in (ended.result.error or "")


@EXAMPLES
def test_training_without_checkpoints_ends_well(programs: Programs, example: tuple[str, ...]) -> None:
    ended = programs.start(*example, GPU_TRAINING_CHECKPOINT_URI="").end()
    assert (ended.code, ended.result.first_step, ended.result.last_step) == (0, 1, 200)
    assert ended.result.checkpoint_step is None
    assert not programs.checkpoints.exists()


def test_work_of_the_shell_that_ends_by_the_same_sigterm_is_no_step(programs: Programs) -> None:
    """A runtime that signals all processes of a container ends the step in progress, too."""
    work = programs.folder / "sleep"
    work.write_text("#!/bin/sh\nkill -TERM $PPID\nexit 143\n")
    work.chmod(0o755)
    ended = programs.start(*SHELL_EXAMPLE, PATH=f"{programs.folder}:/usr/bin:/bin").end()
    assert (ended.code, ended.result.last_step, ended.result.first_step) == (ExitCode.INTERRUPTED, 0, 1)


@EXAMPLES
def test_folder_whose_name_looks_like_a_checkpoints_is_none(programs: Programs, example: tuple[str, ...]) -> None:
    """A model may be called step-counter: its name begins the lineage's folder."""
    folder = (programs.folder / "step-counter-0123456789abcdef-g1").as_uri()
    programs.start(*example, GPU_TRAINING_CHECKPOINT_URI=folder).end()
    ended = programs.start(*example, GPU_TRAINING_CHECKPOINT_URI=folder).end()
    assert (ended.code, ended.result.first_step) == (0, 201)


@EXAMPLES
def test_store_that_refuses_costs_checkpoints_and_not_the_training(
    programs: Programs, example: tuple[str, ...]
) -> None:
    programs.checkpoints.mkdir()
    # Not even root can make a folder where a file is.
    (programs.checkpoints / "pod-1").write_text("in the way")
    ended = programs.start(*example).end()
    assert (ended.code, ended.result.last_step, ended.result.checkpoint_step) == (0, 200, None)
    assert "was not written" in ended.stderr


def test_documentation_shows_the_examples_as_they_are() -> None:
    page = (ROOT / "docs" / "contract.md").read_text()
    for language, path in (("python", "python/train.py"), ("sh", "shell/train.sh")):
        text = (ROOT / "include" / "examples" / path).read_text()
        blocks = re.findall(rf"^```{language}\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
        assert blocks
        assert [block for block in blocks if block not in text] == []
    assert len(re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)[0].splitlines()) == 10
