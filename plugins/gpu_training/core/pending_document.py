"""A report as plain JSON, small enough for an annotation, and back."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Final

from gpu_training.core.documents import entries, text, whole
from gpu_training.core.pending_cause import Cause, Cure
from gpu_training.core.pending_report import GpuHolder, NodeCount, Report

VERSION: Final = 1
LONGEST: Final = 2048
"""Characters of the JSON text, all of them ASCII."""

# What is shortened in turn, until the whole is short enough: texts to so many characters, lists to so many entries.
_CUTS: Final = ((400, 300, 6), (300, 120, 4), (200, 60, 2), (120, 30, 1), (60, 0, 0), (12, 0, 0))


def to_document(report: Report) -> dict[str, Any]:
    """Give a report as plain data of at most LONGEST characters of JSON; a long one is shortened, first its words."""
    for sentence, words, rows in _CUTS:
        document = _document(report, sentence, words, rows)
        if len(json.dumps(document)) <= LONGEST:
            break
    return document


def _document(report: Report, sentence: int, words: int, rows: int) -> dict[str, Any]:
    return {
        "v": VERSION,
        "cause": report.cause.value,
        "curable": report.curable,
        "cure": report.cure.value,
        "summary": _cut(report.summary, sentence),
        "remedy": _cut(report.remedy, sentence),
        "subject": _cut(report.subject, sentence),
        "nearest": _cut(report.nearest, sentence),
        "nodes": [
            {"reason": _cut(each.reason, 120), "count": each.count, "cause": each.cause.value if each.cause else None}
            for each in report.nodes[:rows]
        ],
        "holders": [
            {
                "who": _cut(each.who, 200),
                "node": _cut(each.node, 80),
                "gpus": each.gpus,
                "ends_by": _moment(each.ends_by),
            }
            for each in report.holders[:rows]
        ],
        "words": _cut(report.words, words),
        "hidden": [_cut(each, 100) for each in report.hidden[:rows]],
    }


def _cut(value: str, longest: int) -> str:
    if len(value) <= longest:
        return value
    return value[: longest - 1] + "…" if longest else ""


def from_document(document: object) -> Report | None:
    """Give the report in a document that :func:`to_document` made; None for any other."""
    if not isinstance(document, Mapping) or document.get("v") != VERSION:
        return None
    cause, cure = _cause(document.get("cause")), _cure(document.get("cure"))
    if cause is None or cure is None:
        return None
    hidden = document.get("hidden")
    return Report(
        cause=cause,
        cure=cure,
        summary=text(document, "summary"),
        remedy=text(document, "remedy"),
        subject=text(document, "subject"),
        nearest=text(document, "nearest"),
        nodes=tuple(
            NodeCount(reason=text(e, "reason"), count=whole(e, "count") or 0, cause=_cause(e.get("cause")))
            for e in entries(document, "nodes")
        ),
        holders=tuple(
            GpuHolder(
                who=text(e, "who"), node=text(e, "node"), gpus=whole(e, "gpus") or 0, ends_by=_moment(e.get("ends_by"))
            )
            for e in entries(document, "holders")
        ),
        words=text(document, "words"),
        hidden=tuple(each for each in hidden if isinstance(each, str)) if isinstance(hidden, list) else (),
    )


def _cause(value: object) -> Cause | None:
    return Cause(value) if isinstance(value, str) and value in Cause.__members__.values() else None


def _cure(value: object) -> Cure | None:
    return Cure(value) if isinstance(value, str) and value in Cure.__members__.values() else None


def _moment(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or abs(value) > 1e12:
        return None
    return float(value) if math.isfinite(value) else None
