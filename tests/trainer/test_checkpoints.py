"""A training resumes from the newest whole checkpoint of anyone, and never from half of one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from trainer.checkpoints import READ_PAUSES, Checkpoint, Checkpoints
from trainer.storage import Folder

pytestmark = pytest.mark.trainer


def open_checkpoints(folder: Path, writer: str = "pod-1", fingerprint: str = "f") -> Checkpoints:
    return Checkpoints(Folder(folder.as_uri()), writer=writer, fingerprint=fingerprint)


def checkpoint(step: int) -> Checkpoint:
    return Checkpoint(step=step, model=b"model %d" % step, losses={"rmse": tuple(1 / (n + 1) for n in range(step))})


def newest(checkpoints: Checkpoints, rounds: int = 100) -> Checkpoint | None:
    return checkpoints.newest(rounds=rounds, wait=lambda seconds: pytest.fail(f"waited {seconds} s for a folder"))


def test_there_is_none_before_the_first(tmp_path: Path) -> None:
    assert newest(open_checkpoints(tmp_path / "absent")) is None


def test_newest_of_any_writer_is_found_whole(tmp_path: Path) -> None:
    for writer, step in (("pod-3", 10), ("pod-1", 30), ("pod-2", 20)):
        assert open_checkpoints(tmp_path, writer).save(checkpoint(step))
    assert newest(open_checkpoints(tmp_path, "pod-4")) == checkpoint(30)


def test_writer_keeps_its_last_three_and_touches_no_other(tmp_path: Path) -> None:
    open_checkpoints(tmp_path, "pod-1").save(checkpoint(5))
    own = open_checkpoints(tmp_path, "pod-2")
    for step in range(10, 60, 10):
        own.save(checkpoint(step))
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.glob("*/*")) == [
        "pod-1/step-00000005",
        "pod-2/step-00000030",
        "pod-2/step-00000040",
        "pod-2/step-00000050",
    ]


def forget_marker(folder: Path) -> None:
    (folder / "COMPLETE").unlink()


def cut_model(folder: Path) -> None:
    (folder / "model.ubj").write_bytes(b"mod")


def lose_model(folder: Path) -> None:
    (folder / "model.ubj").unlink()


def cut_state(folder: Path) -> None:
    (folder / "state.json").write_text('{"step":')


def change_state(folder: Path) -> None:
    state = json.loads((folder / "state.json").read_text())
    (folder / "state.json").write_text(json.dumps({**state, "step": 7}))


def empty_marker(folder: Path) -> None:
    (folder / "COMPLETE").write_text("")


def wrong_marker(folder: Path) -> None:
    (folder / "COMPLETE").write_text("[]")


@pytest.mark.parametrize(
    "tear", [forget_marker, cut_model, lose_model, cut_state, change_state, empty_marker, wrong_marker]
)
def test_torn_checkpoint_is_passed_over_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, tear: Callable[[Path], None]
) -> None:
    own = open_checkpoints(tmp_path)
    own.save(checkpoint(10))
    own.save(checkpoint(20))
    tear(tmp_path / "pod-1" / "step-00000020")
    assert newest(open_checkpoints(tmp_path, "pod-2")) == checkpoint(10)
    assert "step-00000020 is passed over" in caplog.text


def test_checkpoint_of_other_work_is_passed_over(tmp_path: Path) -> None:
    open_checkpoints(tmp_path, fingerprint="other").save(checkpoint(20))
    open_checkpoints(tmp_path, "pod-2").save(checkpoint(10))
    assert newest(open_checkpoints(tmp_path, "pod-3")) == checkpoint(10)


def test_checkpoint_beyond_the_last_round_is_passed_over(tmp_path: Path) -> None:
    open_checkpoints(tmp_path).save(checkpoint(20))
    assert newest(open_checkpoints(tmp_path), rounds=19) is None
    assert newest(open_checkpoints(tmp_path), rounds=20) == checkpoint(20)


def test_foreign_files_beside_are_no_checkpoints(tmp_path: Path) -> None:
    for path in ("COMPLETE", "pod-1/COMPLETE", "pod-1/step-1/COMPLETE", "a/pod-1/step-00000020/COMPLETE"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("{}")
    assert newest(open_checkpoints(tmp_path)) is None


class BrokenFolder(Folder):
    """A store that refuses the first few requests."""

    def __init__(self, uri: str, refusals: int) -> None:
        super().__init__(uri)
        self.refusals = refusals

    def _refuse(self) -> None:
        if self.refusals:
            self.refusals -= 1
            raise ConnectionError("the store does not answer")

    def paths(self) -> list[str]:
        self._refuse()
        return super().paths()

    def write(self, path: str, data: bytes) -> None:
        self._refuse()
        super().write(path, data)


@pytest.mark.parametrize(("refusals", "step"), [(1, 20), (len(READ_PAUSES), 20), (len(READ_PAUSES) + 1, None)])
def test_store_that_does_not_answer_is_asked_again_and_then_done_without(
    tmp_path: Path, refusals: int, step: int | None
) -> None:
    open_checkpoints(tmp_path).save(checkpoint(20))
    waits: list[float] = []
    broken = Checkpoints(BrokenFolder(tmp_path.as_uri(), refusals), writer="pod-2", fingerprint="f")
    found = broken.newest(rounds=100, wait=waits.append)
    assert (found.step if found else None) == step
    assert waits == list(READ_PAUSES[:refusals])


def test_checkpoint_that_can_not_be_written_is_no_failure_and_the_next_one_counts(tmp_path: Path) -> None:
    own = Checkpoints(BrokenFolder(tmp_path.as_uri(), 1), writer="pod-1", fingerprint="f")
    assert not own.save(checkpoint(10))
    assert own.save(checkpoint(20))
    assert newest(open_checkpoints(tmp_path, "pod-2")) == checkpoint(20)
