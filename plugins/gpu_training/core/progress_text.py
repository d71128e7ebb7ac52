"""The progress of a training as a line of the task log, for a person and for whoever follows the run by Airflow's API.

Writer and reader stand side by side, so that a change of one is a change of the other.
"""

from __future__ import annotations

import math
import re
from typing import Final

from gpu_training.contract import Progress
from gpu_training.core.duration_text import span

_LONGEST_ETA_S = 10 * 365 * 86400
"""A longer estimate comes from a throughput that is practically zero and says nothing."""

_LINE = re.compile(
    r"progress(?: (?P<percent>\d{1,3})%)? step (?P<step>\d{1,19})(?:/(?P<total>\d{1,19}))?"
    r"(?: loss (?P<loss>-?[0-9.]{1,12}(?:e[+-]\d{1,3})?))?"
    r"(?: eta (?P<eta>\d{1,9} (?:d|h|min|s)(?: \d{1,2} (?:h|min|s))?))?(?: checkpoint (?P<checkpoint>\d{1,19}))?"
)
_UNITS: Final = {"d": 86400, "h": 3600, "min": 60, "s": 1}


def render(progress: Progress) -> str:
    """Give the line, such as `progress 40% step 80/200 loss 0.3123 eta 1 h 12 min checkpoint 60`.

    What is unknown is left out.
    """
    done = percent_of(progress)
    percent = "" if done is None else f" {done}%"
    total = f"/{progress.total}" if progress.total > 0 else ""
    words = [f"progress{percent} step {progress.step}{total}"]
    if progress.loss is not None and math.isfinite(progress.loss):
        words.append(f"loss {progress.loss:.4g}")
    if (eta := eta_seconds(progress)) is not None:
        words.append(f"eta {span(eta)}")
    if progress.checkpoint_step is not None:
        words.append(f"checkpoint {progress.checkpoint_step}")
    return " ".join(words)


def parse(line: str) -> Progress | None:
    """Give the progress in a line that :func:`render` made, or None for any other line.

    The loss has four digits, and the throughput is the one that the estimate of the time left implies, whose two
    largest units are told at most.
    """
    found = _LINE.fullmatch(line.strip())
    if found is None:
        return None
    step, total = int(found["step"]), int(found["total"] or 0)
    left, eta = max(0, total - step), _seconds(found["eta"] or "")
    try:
        loss = float(found["loss"] or "nan")
    except ValueError:
        return None
    return Progress(
        step=step,
        total=total,
        loss=loss if math.isfinite(loss) else None,
        throughput=left / eta if left and eta else None,
        checkpoint_step=int(found["checkpoint"]) if found["checkpoint"] else None,
    )


def percent_of(progress: Progress) -> int | None:
    """Give how much is done, rounded down: 100 is said of a finished training only. None when the total is unknown."""
    return None if progress.fraction is None else math.floor(progress.fraction * 100)


def eta_seconds(progress: Progress) -> int | None:
    """Give the seconds that are left, at least 1; None where nothing is left, or it is not known how much."""
    seconds = progress.seconds_left
    if not seconds or seconds > _LONGEST_ETA_S:
        return None
    return max(1, round(seconds))


def _seconds(eta: str) -> int:
    words = eta.split()
    return sum(int(count) * _UNITS[unit] for count, unit in zip(words[::2], words[1::2], strict=True))
