"""Ledger <-> the text in its ConfigMap. What is read may have been edited: it is a ledger as a whole, or refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Final, TypeVar

from gpu_training.core.attempts import Attempt
from gpu_training.core.brevity import BRIEFER, LONGEST
from gpu_training.core.budget import Allowance
from gpu_training.core.errors import GpuTrainingError
from gpu_training.core.ledger import Claim, Ending, Ledger, LedgerJob, Renewal, Trained, attempts_in
from gpu_training.core.plain_data import (
    PlainDataError,
    attempt_of,
    mapping,
    number,
    one_of,
    optional_number,
    optional_text,
    plain_attempt,
    plain_result,
    plain_verdict,
    result_of,
    text,
    verdict_of,
    whole,
)
from gpu_training.core.queue_time import Interval, merged
from gpu_training.core.resume import repeated_steps

LEDGER_VERSION: Final = 1
_HEAD: Final = (
    "model",
    "deployment",
    "fingerprint",
    "generation",
    "period",
    "next_number",
    "folded_jobs",
    "folded_gpu_seconds",
    "updated_at",
)

T = TypeVar("T")


class LedgerDamaged(GpuTrainingError):
    """A ledger is not one that we wrote: somebody edited it."""


def to_text(ledger: Ledger) -> str:
    """Give the ledger as JSON, a line a Job, claim and renewal: people read it, too.

    One that is too long for a ConfigMap loses words.
    """
    ledger = ledger.folded()
    document = _written(ledger)
    for briefer in BRIEFER:
        if len(document) <= LONGEST:
            break
        ledger = briefer(ledger)
        document = _written(ledger)
    return document


def _written(ledger: Ledger) -> str:
    body = {
        "v": LEDGER_VERSION,
        **{name: getattr(ledger, name) for name in _HEAD},
        "jobs": [_plain_job(job, attempts_in(ledger, job.generation)) for job in ledger.jobs],
        "claims": [asdict(claim) for claim in ledger.claims],
        "renewals": [asdict(renewal) for renewal in ledger.renewals],
        "trained": [{**asdict(trained), "result": plain_result(trained.result)} for trained in ledger.trained],
    }
    return "{\n" + ",\n".join(f"{json.dumps(name)}: {_lines(value)}" for name, value in body.items()) + "\n}\n"


def _lines(value: object) -> str:
    if not isinstance(value, list) or not value:
        return json.dumps(value)
    return "[\n  " + ",\n  ".join(json.dumps(entry) for entry in value) + "\n]"


def _plain_job(job: LedgerJob, all_attempts: Sequence[Attempt]) -> dict[str, object]:
    return {
        **asdict(job),
        "verdict": plain_verdict(job.verdict),
        # For people: what is read again is counted anew.
        "repeated_steps": sum(repeated_steps(attempt, all_attempts) for attempt in job.attempts),
        "attempts": [plain_attempt(attempt) for attempt in job.attempts],
    }


def from_text(document: str) -> Ledger:
    """Give the ledger in a text.

    :raises LedgerDamaged: it is none.
    """
    try:
        body = mapping(json.loads(document), "ledger")
        if body.get("v") != LEDGER_VERSION:
            raise PlainDataError("v", body.get("v"), f"version {LEDGER_VERSION}, which this release reads,")
        ledger = Ledger(
            model=text(body, "model"),
            deployment=text(body, "deployment"),
            fingerprint=text(body, "fingerprint"),
            generation=_count(body, "generation", least=1),
            period=_count(body, "period", least=1),
            next_number=_count(body, "next_number", least=1),
            folded_jobs=_count(body, "folded_jobs", least=0),
            folded_gpu_seconds=_amount(body, "folded_gpu_seconds"),
            updated_at=number(body, "updated_at"),
            jobs=_each(body, "jobs", _job),
            claims=_each(body, "claims", _claim),
            renewals=_each(body, "renewals", _renewal),
            trained=_each(body, "trained", _trained),
        )
    except (ValueError, RecursionError) as fault:
        raise LedgerDamaged(f"no JSON: {fault}") from None
    except PlainDataError as fault:
        raise LedgerDamaged(str(fault)) from None
    return _consistent(ledger)


def _consistent(ledger: Ledger) -> Ledger:
    numbers = [job.number for job in ledger.jobs]
    if sorted(set(numbers)) != numbers:
        raise LedgerDamaged(f"jobs: numbers {numbers} are not ascending")
    if numbers and ledger.next_number <= numbers[-1]:
        raise LedgerDamaged(f"next_number={ledger.next_number}: Job {numbers[-1]} has it or is behind it")
    if sum(job.ended_at is None for job in ledger.jobs) > 1:
        raise LedgerDamaged("jobs: more than one has not ended")
    for name in ("generation", "period"):
        ahead = max((getattr(job, name) for job in ledger.jobs), default=1)
        if ahead > getattr(ledger, name):
            raise LedgerDamaged(f"{name}={getattr(ledger, name)}: a Job is of {name} {ahead} already")
    return ledger


def _count(body: Mapping[str, object], name: str, *, least: int) -> int:
    value = whole(body, name)
    if value < least:
        raise PlainDataError(name, value, f"a number from {least} on")
    return value


def _amount(body: Mapping[str, object], name: str) -> float:
    value = number(body, name)
    if value < 0:
        raise PlainDataError(name, value, "a number from 0 on")
    return value


def _each(body: Mapping[str, object], name: str, read: Callable[[Mapping[str, object]], T]) -> tuple[T, ...]:
    value = body.get(name)
    if not isinstance(value, list):
        raise PlainDataError(name, value, "a list")
    return tuple(read(mapping(entry, name)) for entry in value)


def _flag(body: Mapping[str, object], name: str) -> bool:
    value = body.get(name)
    if not isinstance(value, bool):
        raise PlainDataError(name, value, "true or false")
    return value


def _allowance(value: object) -> Allowance:
    body = mapping(value, "allowance")
    return Allowance(
        failures=_count(body, "failures", least=0),
        disruptions=_count(body, "disruptions", least=0),
        gpu_seconds=None if body.get("gpu_seconds") is None else _amount(body, "gpu_seconds"),
        wall_seconds=_amount(body, "wall_seconds"),
    )


def _attempt(body: Mapping[str, object]) -> Attempt:
    for name in ("gpus", "gpu_seconds"):
        _amount(body, name)
    return attempt_of(body)


def _job(body: Mapping[str, object]) -> LedgerJob:
    return LedgerJob(
        number=_count(body, "number", least=1),
        generation=_count(body, "generation", least=1),
        period=_count(body, "period", least=1),
        name=text(body, "name"),
        uid=optional_text(body, "uid"),
        created_at=number(body, "created_at"),
        gpus=_count(body, "gpus", least=0),
        memory=text(body, "memory"),
        allowance=_allowance(body.get("allowance")),
        on_demand=_flag(body, "on_demand"),
        checkpoint_uri=optional_text(body, "checkpoint_uri") or "",
        seen_until=number(body, "seen_until"),
        ended_at=optional_number(body, "ended_at"),
        ending=None if body.get("ending") is None else one_of(Ending, body, "ending"),
        verdict=verdict_of(body.get("verdict")),
        attempts=_each(body, "attempts", _attempt),
        unseen_gpu_seconds=_amount(body, "unseen_gpu_seconds"),
        waited=_intervals(body.get("waited", [])),
    )


def _intervals(value: object) -> tuple[Interval, ...]:
    """Give the intervals in a value; a release before this one wrote none."""
    pairs = value if isinstance(value, list) else [value]
    return merged(_interval(pair) for pair in pairs)


def _interval(pair: object) -> Interval:
    if isinstance(pair, list) and len(pair) == 2:
        return number({"waited": pair[0]}, "waited"), number({"waited": pair[1]}, "waited")
    raise PlainDataError("waited", pair, "two times, the begin and the end of a wait,")


def _claim(body: Mapping[str, object]) -> Claim:
    return Claim(
        task=text(body, "task"),
        max_tries=whole(body, "max_tries"),
        generation=_count(body, "generation", least=1),
        number=_count(body, "number", least=0),
        at=number(body, "at"),
        delivered=_flag(body, "delivered"),
    )


def _renewal(body: Mapping[str, object]) -> Renewal:
    return Renewal(
        at=number(body, "at"),
        task=text(body, "task"),
        generation=_count(body, "generation", least=1),
        period=_count(body, "period", least=1),
        why=text(body, "why"),
    )


def _trained(body: Mapping[str, object]) -> Trained:
    return Trained(
        generation=_count(body, "generation", least=1),
        number=_count(body, "number", least=0),
        **{name: text(body, name) for name in ("job", "job_uid", "mlflow_run_id", "image")},
        at=number(body, "at"),
        result=result_of(body.get("result")),
    )
