"""How far one waiter's task log is, as plain JSON in an annotation of the Job: whoever waits on in its place goes on
there. Anybody may have written there."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from gpu_training.core.documents import child, text, texts
from gpu_training.core.hearing_document import is_whole
from gpu_training.core.log_lines import START, Position
from gpu_training.core.log_marks import LogKey, Told, earlier, later, mark_of, position_of
from gpu_training.core.naming import HEARD_PREFIX, TRAINING_CONTAINER, TaskTry

VERSION: Final = 1
MOST_LOGS: Final = 200
"""Logs whose positions are written, those that began last."""
_ALL_WAITERS: Final = 128 * 1024
"""Characters for all waiters on a Job together. All its annotations may have 256 KiB."""
_LONGEST: Final = 32 * 1024
_LOG_ID: Final = re.compile(r"[0-9a-f]{8,32}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """What a waiter has written down.

    :param log: id of the task log into which it told.
    :param positions: how far each container's log is told there.
    :param hearing: what the logs had told by then, or later, as :meth:`Hearing.to_document` gives it; empty where that
        was not written. Logs of which it does not hold all have to be read again.
    """

    log: str
    positions: Mapping[LogKey, Position] = field(default_factory=dict)
    hearing: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """Where to begin.

    :param starts: how far the logs need not be read: what was heard there is recalled, and is told.
    :param told: how far they are told already; what comes after the start and before this is heard only.
    :param elsewhere: whether what was told is in a task log that is not at hand here.
    """

    starts: Mapping[LogKey, Position] = field(default_factory=dict)
    told: Mapping[LogKey, Position] = field(default_factory=dict)
    elsewhere: bool = False


def annotation_of(deployment: str, waiter: TaskTry) -> str:
    """Give the name of a waiter's annotation; its hash keeps those of all tries of all Airflows apart."""
    return HEARD_PREFIX + hashlib.sha256(json.dumps([deployment, waiter.to_plain()]).encode()).hexdigest()[:16]


def outdated(annotations: Iterable[str], deployment: str, waiters: Iterable[TaskTry]) -> list[str]:
    """Give those of a Job's annotations that waiters left there who do not wait any more."""
    current = {annotation_of(deployment, waiter) for waiter in waiters}
    return sorted(name for name in annotations if name.startswith(HEARD_PREFIX) and name not in current)


def to_text(heard: Heard, *, waiters: int = 1) -> str:
    """Give the annotation's text, all of it ASCII.

    :param waiters: how many share the room there is. What does not fit is left out: first what was heard, then
        positions of the logs that began first; whoever goes on reads those logs again.
    """
    room = min(_LONGEST, _ALL_WAITERS // max(1, waiters))
    positions = {f"{pod}/{container}": mark_of(position) for (pod, container), position in heard.positions.items()}
    written, most = "", MOST_LOGS
    while not written or (len(written) > room and most):
        written = _written(heard.log, positions, most, heard.hearing)
        if len(written) > room:
            written = _written(heard.log, positions, most, {})
            most //= 2
    return written


def _written(log: str, positions: Mapping[str, str], most: int, hearing: Mapping[str, Any]) -> str:
    kept = dict(islice(positions.items(), max(0, len(positions) - most), None))
    document = {"v": VERSION, "log": log, "positions": kept, "hearing": hearing}
    return json.dumps(document, separators=(",", ":"))


def from_text(annotation: str) -> Heard | None:
    """Give what an annotation says; None for one that is of another version, or edited beyond sense."""
    try:
        document = json.loads(annotation)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, Mapping) or document.get("v") != VERSION or not isinstance(document.get("log"), str):
        return None
    if _LOG_ID.fullmatch(text(document, "log")) is None:
        return None
    positions = {}
    for key, mark in islice(texts(document, "positions").items(), MOST_LOGS):
        pod, found, container = key.partition("/")
        position = position_of(mark)
        if found and position is not None:
            positions[pod, container] = position
    return Heard(log=text(document, "log"), positions=positions, hearing=child(document, "hearing"))


def beginning(heard: Heard | None, told: Told) -> Beginning:
    """Give where to begin.

    Where the task log of whoever wrote the annotation is at hand, it is what counts: it goes on after that, and what
    was on its way there when its process was killed is not in it. Where it is not, its annotation is. Logs of pods that
    found no room in what was heard are heard again from their first line on, and not told again.

    :param told: what is in the task logs at hand.
    """
    if heard is None:
        return Beginning(told=told.positions)
    known = {key: at for key, at in heard.positions.items() if _is_recalled(heard, key)}
    if heard.log in told.logs:
        starts = {key: earlier(at, told.positions.get(key, START)) for key, at in known.items()}
        return Beginning(starts={key: at for key, at in starts.items() if at != START}, told=told.positions)
    furthest = {key: later(at, told.positions.get(key, at)) for key, at in heard.positions.items()}
    return Beginning(starts=known, told={**told.positions, **furthest}, elsewhere=True)


def _is_recalled(heard: Heard, key: LogKey) -> bool:
    """Whether all that a log had told is written down; of other containers nothing is heard."""
    pod, container = key
    return bool(heard.hearing) and (container != TRAINING_CONTAINER or is_whole(heard.hearing, pod))
