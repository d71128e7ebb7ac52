"""What a training's logs have told so far as plain JSON in an annotation, so that nobody has to read them again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from gpu_training.contract import RESULT_LIMIT_BYTES, Progress
from gpu_training.core.documents import child, text, texts
from gpu_training.core.progress_document import finite, last_of, plain_progress, plain_steps, progress_of, steps_of
from gpu_training.core.steps import Steps

VERSION: Final = 1
LONGEST: Final = 16 * 1024
"""Characters of the JSON text, all of them ASCII. All annotations of a Job together may have 256 KiB."""
MOST_PODS: Final = 1000
MOST_BARS: Final = 16
"""Bars of a pod that are told apart."""
LONGEST_RESULT: Final = RESULT_LIMIT_BYTES + 1
"""Characters: one more than can be in a result tells that it is too long."""
_LONGEST_NAME: Final = 253

_FEWER: Final = (64, 32, 16, 8, 4, 2, 1, 0)
"""Pods that are written down, the fewer the more they have told."""


@dataclass(slots=True, kw_only=True)
class Told:
    """What one pod has told.

    :param line: its last progress line, with what those before it said of loss, total and checkpoint.
    :param bars: name of a bar -> how much it counted last.
    :param result: the result document that it printed last, unread.
    """

    steps: Steps = field(default_factory=Steps)
    line: Progress | None = None
    bars: dict[str, str] = field(default_factory=dict)
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
class Heard:
    """All that was heard.

    :param progress_at: when a step was reported that had not been before, in seconds since 1970; None when none was.
    :param pods: by name; those heard of last stand last.
    :param findings: pod name -> name of the failure rule that its log matches.
    """

    shown: Shown | None = None
    progress_at: float | None = None
    pods: Mapping[str, Told] = field(default_factory=dict)
    findings: Mapping[str, str] = field(default_factory=dict)


def to_document(heard: Heard) -> dict[str, Any]:
    """Give it as plain data of at most LONGEST characters of JSON: of many pods those heard of last."""
    for most in _FEWER:
        document = _document(heard, most)
        if len(json.dumps(document)) <= LONGEST:
            break
    return document


def from_document(document: object, now: float) -> Heard:
    """Give what :func:`to_document` wrote. Whatever is not of its kind is as if it had not been heard.

    :param now: seconds since 1970: no moment is later.
    """
    if not isinstance(document, Mapping) or document.get("v") != VERSION:
        return Heard()
    return Heard(
        shown=_shown_of(child(document, "shown"), now),
        progress_at=_moment(document.get("progress_at"), now),
        pods={
            pod: _told_of(told)
            for pod, told in islice(child(document, "pods").items(), MOST_PODS)
            if isinstance(pod, str) and len(pod) <= _LONGEST_NAME
        },
        findings=dict(islice(texts(document, "findings").items(), MOST_PODS)),
    )


def _document(heard: Heard, most: int) -> dict[str, Any]:
    shown = heard.shown
    return {
        "v": VERSION,
        "progress_at": heard.progress_at,
        "shown": None
        if shown is None
        else {
            "pod": shown.pod,
            "at": shown.at,
            "bar_since": shown.bar_since,
            "progress": plain_progress(shown.progress),
        },
        "pods": {pod: _plain_told(told) for pod, told in last_of(heard.pods, most).items()},
        "findings": last_of(heard.findings, most),
    }


def _plain_told(told: Told) -> dict[str, Any]:
    found: dict[str, Any] = {
        "steps": plain_steps(told.steps),
        "line": plain_progress(told.line) if told.line is not None else None,
        "bars": told.bars,
        "result": told.result,
    }
    return {name: value for name, value in found.items() if value}


def _told_of(document: object) -> Told:
    body = document if isinstance(document, Mapping) else {}
    return Told(
        steps=steps_of(child(body, "steps")),
        line=progress_of(body.get("line")),
        bars=dict(islice(texts(body, "bars").items(), MOST_BARS)),
        result=text(body, "result")[:LONGEST_RESULT] or None,
    )


def _shown_of(body: Mapping[str, Any], now: float) -> Shown | None:
    progress, at = progress_of(body.get("progress")), _moment(body.get("at"), now)
    if progress is None or at is None:
        return None
    return Shown(progress=progress, pod=text(body, "pod"), at=at, bar_since=finite(body.get("bar_since")))


def _moment(value: object, now: float) -> float | None:
    moment = finite(value)
    return min(moment, now) if moment is not None and moment >= 0 else None
