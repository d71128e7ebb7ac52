"""A folder is the same in whichever store it lies: files appear whole, under the names that they were given."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gpu_training.checkpoints import DirectoryStore
from trainer.storage import Folder, age_of

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


def test_file_is_as_old_as_it_is_there_even_when_it_was_copied_with_its_times(tmp_path: Path) -> None:
    folder = Folder(tmp_path.as_uri())
    folder.write("pod/state", b"x")
    os.utime(tmp_path / "pod" / "state", (time.time() - 7200,) * 2)
    assert folder.ages()["pod/state"] == pytest.approx(0, abs=600)


@pytest.mark.parametrize(
    ("said", "age"),
    [
        ({"LastModified": datetime.fromtimestamp(1000, UTC)}, 500),
        ({"mtime": 1200.0}, 300),
        ({"mtime": 1200.0, "created": 1300.0}, 200),
        ({"created": "2013-01-01"}, 0),
        ({}, 0),
    ],
)
def test_stores_tell_under_names_of_their_own_when_a_file_was_written(said: dict[str, Any], age: float) -> None:
    assert age_of(said, 1500.0) == age
