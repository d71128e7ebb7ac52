"""What the task log's earlier files tell, as Airflow's triggerer writes them."""

from __future__ import annotations

from pathlib import Path

import pytest
import structlog
from airflow.sdk.log import logging_processors
from tests.unit.core.log_stamps import stamped
from tests.unit.triggers.one_job import Log

from gpu_training.core.log_lines import Position, Reading
from gpu_training.core.log_marks import Told, begun_by, told_by
from gpu_training.core.naming import TaskTry
from gpu_training.triggers.earlier_logs import told_earlier

pytestmark = pytest.mark.unit

KEY = ("m-g1-1-abcde", "training")
TRY = TaskTry(dag_id="d[1]", run_id="manual__2026-11-30T19:00:00+00:00", task_id="t", map_index=-1, try_number=2)


def at(n: int) -> Position:
    reading = Reading()
    reading.new_lines([stamped(n, "said")])
    return reading.position


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AIRFLOW__LOGGING__BASE_LOG_FOLDER", str(tmp_path))
    folder = tmp_path / f"dag_id={TRY.dag_id}" / f"run_id={TRY.run_id}" / f"task_id={TRY.task_id}"
    folder.mkdir(parents=True)
    return folder


def write(path: Path, log_id: str, last: int) -> None:
    """Write a file as a triggerer does: its first record, and a line for each position."""
    with path.open("wb") as file:
        log = structlog.wrap_logger(structlog.BytesLogger(file), processors=logging_processors(json_output=True)).bind()
        log.info("following", loc=begun_by(log_id), try_number=2)
        for n in range(last + 1):
            log.info(f'said "loc":"{told_by(KEY, at(999))}"', loc=told_by(KEY, at(n)), task_id="t")


def test_the_files_of_all_triggerers_of_this_try_are_read(folder: Path) -> None:
    write(folder / "attempt=2.log.trigger.7.log", "0123abcd", 5)
    write(folder / "attempt=2.log.trigger.12.log", "4567cdef", 3)
    write(folder / "attempt=1.log.trigger.5.log", "89abcdef", 9)
    write(folder / "attempt=2.log", "00000000", 9)

    told = told_earlier(TRY, None, Log())
    assert told == Told(logs=frozenset({"0123abcd", "4567cdef"}), positions={KEY: at(5)})


@pytest.mark.parametrize("cut", [1, 5, 40])
def test_a_last_record_that_is_torn_counts_for_nothing(folder: Path, cut: int) -> None:
    path = folder / "attempt=2.log.trigger.7.log"
    write(path, "0123abcd", 5)
    path.write_bytes(path.read_bytes()[:-cut])
    assert told_earlier(TRY, None, Log()).positions == {KEY: at(4)}


def test_a_file_of_many_blocks_is_read_with_whatever_is_in_it(folder: Path) -> None:
    path = folder / "attempt=2.log.trigger.7.log"
    write(path, "0123abcd", 5)
    begin = path.read_bytes()
    write(path, "0123abcd", 6)
    path.write_bytes(begin + b"\xff" * (5 * 1024 * 1024) + b"\n" + path.read_bytes().splitlines(keepends=True)[-1])
    assert told_earlier(TRY, None, Log()).positions == {KEY: at(6)}


def test_where_there_is_none_nothing_was_told(folder: Path) -> None:
    assert told_earlier(TRY, None, Log()) == Told()


def test_what_can_not_be_read_tells_nothing(folder: Path) -> None:
    (folder / "attempt=2.log.trigger.7.log").mkdir()
    write(folder / "attempt=2.log.trigger.8.log", "0123abcd", 5)
    assert told_earlier(TRY, None, Log()).positions == {KEY: at(5)}


def test_a_template_that_needs_more_than_is_known_here_tells_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__LOGGING__LOG_FILENAME_TEMPLATE", "{{ ti.start_date.year }}/x.log")
    assert told_earlier(TRY, None, Log()) == Told()
