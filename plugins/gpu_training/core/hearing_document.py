"""What a training's logs have told so far as plain JSON in an annotation, so that nobody has to read them again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from gpu_training.contract import RESULT_LIMIT_BYTES, Progress
from gpu_training.core.documents import child, text
from gpu_training.core.progress_document import finite, plain_progress, plain_steps, progress_of, steps_of
from gpu_training.core.progress_made import Reached, plain_reached, reached_of
from gpu_training.core.steps import Steps

VERSION: Final = 1
LONGEST: Final = 16 * 1024
"""Characters of the JSON text, all of them ASCII. All annotations of a Job together may have 256 KiB."""
MOST_PODS: Final = 1000
LONGEST_RESULT: Final = RESULT_LIMIT_BYTES + 1
"""Characters: one more than can be in a result tells that it is too long."""
_LONGEST_NAME: Final = 253
_MOST_WRITTEN: Final = 200
"""Pods that are written down, those heard of last; as many logs' positions are."""


@dataclass(slots=True, kw_only=True)
class PodHeard:
    """What one pod has told.

    :param line: its last progress line, with what those before it said of loss, total and checkpoint.
    :param result: the result document that it printed last, unread.
    """

    steps: Steps = field(default_factory=Steps)
    line: Progress | None = None
    reached: Reached = field(default_factory=Reached)
    result: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """The newest progress of all pods.

    :param at: when it was told, in seconds since 1970.
    :param bar_since: when the bar began that told it; None for a progress line.
    """

    progress: Progress
    pod: str
    at: float
    bar_since: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AllHeard:
    """All that was heard.

    :param progress_at: when progress was made last, in seconds since 1970; None when none was.
    :param pods: by name; those heard of last stand last.
    :param findings: pod name -> name of the failure rule that its log matches.
    """

    shown: Shown | None = None
    progress_at: float | None = None
    pods: Mapping[str, PodHeard] = field(default_factory=dict)
    findings: Mapping[str, str] = field(default_factory=dict)


def to_document(heard: AllHeard) -> dict[str, Any]:
    """Give it as plain data of at most LONGEST characters of JSON.

    Of many pods, those heard of last are whole in it; of others, steps and finding only, while there is room: what a
    pod that is gone has told can be heard nowhere else. :func:`is_whole` tells them apart.
    """
    names = [*(pod for pod in heard.findings if pod not in heard.pods), *heard.pods]
    newest = list(islice(reversed(names), _MOST_WRITTEN))
    whole = {pod: _entry(heard, pod) for pod in newest}
    document = {"v": VERSION, "progress_at": heard.progress_at, "shown": _plain_shown(heard.shown), "cut": True}
    room = LONGEST - len(json.dumps({**document, "pods": {}}))
    pods = dict(_fitting(((pod, _part(entry)) for pod, entry in whole.items()), room // 4))
    room -= sum(map(_size, pods.items()))
    for pod, entry in whole.items():
        more = _size((pod, entry)) - (_size((pod, pods[pod])) if pod in pods else 0)
        if more <= room:
            pods[pod], room = entry, room - more
    document["cut"] = len(newest) < len(names) or any(pods.get(pod) is not entry for pod, entry in whole.items())
    document["pods"] = {pod: pods[pod] for pod in reversed(newest) if pod in pods}
    return document


def is_whole(document: Mapping[str, Any], pod: str) -> bool:
    """Whether all that a pod had told is in a document; what is not has to be heard again."""
    entry = child(document, "pods").get(pod)
    return document.get("cut") is not True or (isinstance(entry, Mapping) and entry.get("part") is not True)


def from_document(document: object, now: float) -> AllHeard:
    """Give what :func:`to_document` wrote. Whatever is not of its kind is as if it had not been heard.

    :param now: seconds since 1970: no moment is later.
    """
    if not isinstance(document, Mapping) or document.get("v") != VERSION:
        return AllHeard()
    entries = {
        pod: entry
        for pod, entry in islice(child(document, "pods").items(), MOST_PODS)
        if isinstance(pod, str) and len(pod) <= _LONGEST_NAME and isinstance(entry, Mapping)
    }
    return AllHeard(
        shown=_shown_of(child(document, "shown"), now),
        progress_at=_moment(document.get("progress_at"), now),
        pods={pod: _pod_of(entry) for pod, entry in entries.items()},
        findings={pod: found for pod, entry in entries.items() if (found := text(entry, "finding"))},
    )


def _entry(heard: AllHeard, pod: str) -> dict[str, Any]:
    told = heard.pods.get(pod) or PodHeard()
    found: dict[str, Any] = {
        "finding": heard.findings.get(pod),
        "steps": plain_steps(told.steps),
        "line": plain_progress(told.line) if told.line is not None else None,
        **plain_reached(told.reached),
        "result": told.result,
    }
    return {name: value for name, value in found.items() if value}


def _part(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {"part": True, **{name: entry[name] for name in ("finding", "steps", "line", "reached") if name in entry}}


def _fitting(entries: Iterable[tuple[str, Any]], room: int) -> Iterable[tuple[str, Any]]:
    for entry in entries:
        room -= _size(entry)
        if room < 0:
            return
        yield entry


def _size(entry: tuple[str, Any]) -> int:
    # As an item among others: without its braces, and with a comma and a blank.
    return len(json.dumps(dict([entry])))


def _pod_of(body: Mapping[str, Any]) -> PodHeard:
    return PodHeard(
        steps=steps_of(child(body, "steps")),
        line=progress_of(body.get("line")),
        reached=reached_of(body),
        result=text(body, "result")[:LONGEST_RESULT] or None,
    )


def _plain_shown(shown: Shown | None) -> dict[str, Any] | None:
    if shown is None:
        return None
    progress = plain_progress(shown.progress)
    return {"pod": shown.pod, "at": shown.at, "bar_since": shown.bar_since, "progress": progress}


def _shown_of(body: Mapping[str, Any], now: float) -> Shown | None:
    progress, at = progress_of(body.get("progress")), _moment(body.get("at"), now)
    if progress is None or at is None:
        return None
    return Shown(progress=progress, pod=text(body, "pod"), at=at, bar_since=finite(body.get("bar_since")))


def _moment(value: object, now: float) -> float | None:
    moment = finite(value)
    return min(moment, now) if moment is not None and moment >= 0 else None
