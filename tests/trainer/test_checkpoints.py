"""A training resumes from the newest whole checkpoint of anyone, in the stores that fsspec opens."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from gpu_training.attempt import Attempt, Interrupted
from gpu_training.checkpoints import Checkpoints, DirectoryStore
from trainer.checkpoints import READ_PAUSES, Checkpoint, open_checkpoints, resume
from trainer.storage import Folder

pytestmark = pytest.mark.trainer


def opened(folder: Path, writer: str = "pod-1", fingerprint: str = "f") -> Checkpoints[bytes]:
    return open_checkpoints(folder.as_uri(), writer=writer, fingerprint=fingerprint)


def checkpoint(step: int) -> Checkpoint:
    return Checkpoint(step=step, model=b"model %d" % step, losses={"rmse": tuple(1 / (n + 1) for n in range(step))})


def save(checkpoints: Checkpoints[bytes], *steps: int) -> None:
    for step in steps:
        assert checkpoints.save(step, checkpoint(step).files)
        checkpoints.prune()


def resumed(checkpoints: Checkpoints[bytes], rounds: int = 100) -> Checkpoint | None:
    return resume(Attempt(environ={}, checkpoints=checkpoints), rounds=rounds)


def test_there_is_none_before_the_first(tmp_path: Path) -> None:
    assert resumed(opened(tmp_path / "absent")) is None


def test_newest_of_any_writer_is_found_whole(tmp_path: Path) -> None:
    for writer, step in (("pod-3", 10), ("pod-1", 30), ("pod-2", 20)):
        save(opened(tmp_path, writer), step)
    assert resumed(opened(tmp_path, "pod-4")) == checkpoint(30)


def test_last_three_of_any_writer_are_kept(tmp_path: Path) -> None:
    save(opened(tmp_path, "pod-1"), 5, 10)
    save(opened(tmp_path, "pod-2"), 20, 30)
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.glob("*/*")) == [
        "pod-1/step-00000010",
        "pod-2/step-00000020",
        "pod-2/step-00000030",
    ]


@pytest.mark.parametrize(
    "tear",
    [
        lambda folder: (folder / "COMPLETE").unlink(),
        lambda folder: (folder / "COMPLETE").write_text(""),
        lambda folder: (folder / "model.ubj").write_bytes(b"mod"),
        lambda folder: (folder / "model.ubj").unlink(),
        lambda folder: (folder / "state.json").write_text('{"step":'),
    ],
)
def test_torn_checkpoint_is_passed_over_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, tear: Callable[[Path], object]
) -> None:
    save(opened(tmp_path), 10, 20)
    tear(tmp_path / "pod-1" / "step-00000020")
    assert resumed(opened(tmp_path, "pod-2")) == checkpoint(10)
    assert "step-00000020 is passed over" in caplog.text


def test_checkpoint_of_other_work_or_beyond_the_last_round_is_passed_over(tmp_path: Path) -> None:
    save(opened(tmp_path, "pod-1", "other"), 20)
    save(opened(tmp_path, "pod-2"), 10, 30)
    assert resumed(opened(tmp_path, "pod-3"), rounds=29) == checkpoint(10)


class BrokenFolder(Folder):
    """A store that refuses the first few requests."""

    def __init__(self, uri: str, refusals: int) -> None:
        super().__init__(uri)
        self.refusals = refusals

    def _refuse(self) -> None:
        if self.refusals:
            self.refusals -= 1
            raise ConnectionError("the store does not answer")

    def ages(self) -> Mapping[str, float]:
        self._refuse()
        return super().ages()

    def write(self, path: str, content: bytes) -> None:
        self._refuse()
        super().write(path, content)


class PatientAttempt(Attempt):
    """Notes for how long it was told to wait, instead of waiting."""

    def __init__(self, checkpoints: Checkpoints[bytes]) -> None:
        super().__init__(environ={}, checkpoints=checkpoints)
        self.waits: list[float] = []

    def should_stop(self, *, wait: float = 0) -> bool:
        self.waits.append(wait)
        return False


@pytest.mark.parametrize(("refusals", "step"), [(1, 20), (len(READ_PAUSES), 20), (len(READ_PAUSES) + 1, 0)])
def test_store_that_does_not_answer_is_asked_again_and_then_done_without(
    tmp_path: Path, refusals: int, step: int
) -> None:
    save(opened(tmp_path), 20)
    broken = BrokenFolder(tmp_path.as_uri(), refusals)
    attempt = PatientAttempt(Checkpoints(broken, writer="pod-2", fingerprint="f"))
    found = resume(attempt, rounds=100)
    assert (found.step if found else 0, attempt.first_step) == (step, step + 1)
    assert attempt.waits == list(READ_PAUSES[:refusals])


def test_checkpoint_that_can_not_be_written_is_no_failure_and_the_next_one_counts(tmp_path: Path) -> None:
    own = Checkpoints(BrokenFolder(tmp_path.as_uri(), 1), writer="pod-1", fingerprint="f")
    assert not own.save(10, checkpoint(10).files)
    save(own, 20)
    assert resumed(opened(tmp_path, "pod-2")) == checkpoint(20)


def test_sigterm_while_the_store_is_silent_is_no_beginning_at_the_first_step(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "way").write_text("a file is in the way")
    attempt = Attempt(environ={}, checkpoints=Checkpoints(DirectoryStore(str(tmp_path / "way")), writer="pod-1"))
    attempt.notice._remember(signal.SIGTERM, None)
    with pytest.raises(Interrupted, match="while the checkpoints could not be read"):
        resume(attempt, rounds=100)
    assert (attempt.first_step, attempt.last_step) == (None, None)
    assert "FIRST STEP" not in caplog.text
