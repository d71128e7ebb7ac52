"""Why a training waits, in words: one line for the log, a table for the end of a wait."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from gpu_training.core.nearest_fit import gpus
from gpu_training.core.pending_report import GpuHolder, Report
from gpu_training.core.sayings import plain

_LATEST: Final = datetime(9999, 1, 1, tzinfo=UTC).timestamp()
_MOST_ROWS: Final = 12
_LONGEST_LINE: Final = 1500
_HIDDEN_WORDS: Final = 3


def line(report: Report) -> str:
    """Give one line for the log: what is the matter, who holds what is wanted, the nearest change, what to do.

    It stays the same while nothing changes, so that a log can say it once.
    """
    parts = [_with_holder(report), _sentence(report.nearest), _sentence(report.remedy)]
    if report.hidden:
        parts.append(f"Not looked at: {'; '.join(report.hidden[:_HIDDEN_WORDS])}.")
    return plain(" ".join(part.strip() for part in parts if part.strip()), _LONGEST_LINE)


def _sentence(text: str) -> str:
    """Give a text as a sentence that ends."""
    ends = text.rstrip().endswith((".", "!", "?", "…"))
    return f"{text[:1].upper()}{text[1:]}{'' if ends else '.'}" if text.strip() else ""


def _with_holder(report: Report) -> str:
    if not report.holders:
        return _sentence(report.summary)
    more = len(report.holders) - 1
    others = f", and {more} more" if more else ""
    return f"{report.summary.rstrip('.')} ({holder_text(report.holders[0])}{others})."


def holder_text(holder: GpuHolder) -> str:
    """Give a holder such as `pod x of model m holds 2 GPUs on g5-1 until 2026-12-01 14:05 UTC at the latest`."""
    moment = time_text(holder.ends_by)
    until = f" until {moment} at the latest" if moment else ""
    return f"{holder.who} holds {gpus(holder.gpus)} on {holder.node}{until}"


def time_text(moment: float | None) -> str:
    """Give a time of day with its date, in UTC; empty when there is none."""
    if moment is None or not math.isfinite(moment) or not 0 <= moment < _LATEST:
        return ""
    return f"{datetime.fromtimestamp(moment, UTC):%Y-%m-%d %H:%M} UTC"


def table(report: Report, now: float) -> list[str]:
    """Give the whole report as lines: for the end of a wait, and for who looks closely.

    :param now: seconds since 1970.
    """
    curable = {"never": "no waiting cures it", "waiting": "waiting can cure it", "transient": "it heals by itself"}
    rows = [
        ("cause", f"{report.cause} ({curable[report.cure]})"),
        ("what waits", plain(report.subject)),
        ("why", plain(report.summary, _LONGEST_LINE)),
        ("would fit", plain(report.nearest, _LONGEST_LINE)),
        ("remedy", plain(report.remedy, _LONGEST_LINE)),
    ]
    rows += _under("nodes", [f"{each.count:>5}  {plain(each.reason)}" for each in report.nodes[:_MOST_ROWS]])
    rows += _under("held by", [_holder_row(each, now) for each in report.holders[:_MOST_ROWS]])
    rows += [("in its words", plain(report.words, _LONGEST_LINE))]
    rows += _under("not looked at", [plain(each) for each in report.hidden[:_MOST_ROWS]])
    return [f"{name:<14}{text}" for name, text in rows if text.strip()]


def _under(name: str, texts: Sequence[str]) -> list[tuple[str, str]]:
    return [(name if not place else "", text) for place, text in enumerate(texts)]


def _holder_row(holder: GpuHolder, now: float) -> str:
    left = _left(holder.ends_by, now)
    return f"{holder.gpus:>5}  {plain(holder.node)}  {plain(holder.who)}{left}"


def _left(ends_by: float | None, now: float) -> str:
    moment = time_text(ends_by)
    if ends_by is None or not moment:
        return ", no end known"
    minutes = max(0, math.ceil((ends_by - now) / 60)) if math.isfinite(now) else 0
    return f", until {moment} at the latest (in {minutes} min)"
