"""The progress of a training as plain JSON in an annotation of its Job, and back. Anybody may have written there."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, TypeVar

from gpu_training.contract import Progress
from gpu_training.core.documents import child, text, whole
from gpu_training.core.steps import Steps

_Value = TypeVar("_Value")

VERSION: Final = 1
MOST_PODS: Final = 20
"""Pods whose steps are written down: those heard of last."""
_LONGEST_NAME: Final = 253


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldProgress:
    """How far a training is, as its pods' logs tell.

    :param at: when the last step was reported that had not been before, in seconds since 1970.
    :param pod: that reported it.
    :param steps: pod name -> which steps it said it did; those heard of last stand last.
    """

    at: float
    pod: str
    progress: Progress
    steps: Mapping[str, Steps] = field(default_factory=dict)


def to_text(told: ToldProgress) -> str:
    """Give the annotation's text: one JSON object of a few hundred ASCII characters, and a hundred for each pod."""
    document = {
        "v": VERSION,
        "at": round(told.at, 3),
        "pod": told.pod,
        **plain_progress(told.progress),
        "steps": {pod: plain_steps(steps) for pod, steps in last_of(told.steps, MOST_PODS).items()},
    }
    return json.dumps(document, separators=(",", ":"), allow_nan=False)


def from_text(annotation: str) -> ToldProgress | None:
    """Give what the annotation tells; None for one that is absent, of another version, or edited."""
    try:
        document = json.loads(annotation)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, Mapping) or document.get("v") != VERSION:
        return None
    progress, at, pod = progress_of(document), finite(document.get("at")), text(document, "pod")
    if progress is None or at is None or not 0 <= at < 2**40 or len(pod) > _LONGEST_NAME:
        return None
    steps = {name: steps_of(each) for name, each in islice(child(document, "steps").items(), MOST_PODS)}
    return ToldProgress(at=at, pod=pod, progress=progress, steps=steps)


def plain_progress(progress: Progress) -> dict[str, Any]:
    """Give progress as plain JSON data; what is not known, or is no finite number, is left out."""
    numbers = {"loss": progress.loss, "throughput": progress.throughput}
    counts = {"checkpoint_step": progress.checkpoint_step, "first_step": progress.first_step}
    return {
        "step": progress.step,
        "total": progress.total,
        **{name: value for name, value in numbers.items() if value is not None and math.isfinite(value)},
        **{name: value for name, value in counts.items() if value is not None},
    }


def progress_of(document: object) -> Progress | None:
    """Give the progress that :func:`plain_progress` wrote, or None for anything without a step."""
    body = document if isinstance(document, Mapping) else {}
    step = count(body, "step")
    if step is None:
        return None
    return Progress(
        step=step,
        total=count(body, "total") or 0,
        loss=finite(body.get("loss")),
        throughput=finite(body.get("throughput")),
        checkpoint_step=count(body, "checkpoint_step"),
        first_step=count(body, "first_step"),
    )


def plain_steps(steps: Steps) -> dict[str, int]:
    """Give steps as plain JSON data; what is not known is left out."""
    found = {"first": steps.first, "least": steps.least, "last": steps.last, "checkpoint": steps.checkpoint}
    return {name: value for name, value in found.items() if value is not None}


def steps_of(document: object) -> Steps:
    """Give the steps that :func:`plain_steps` wrote; what is no count is not known."""
    body = document if isinstance(document, Mapping) else {}
    return Steps(
        first=count(body, "first"),
        least=count(body, "least"),
        last=count(body, "last"),
        checkpoint=count(body, "checkpoint"),
    )


def last_of(kept: Mapping[str, _Value], most: int) -> dict[str, _Value]:
    """Give the last entries of a mapping."""
    return dict(islice(kept.items(), max(0, len(kept) - most), None))


def count(body: Mapping[str, Any], name: str) -> int | None:
    """Give a field that holds a whole number of at least 0; None for anything else."""
    value = whole(body, name)
    return value if value is not None and value >= 0 else None


def finite(value: object) -> float | None:
    """Give a number that JSON can hold; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= 1e308:
        return None
    return float(value)
