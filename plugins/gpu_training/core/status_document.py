"""The status of trainings as plain data for machines. Names are stable; within a version, fields are only added."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from gpu_training.core.attempts import Attempt
from gpu_training.core.clock_readings import Reading
from gpu_training.core.duration_text import timestamp
from gpu_training.core.pending_report import Report
from gpu_training.core.plain_data import plain_verdict
from gpu_training.core.progress_text import eta_seconds, percent_of
from gpu_training.core.resume import repeated_steps, total_repeated_steps
from gpu_training.core.status import Overview, TrainingStatus

VERSION: Final = 1


def to_document(overview: Overview, *, namespace: str) -> dict[str, Any]:
    """Give the whole look at a namespace."""
    return {
        "version": VERSION,
        "namespace": namespace,
        "at": timestamp(overview.at),
        "trainings": [_training(status) for status in overview.trainings],
        "hidden": list(overview.hidden),
    }


def _training(status: TrainingStatus) -> dict[str, Any]:
    """Times are RFC 3339 in UTC; null stands for what is not known, or does not apply."""
    return {
        "model": status.model,
        "data_version": status.data_version or None,
        "namespace": status.namespace,
        "deployment": status.deployment,
        "job": status.job,
        "generation": status.generation,
        "phase": status.phase,
        "since": timestamp(status.since),
        "ended": status.ended,
        "waits": status.waits,
        "detail": status.detail,
        **_why(status.pending),
        "verdict": plain_verdict(status.verdict),
        "hidden": [*(status.pending.hidden if status.pending is not None else ()), *status.hidden],
        "clocks": [_clock(reading) for reading in status.clocks],
        "progress": _progress(status),
        "attempts": [_attempt(attempt, status.attempts) for attempt in status.attempts],
        "repeated_steps": total_repeated_steps(status.attempts),
        "gpu_seconds": status.gpu_seconds,
        "waiters": None if status.waiters is None else [asdict(waiter) for waiter in status.waiters],
    }


def _why(report: Report | None) -> Mapping[str, Any]:
    if report is None:
        names = ("cause", "cure", "curable", "summary", "remedy", "nearest", "words", "subject")
        return {**dict.fromkeys(names), "nodes": [], "holders": []}
    return {
        "cause": str(report.cause),
        "cure": str(report.cure),
        "curable": report.curable,
        "summary": report.summary,
        "remedy": report.remedy,
        "nearest": report.nearest or None,
        "words": report.words or None,
        "subject": report.subject or None,
        "nodes": [
            {"reason": node.reason, "count": node.count, "cause": None if node.cause is None else str(node.cause)}
            for node in report.nodes
        ],
        "holders": [
            {"who": each.who, "node": each.node, "gpus": each.gpus, "ends_by": timestamp(each.ends_by)}
            for each in report.holders
        ],
    }


def _progress(status: TrainingStatus) -> dict[str, Any] | None:
    progress = status.progress
    if progress is None:
        return None
    return {
        **asdict(progress),
        "percent": percent_of(progress),
        "seconds_left": eta_seconds(progress) if status.progresses else None,
        "at": timestamp(status.progress_at),
        "pod": status.progress_pod or None,
    }


def _clock(reading: Reading) -> dict[str, Any]:
    return {
        "clock": str(reading.clock),
        "since": timestamp(reading.since),
        "elapsed_seconds": round(reading.elapsed, 1),
        "limit_seconds": reading.limit,
    }


def _attempt(attempt: Attempt, attempts: Sequence[Attempt]) -> dict[str, Any]:
    return {
        "number": attempt.number,
        "pod": attempt.pod,
        "node": attempt.node or None,
        "started_at": timestamp(attempt.started_at),
        "ended_at": timestamp(attempt.ended_at),
        "gpus": attempt.gpus,
        "gpu_seconds": attempt.gpu_seconds,
        "estimated": attempt.estimated,
        "first_step": attempt.first_step,
        "last_step": attempt.last_step,
        "checkpoint_step": attempt.checkpoint_step,
        "repeated_steps": repeated_steps(attempt, attempts),
        "verdict": plain_verdict(attempt.verdict),
    }
