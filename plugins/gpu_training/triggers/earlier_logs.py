"""What earlier triggerers have told in the task log of the same try, as far as their files are on this machine."""

from __future__ import annotations

import glob
from pathlib import Path
from typing import Any, Final

from gpu_training.core.log_marks import Told, both, told_in
from gpu_training.core.naming import TaskTry
from gpu_training.task_log import TaskLog

_BLOCK: Final = 1024 * 1024
_LONGEST_RECORD: Final = 1024 * 1024


def told_earlier(waiter: TaskTry, task_instance: Any, log: TaskLog) -> Told:
    """Give how far the logs are told. A file that can not be read tells nothing. Blocks, as long as files are large.

    Each triggerer writes a file of its own beside the worker's: `<log_filename_template>.trigger.<its job's id>.log`
    (airflow/jobs/triggerer_job_runner.py, TriggerLoggingFactory).

    :param task_instance: as the triggerer gives it; None on a worker.
    """
    told = Told()
    for path in _files(waiter, task_instance, log):
        try:
            told = both(told, _told_in_file(path))
        except OSError as error:
            log.debug("what %s tells is not known: %s", path, error)
    return told


def _files(waiter: TaskTry, task_instance: Any, log: TaskLog) -> list[Path]:
    from airflow.sdk.configuration import conf
    from airflow.utils.helpers import log_filename_template_renderer

    try:
        folder = Path(conf.get("logging", "base_log_folder"))
        named = log_filename_template_renderer()(ti=task_instance or waiter, try_number=waiter.try_number)
        return sorted(folder.glob(f"{glob.escape(named)}.trigger.*.log"))
    except Exception as error:  # of whatever kind: templates are the deployment's own
        log.debug("where earlier task logs of this try are is not known: %r", error)
        return []


def _told_in_file(path: Path) -> Told:
    told, rest = Told(), b""
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            records, end, torn = (rest + block).rpartition(b"\n")
            told = told_in(records + end, told)
            # What is longer than any record that we write is none of ours.
            rest = torn if len(torn) <= _LONGEST_RECORD else b""
    return told
