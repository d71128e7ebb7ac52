"""Checkpoints in a folder of a plain file system: what is read is whole, what is damaged is told."""

from __future__ import annotations

import errno
import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gpu_training.attempt import Failure
from gpu_training.checkpoints import Checkpoint, Checkpoints, DirectoryStore
from gpu_training.contract import TORN_SECONDS, ContractError, ExitCode

pytestmark = pytest.mark.trainer


class Lineage:
    """The checkpoints below one folder, as each of its pods opens them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.said: list[str] = []
        self.later = 0.0

    def pod(self, name: str = "pod-1", *, fingerprint: str = "f", keep: int = 3) -> Checkpoints[Path]:
        store = DirectoryStore(self.folder.as_uri(), clock=lambda: time.time() + self.later)
        return Checkpoints(store, writer=name, fingerprint=fingerprint, keep=keep, say=self.said.append)

    def save(self, step: int, name: str = "pod-1", *, fingerprint: str = "f") -> Path:
        assert self.pod(name, fingerprint=fingerprint).save(step, {"model": b"model %d" % step, "more/a": b"a"})
        return self.folder / name / f"step-{step:08d}"

    @property
    def left(self) -> list[str]:
        return sorted(str(path.relative_to(self.folder)) for path in self.folder.glob("*/*"))


@pytest.fixture
def lineage(tmp_path: Path) -> Lineage:
    return Lineage(tmp_path / "folder")


def content(checkpoint: Checkpoint[Path] | None) -> dict[str, bytes] | None:
    return {name: path.read_bytes() for name, path in checkpoint.files.items()} if checkpoint else None


def test_there_is_none_where_there_is_no_folder_yet(lineage: Lineage) -> None:
    assert lineage.pod().newest() is None
    assert lineage.said == []


def test_what_is_read_is_what_any_pod_wrote_last(lineage: Lineage) -> None:
    for name, step in (("pod-3", 10), ("pod-1", 30), ("pod-2", 20)):
        lineage.save(step, name)
    found = lineage.pod("pod-4").newest()
    assert (found.step if found else None) == 30
    assert content(found) == {"model": b"model 30", "more/a": b"a"}


def test_program_may_write_its_files_itself(lineage: Lineage) -> None:
    def write(folder: Path) -> None:
        (folder / "shards").mkdir()
        (folder / "shards" / "0.bin").write_bytes(b"0")

    assert lineage.pod().save(7, write)
    assert content(lineage.pod().newest()) == {"shards/0.bin": b"0"}


def test_folder_of_a_checkpoint_that_broke_off_begins_empty(lineage: Lineage) -> None:
    torn = lineage.save(7)
    (torn / "COMPLETE").unlink()
    assert lineage.pod().save(7, lambda folder: (folder / "model").write_bytes(b"new"))
    assert content(lineage.pod().newest()) == {"model": b"new"}


@pytest.mark.parametrize(
    ("tear", "why"),
    [
        (lambda folder: (folder / "COMPLETE").unlink(), "COMPLETE is absent"),
        (lambda folder: (folder / "COMPLETE").write_text(""), "COMPLETE is not JSON"),
        (lambda folder: (folder / "COMPLETE").write_text("[]"), "COMPLETE is a JSON list"),
        (lambda folder: (folder / "model").write_bytes(b"mod"), "model is not what COMPLETE says"),
        (lambda folder: (folder / "model").unlink(), "model is absent"),
        (lambda folder: (folder / "more" / "a").write_bytes(b""), "more/a is not what COMPLETE says"),
        (lambda folder: folder.rename(folder.with_name("step-00000021")), "COMPLETE: step=20: the folder says 21"),
    ],
)
def test_torn_checkpoint_is_passed_over_and_the_warning_says_which_and_why(
    lineage: Lineage, tear: Callable[[Path], object], why: str
) -> None:
    lineage.save(10)
    tear(lineage.save(20))
    found = lineage.pod("pod-2").newest()
    assert (found.step if found else None) == 10
    (warning,) = lineage.said
    assert f"{lineage.folder.as_uri()}/pod-1/step-0000002" in warning
    assert f"is passed over: {why}" in warning


def test_checkpoint_past_the_last_step_or_of_other_work_is_passed_over(lineage: Lineage) -> None:
    lineage.save(10)
    lineage.save(20, "pod-2", fingerprint="other")
    lineage.save(30)
    found = lineage.pod("pod-3").newest(last_step=29)
    assert (found.step if found else None) == 10
    assert ["the training ends at step 29" in lineage.said[0], "of other work" in lineage.said[1]] == [True, True]


def test_pruning_keeps_the_last_of_any_writer_and_what_is_of_other_work(lineage: Lineage) -> None:
    lineage.save(5, "pod-0", fingerprint="other")
    for step, name in ((10, "pod-1"), (20, "pod-1"), (30, "pod-2"), (40, "pod-2")):
        lineage.save(step, name)
    lineage.pod(keep=2).prune()
    assert lineage.left == ["pod-0/step-00000005", "pod-2/step-00000030", "pod-2/step-00000040"]


def test_pruning_removes_a_torn_one_when_nobody_can_be_writing_it_any_more(lineage: Lineage) -> None:
    torn = lineage.save(10)
    (torn / "COMPLETE").unlink()
    lineage.pod().prune()
    assert lineage.left == ["pod-1/step-00000010"]
    lineage.later = TORN_SECONDS + 60
    lineage.pod().prune()
    assert lineage.left == []


def test_files_that_are_copied_with_their_times_do_not_make_a_checkpoint_old_that_is_being_written(
    lineage: Lineage,
) -> None:
    def write(folder: Path) -> None:
        (folder / "base").write_bytes(b"copied")
        os.utime(folder / "base", (time.time() - TORN_SECONDS - 60,) * 2)
        lineage.pod("pod-2").prune()
        (folder / "head").write_bytes(b"new")

    assert lineage.pod().save(10, write)
    assert content(lineage.pod().newest()) == {"base": b"copied", "head": b"new"}


def test_pruning_does_not_count_what_this_attempt_found_damaged(lineage: Lineage) -> None:
    lineage.save(10)
    (lineage.save(20) / "model").write_bytes(b"mod")
    own = lineage.pod("pod-2", keep=1)
    assert own.newest() is not None
    own.prune()
    assert lineage.left == ["pod-1/step-00000010", "pod-1/step-00000020"]


def test_checkpoint_that_an_earlier_container_of_the_pod_left_whole_is_not_written_again(lineage: Lineage) -> None:
    folder = lineage.save(10)
    assert lineage.pod().save(10, {"model": b"other"})
    assert (folder / "model").read_bytes() == b"model 10"
    (folder / "model").write_bytes(b"mod")
    assert lineage.pod().save(10, {"model": b"other"})
    assert content(lineage.pod().newest()) == {"model": b"other"}


def test_folder_that_can_not_be_written_is_a_warning(lineage: Lineage) -> None:
    lineage.folder.write_text("a file is in the way")
    assert not lineage.pod().save(10, {"model": b"x"})
    assert "pod-1/step-00000010 was not written: NotADirectoryError" in lineage.said[0]


def test_folder_that_can_not_be_listed_is_an_error_and_no_beginning_from_the_first_step(lineage: Lineage) -> None:
    lineage.folder.write_text("a file is in the way")
    with pytest.raises(NotADirectoryError):
        lineage.pod().newest()


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "at least one file"),
        ({"COMPLETE": b""}, r"files=\['COMPLETE'\]"),
        ({"../model": b""}, r"files=\['\.\./model'\]"),
        (lambda folder: None, "no file was written there"),
        (lambda folder: (folder / "COMPLETE").write_text("x"), r"files=\['COMPLETE'\]"),
        (lambda folder: (folder / "a\\b").write_text("x"), "each file's name in its folder"),
        ({"model": "text"}, "is a str: bytes are expected"),
    ],
)
def test_mistake_of_the_program_is_an_error(lineage: Lineage, files: object, message: str) -> None:
    with pytest.raises(ContractError, match=message):
        lineage.pod().save(10, files)  # type: ignore[arg-type]
    assert not list(lineage.folder.glob("*/*/COMPLETE"))


@pytest.mark.parametrize("error", [NameError("name 'modle' is not defined"), Failure("no luck", ExitCode.NAN_LOSS)])
def test_what_the_program_s_own_function_raises_is_the_program_s(lineage: Lineage, error: Exception) -> None:
    def write(folder: Path) -> None:
        raise error

    with pytest.raises(type(error), match=str(error)):
        lineage.pod().save(10, write)


def test_disk_that_is_full_in_the_program_s_function_is_a_warning(lineage: Lineage) -> None:
    def write(folder: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    assert not lineage.pod().save(10, write)
    assert "was not written: OSError: [Errno 28] No space left" in lineage.said[0]


@pytest.mark.parametrize("name", ["more", "model/x", "a\0b", "x" * 300, "\ud800"])
def test_marker_that_names_what_no_store_can_open_is_passed_over(lineage: Lineage, name: str) -> None:
    lineage.save(10)
    marker = lineage.save(20) / "COMPLETE"
    body = json.loads(marker.read_text())
    body["files"][name] = "sha256:00"
    marker.write_text(json.dumps(body))
    found = lineage.pod("pod-2").newest()
    assert (found.step if found else None) == 10
    assert "pod-1/step-00000020 is passed over: " in lineage.said[0]


class Denied(DirectoryStore):
    """A store where one checkpoint's files belong to another user."""

    def fetch(self, path: str) -> tuple[Path, str]:
        if "step-00000020" in path:
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return super().fetch(path)


