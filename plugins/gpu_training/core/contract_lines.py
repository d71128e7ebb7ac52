"""Lines of a log in which a program keeps to the contract: progress lines and result lines.

They begin with their marker. What else a program prints may hold the same words, as a sample of a text, or a log that
it shows, and is its own: only what launchers and loggers put before a line may stand before a marker.
"""

from __future__ import annotations

import re
from typing import Final

from gpu_training.contract import PROGRESS_PREFIX, RESULT_PREFIX, Progress, parse_progress
from gpu_training.core.progress_bar import parse_bar

_LONGEST: Final = 120
"""Characters of what stands before a marker."""
# `[rank0]:`, `[1,0]<stdout>:`, `(RayTrainWorker pid=123)`, `[INFO]`.
_BOX: Final = re.compile(r"\[[^\[\]]{0,60}+\]|\([^()]{0,60}+\)|<[^<>]{0,20}+>")
_APART: Final = re.compile(r"[\s|]++")
_LEVEL: Final = re.compile(r"TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|CRITICAL|FATAL", re.IGNORECASE)
_TIME: Final = re.compile(r"[IWEF]\d{4}|\d{1,4}[-/:.]\d{1,2}[-/:.]\d{1,4}[\dTZ:.,+-]{0,24}+", re.ASCII)
_PROCESS: Final = re.compile(r"(?:(?:rank|worker|node|process|proc|pid)[-_]?)?\d{1,9}|rank|worker|node|stdout|stderr")
# `trainer.main`, `train.py:55`, `__main__:main:12`.
_NAME: Final = re.compile(r"[A-Za-z_][\w.-]{0,60}+(?:(?::[\w<>]{1,24})?:\d{1,6})?", re.ASCII)


def progress_in(text: str) -> Progress | None:
    """Give the progress that a line tells; None for any other line."""
    tail = _after(text, PROGRESS_PREFIX)
    return parse_progress(PROGRESS_PREFIX + tail) if tail is not None else None


def result_in(text: str) -> str | None:
    """Give what stands behind the marker of a result line, unread; None for any other line."""
    tail = _after(text, RESULT_PREFIX)
    return tail.strip() if tail is not None else None


def _after(text: str, marker: str) -> str | None:
    before, found, tail = text.partition(marker)
    return tail if found and (not before or _is_prefix(before)) else None


def _is_prefix(before: str) -> bool:
    """Whether a launcher, a logger or a bar has put this before a line, as far as that can be told."""
    rest = _BOX.sub(" ", before[:_LONGEST])
    words = [word for each in _APART.split(rest) if (word := each.strip(":,-]"))]
    is_written = len(before) <= _LONGEST and (words or rest != before)
    return bool(is_written and _are_loggers(words)) or parse_bar(before) is not None


def _are_loggers(words: list[str]) -> bool:
    """Whether words are times, levels and numbers of processes, and beside a time or a level one name at most."""
    names = is_dated = 0
    for part in (part for word in words for part in _parts(word)):
        if _LEVEL.fullmatch(part) or _TIME.fullmatch(part):
            is_dated = 1
        elif _NAME.fullmatch(part) and not _PROCESS.fullmatch(part):
            names += 1
        elif not _PROCESS.fullmatch(part):
            return False
    return names <= is_dated


def _parts(word: str) -> list[str]:
    """Give the parts of a word such as `INFO:root`."""
    if _NAME.fullmatch(word) or _TIME.fullmatch(word):
        return [word]
    return [part for part in word.split(":") if part]
