"""How far a training is: what its Job's annotation says, and the end of its log."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from gpu_training.contract import Progress
from gpu_training.core.clock_readings import read_clocks
from gpu_training.core.clocks import Clock, clocks_of
from gpu_training.core.hearing import Hearing
from gpu_training.core.log_lines import Batch
from gpu_training.core.log_parser import LogParser
from gpu_training.core.naming import ANNOTATION_CLOCKS, ANNOTATION_PROGRESS, TRAINING_CONTAINER
from gpu_training.core.observation import Observation
from gpu_training.core.phase import Phase
from gpu_training.core.progress_document import ToldProgress, from_text
from gpu_training.core.rules import RuleTable
from gpu_training.core.status import TrainingStatus

LINES: Final = 200
"""Lines at the end of a log that are looked at for progress."""


def with_written_steps(seen: Observation) -> Observation:
    """Give what is seen with the steps that whoever waits has written down on the Job: the ledger gets them later."""
    told = _written(seen)
    return replace(seen, steps=told.steps) if told is not None else seen


def with_written_progress(status: TrainingStatus) -> TrainingStatus:
    """Give the status of a training with what is written down of its progress, whether it runs, waits or has ended.

    Where the Job has no annotation, the newest attempt of which the ledger knows a step tells how far it was. The stall
    clock is not told: whoever writes this down may be away.
    """
    told = _written(status.observation)
    if told is not None:
        return _with(status, told)
    for attempt in reversed(status.attempts):
        if attempt.last_step is not None:
            was = Progress(step=attempt.last_step, checkpoint_step=attempt.checkpoint_step)
            return replace(status, progress=was, progress_pod=attempt.pod)
    return status


def with_progress(status: TrainingStatus, pod: str, log: str, now: float) -> TrainingStatus:
    """Give the status of a training that runs, with its newest progress and the clock that this stops.

    :param pod: the one whose log it is.
    :param log: the end of its training container's log, each line with the time that the kubelet gives it.
    :param now: seconds since 1970.
    """
    parser = LogParser()
    lines, frame = parser.feed(log.encode(errors="replace"))
    lines = [*lines, *parser.end()]
    hearing = Hearing(RuleTable(rules=()))
    hearing.take(Batch(pod=pod, container=TRAINING_CONTAINER, lines=lines, now=now))
    # Nobody can tell since when a line without an end shows what it does: it is taken for what is drawn now.
    hearing.take(Batch(pod=pod, container=TRAINING_CONTAINER, frame=frame, live=True, now=now))
    told = _newest(hearing.told, _written(status.observation))
    found = _with(status, told) if told is not None else status
    if hearing.told is None and len(lines) >= LINES:
        return found  # the last progress may stand before the lines that were read
    return _with_stall(found, told.at if told is not None else None, now)


def _written(seen: Observation | None) -> ToldProgress | None:
    job = seen.job if seen is not None else None
    return from_text(job.annotations.get(ANNOTATION_PROGRESS, "")) if job is not None else None


def _newest(log: ToldProgress | None, written: ToldProgress | None) -> ToldProgress | None:
    if log is None or written is None:
        return log or written
    if log.pod != written.pod:
        return max(log, written, key=lambda told: told.at)
    if written.pod in written.steps and not log.steps:
        return written  # its bars count for nothing beside its progress lines, which are further back
    if not _is_beyond(log.progress, written.progress):
        # The end of a log tells since when at the earliest where its steps are repeated all along.
        return replace(log, at=min(log.at, written.at))
    return log


def _is_beyond(progress: Progress, before: Progress) -> bool:
    """Whether it tells of progress since, as :mod:`gpu_training.core.progress_made` has it."""
    has_begun_anew = progress.first_step not in (None, before.first_step)
    return (
        has_begun_anew or progress.step > before.step or (progress.checkpoint_step or 0) > (before.checkpoint_step or 0)
    )


def _with(status: TrainingStatus, told: ToldProgress) -> TrainingStatus:
    return replace(status, progress=told.progress, progress_at=told.at, progress_pod=told.pod)


def _with_stall(status: TrainingStatus, progress_at: float | None, now: float) -> TrainingStatus:
    """Give the status with the clock that runs from the last progress, or from the start where there was none."""
    seen = status.observation
    if seen is None or seen.job is None or status.phase not in set(Phase):
        return status
    clocks = clocks_of(seen.job.annotations.get(ANNOTATION_CLOCKS, ""))
    readings = read_clocks(seen, Phase(status.phase), clocks, now, progress_at=progress_at)
    stall = [reading for reading in readings if reading.clock is Clock.STALL]
    order = list(Clock)
    others = [reading for reading in status.clocks if reading.clock is not Clock.STALL]
    return replace(status, clocks=tuple(sorted((*others, *stall), key=lambda reading: order.index(reading.clock))))
