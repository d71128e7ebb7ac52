"""The progress bars of tqdm, as a log shows them: https://github.com/tqdm/tqdm. Nothing of a bar is a promise."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from gpu_training.contract import Progress

LONGEST_BAR: Final = 4096
"""Characters; a longer line is none."""
_LONGEST_NAME: Final = 64

_COUNT = r"\d{1,19}(?:\.\d{1,9})?[kKMGTPEZY]?"
_TIME = r"(?:\d{1,9}:)?\d\d:\d\d"
_SPEED = r"(?P<speed>\?|\d{1,19}(?:\.\d{1,9})?)(?P<scale>[kKMGTPEZY]?)(?:(?P<inverse>s/)[^,\]]{1,24}|[^,\]]{0,24}/s)"
_END = re.compile(
    rf"(?P<done>{_COUNT})(?:/(?P<total>{_COUNT}|\?)|(?P<unit>[^\[\]\d/]{{0,24}})) "
    rf"\[(?P<elapsed>{_TIME})(?:<(?:-?{_TIME}|\?))?, *{_SPEED}(?:, ?(?P<said>.*))?\] *$"
)
_HINT = re.compile(r"\[\d{1,9}:\d\d[:<,]")
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_DIGITS = re.compile(r"\d+")
_NUMBER = r"-?\d{1,19}(?:\.\d{1,19})?(?:e[+-]?\d{1,3})?"
_LOSS = re.compile(rf"(?<![\w/])(?P<of>train[_/])?loss *[=: ] *(?P<loss>{_NUMBER})(?![\w.])", re.IGNORECASE)
_SCALES: Final[dict[str, int]] = {letter: 1000 ** (n + 1) for n, letter in enumerate("kMGTPEZY")} | {"": 1, "K": 1000}
_MOST_STEPS: Final = 2**63


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """What one drawing of a bar says.

    :param name: what stands before it, without digits: those of an epoch, or of a loss, change while the bar stays.
    :param count: how much is done, in the bar's own words: what differs between two drawings where something was done.
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
    end = _END.search(text)
    if end is None:
        return None
    name = _name(text[: end.start()], has_total=end["total"] is not None)
    if name is None:
        return None
    step, total = _whole(end["done"]), _whole(end["total"] or "?")
    if max(step, total) >= _MOST_STEPS:
        return None
    return Bar(
        name=_DIGITS.sub("#", name)[:_LONGEST_NAME],
        count=f"{end['done']}/{end['total'] or '?'}",
        elapsed=_seconds(end["elapsed"]),
        progress=Progress(step=step, total=total, loss=_loss(end["said"] or "", name), throughput=_throughput(end)),
    )


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


def _throughput(end: re.Match[str]) -> float | None:
    if end["speed"] == "?" or float(end["speed"]) <= 0:
        return None
    speed = float(end["speed"]) * _SCALES[end["scale"]]
    return 1 / speed if end["inverse"] else speed


def _loss(*texts: str) -> float | None:
    """Give the first training loss that is named; one of an evaluation is another matter."""
    for text in texts:
        found = sorted(_LOSS.finditer(text), key=lambda match: match["of"] is not None)
        if found:
            return float(found[0]["loss"])
    return None
