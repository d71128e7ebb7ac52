"""A folder is the same in whichever store it lies: files appear whole, under the names that they were given."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu_training.checkpoints import DirectoryStore
from trainer.storage import Folder

pytestmark = pytest.mark.trainer


def test_a_reader_of_a_local_folder_never_sees_half_a_file(tmp_path: Path) -> None:
    """What is replaced is another file then: whoever has it open reads the old one to its end."""
    folder = Folder(tmp_path.as_uri())
    folder.write("pod/state", b"old" * 1000)
    with (tmp_path / "pod" / "state").open("rb") as reader:
        folder.write("pod/state", b"new" * 10)
        assert reader.read() == b"old" * 1000
    assert folder.read("pod/state") == b"new" * 10
    assert list(folder.ages()) == ["pod/state"], "no draft stays"


def test_name_of_a_local_folder_is_taken_as_it_stands_as_everywhere(tmp_path: Path) -> None:
    Folder(f"file://{tmp_path}/a%20b").write("pod/state", b"x")
    assert DirectoryStore(f"file://{tmp_path}/a%20b").read("pod/state") == b"x"
    assert (tmp_path / "a%20b" / "pod" / "state").exists()
