"""The progress bars of tqdm, as a log shows them: https://github.com/tqdm/tqdm. Nothing of a bar is a promise."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from gpu_training.contract import Progress

LONGEST_BAR: Final = 1024
"""Characters; a longer line is none. tqdm fills a terminal's line, and draws ten characters of bar where there is none.
"""
_LONGEST_NAME: Final = 64
_LONGEST_COUNTS: Final = 96
"""Characters before its times in which a bar's counts stand."""

# What may be long gives nothing back that it took, so that a line costs one pass over it, whatever a program prints.
_COUNT = r"\d{1,19}+(?:\.\d{1,9}+)?+[kKMGTPEZY]?+"
_TIME = r"(?:\d{1,9}:)?\d\d:\d\d"
_SPEED = r"(?P<speed>\?|\d{1,19}+(?:\.\d{1,9}+)?+)(?P<scale>[kKMGTPEZY]?)(?:(?P<inverse>s/)[^,\]]{1,24}|[^,\]]{0,24}/s)"
_COUNTS = re.compile(rf"(?P<done>{_COUNT})(?:/(?P<total>{_COUNT}|\?)|[^\[\]\d/]{{0,24}}) \Z")
_TIMES = re.compile(rf"\[(?P<elapsed>{_TIME})(?:<(?:-?{_TIME}|\?))?, *+{_SPEED}")
_HINT = re.compile(r"\[\d{1,9}:\d\d[:<,]")
_COLOURS = re.compile(r"\x1b\[[0-9;?]*+[A-Za-z]")
_DIGITS = re.compile(r"\d++")
_NUMBER = r"-?\d{1,19}+(?:\.\d{1,19}+)?+(?:e[+-]?\d{1,3}+)?+"
_LOSS = re.compile(rf"(?<![\w/])(?P<of>train[_/])?loss(?: *+[=:] *+| ++)(?P<loss>{_NUMBER})(?![\w.])", re.IGNORECASE)
_SCALES: Final[dict[str, int]] = {letter: 1000 ** (n + 1) for n, letter in enumerate("kMGTPEZY")} | {"": 1, "K": 1000}
_MOST_STEPS: Final = 2**63


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """What one drawing of a bar says.

    :param name: what stands before it, without digits: those of an epoch, or of a loss, change while the bar stays.
    :param count: how much is done, in the bar's own words: a part of a step counts, too.
    :param elapsed: seconds since the bar began, as it says.
    """

    name: str
    count: str
    elapsed: int
    progress: Progress


def may_hold_bars(text: str) -> bool:
    """Whether it is worth while to look for bars in the lines of a text. Cheap."""
    return _HINT.search(text) is not None


def parse_bar(line: str) -> Bar | None:
    """Give what a line says that is a bar from its description to its end, or None for any other line."""
    if len(line) > LONGEST_BAR or _HINT.search(line) is None:
        return None
    text = _COLOURS.sub("", line).strip()
    opened = max((hint.start() for hint in _HINT.finditer(text)), default=0)
    before = text[:opened]
    counts = _COUNTS.search(before, max(0, opened - _LONGEST_COUNTS))
    times = _TIMES.match(text, opened)
    if counts is None or times is None or (said := _said(text[times.end() :])) is None:
        return None
    name = _name(before[: counts.start()], has_total=counts["total"] is not None)
    step, total = _whole(counts["done"]), _whole(counts["total"] or "?")
    if name is None or max(step, total) >= _MOST_STEPS:
        return None
    return Bar(
        name=_DIGITS.sub("#", name)[:_LONGEST_NAME],
        count=counts["done"],
        elapsed=_seconds(times["elapsed"]),
        progress=Progress(step=step, total=total, loss=_loss(said, name), throughput=_throughput(times)),
    )


def _said(rest: str) -> str | None:
    """Give what a bar says of its own behind its speed; None where that is not the end of a bar."""
    if not rest.endswith("]") or not rest.startswith((",", "]")) or (rest[0] == "]" and len(rest) > 1):
        return None
    return rest[1:-1]


def _name(before: str, *, has_total: bool) -> str | None:
    """Give the description in what stands before the counts; None where that is not the beginning of a bar."""
    before = before.rstrip()
    if has_total and before.endswith("|"):
        front, opened, _ = before[:-1].rpartition("|")
        # Where the total is not known after all, the blocks stand without a percentage.
        return front.rstrip("%0123456789").rstrip().removesuffix(":") if opened else None
    if has_total:
        before = before.removesuffix("%").rstrip("0123456789").rstrip()
    return before[:-1] if before.endswith(":") else None if before else ""


def _whole(count: str) -> int:
    if count == "?":
        return 0
    scale = count[-1] if count[-1].isalpha() else ""
    return round(float(count.removesuffix(scale)) * _SCALES[scale]) if scale or "." in count else int(count)


def _seconds(time: str) -> int:
    seconds = 0
    for part in time.split(":"):
        seconds = seconds * 60 + int(part)
    return seconds


def _throughput(times: re.Match[str]) -> float | None:
    if times["speed"] == "?" or float(times["speed"]) <= 0:
        return None
    speed = float(times["speed"]) * _SCALES[times["scale"]]
    return 1 / speed if times["inverse"] else speed


def _loss(*texts: str) -> float | None:
    """Give the first training loss that is named; one of an evaluation is another matter."""
    for text in texts:
        found = sorted(_LOSS.finditer(text), key=lambda match: match["of"] is not None)
        if found:
            return float(found[0]["loss"])
    return None