def test_checkpoint_that_may_not_be_read_is_passed_over_where_another_is_whole_and_else_an_error(
    lineage: Lineage,
) -> None:
    pod = Checkpoints(Denied(lineage.folder.as_uri()), writer="pod-2", fingerprint="f", say=lineage.said.append)
    lineage.save(20)
    with pytest.raises(PermissionError):
        pod.newest()
    lineage.save(10)
    found = pod.newest()
    assert (found.step if found else None) == 10
    assert "pod-1/step-00000020 is passed over: it may not be read" in lineage.said[-1]


@pytest.mark.parametrize("marker", ['{"v":2,"step":500,"of":"a newer release"}', "half a mark"])
def test_pruning_leaves_alone_what_has_a_marker_that_it_does_not_understand(lineage: Lineage, marker: str) -> None:
    newer = lineage.save(500, "pod-2")
    (newer / "COMPLETE").write_text(marker)
    lineage.save(20)
    lineage.later = TORN_SECONDS + 60
    lineage.pod().prune()
    assert lineage.left == ["pod-1/step-00000020", "pod-2/step-00000500"]


def test_at_least_one_is_kept(lineage: Lineage) -> None:
    with pytest.raises(ContractError, match="keep=0: at least 1"):
        lineage.pod(keep=0)


@pytest.mark.parametrize("form", ["{}", "file://{}", "file://{}/"])
def test_folder_is_named_by_uri_or_path_and_taken_as_it_stands(tmp_path: Path, form: str) -> None:
    own = Checkpoints(DirectoryStore(form.format(tmp_path / "a b%20c")), writer="p")
    assert own.save(1, {"model": b"x"})
    assert (tmp_path / "a b%20c" / "p" / "step-00000001" / "COMPLETE").exists()


@pytest.mark.parametrize(
    "uri",
    ["s3://bucket", "checkpoints", "./checkpoints", "file:/checkpoints", "file://localhost/checkpoints", "file:", ""],
)
def test_what_is_no_folder_of_this_file_system_is_bad_configuration(uri: str) -> None:
    """A path from elsewhere on would lie in the container, and vanish with it."""
    with pytest.raises(ContractError, match=re.escape(f"GPU_TRAINING_CHECKPOINT_URI={uri!r}: a folder is expected")):
        DirectoryStore(uri)
