"""What a stack is known by."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest

from stack.record import FILE_NAME, StackRecord

pytestmark = pytest.mark.unit


def test_a_record_is_read_back_and_only_its_owner_reads_the_file(tmp_path: Path) -> None:
    record = StackRecord.make(owner_pid=os.getpid())
    record.write(tmp_path)
    assert StackRecord.read(tmp_path) == record
    assert stat.S_IMODE((tmp_path / FILE_NAME).stat().st_mode) == 0o600


def test_two_stacks_share_neither_port_nor_secret() -> None:
    first, second = StackRecord.make(owner_pid=None), StackRecord.make(owner_pid=None)
    ports = [first.airflow_port, first.database_port, first.mlflow_port, first.store_port]
    assert len(set(ports)) == 4
    for name in ("database_password", "access_key", "secret_key", "fernet_key", "jwt_secret", "api_secret"):
        assert getattr(first, name) != getattr(second, name)
    assert len({*first.passwords.values(), *second.passwords.values()}) == 6


@pytest.mark.parametrize("text", [None, "", "{}", "[]", "no json"])
def test_a_folder_without_a_whole_record_has_none(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / FILE_NAME).write_text(text)
    assert StackRecord.read(tmp_path) is None


def test_a_stack_has_an_owner_while_that_process_runs_or_when_it_was_to_run_without() -> None:
    assert StackRecord.make(owner_pid=None).has_owner
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as owner:  # ends with its input
        record = StackRecord.make(owner_pid=owner.pid)
        assert record.has_owner
    assert not record.has_owner
