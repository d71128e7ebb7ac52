"""How far a training is, from the end of its log."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from gpu_training.contract import Progress, parse_progress
from gpu_training.core.clock_readings import read_clocks
from gpu_training.core.clocks import Clock, clocks_of
from gpu_training.core.documents import parse_time
from gpu_training.core.naming import ANNOTATION_CLOCKS
from gpu_training.core.phase import Phase
from gpu_training.core.status import TrainingStatus

LINES: Final = 200
"""Lines at the end of a log that are looked at for progress."""


def with_progress(status: TrainingStatus, log: str, now: float) -> TrainingStatus:
    """Give the status of a training that runs, with its newest progress and the clock that this stops.

    :param log: the end of its training container's log, each line with the time that the kubelet gives it.
    :param now: seconds since 1970.
    """
    job = status.observation.job if status.observation is not None else None
    if job is None or status.observation is None or status.phase not in set(Phase):
        return status
    lines = log.splitlines()
    progress, at = _newest(lines)
    clocks = clocks_of(job.annotations.get(ANNOTATION_CLOCKS, ""))
    readings = read_clocks(status.observation, Phase(status.phase), clocks, now, progress_at=at)
    # The last progress may stand before the lines that were read: since when there is none is not known then.
    told = progress is not None or len(lines) < LINES
    clocks_told = tuple(reading for reading in readings if told or reading.clock is not Clock.STALL)
    return replace(status, progress=progress, clocks=clocks_told)


def _newest(lines: list[str]) -> tuple[Progress | None, float | None]:
    for line in reversed(lines):
        moment, _, words = line.partition(" ")
        if (progress := parse_progress(words)) is not None:
            return progress, parse_time(moment)
    return None, None
