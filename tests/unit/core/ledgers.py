"""Ledgers, their Jobs and attempts, for tests: made by hand, and generated."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from gpu_training.contract import Result, ResultStatus
from gpu_training.core.attempts import Attempt
from gpu_training.core.budget import Allowance, Budget
from gpu_training.core.ledger import Claim, Ending, Ledger, LedgerJob, Renewal, Trained
from gpu_training.core.queue_time import merged
from gpu_training.core.verdict import Action, Category, Owner, Verdict

BUDGET = Budget(attempts=3, disruptions=2, gpu_seconds=None, wall_seconds=1800)
ALLOWANCE = Allowance(failures=2, disruptions=2, gpu_seconds=None, wall_seconds=1800.0)

_CATEGORIES = {
    Action.FAIL: Category.BAD_DATA,
    Action.RETRY: Category.APPLICATION_ERROR,
    Action.RETRY_ELSEWHERE: Category.GPU_HARDWARE,
    Action.RETRY_LARGER: Category.OUT_OF_MEMORY,
    Action.WAIT: Category.DISRUPTED,
}


def verdict(action: Action = Action.RETRY, category: Category | None = None, summary: str = "it broke") -> Verdict:
    """Give a verdict that asks for an action."""
    return Verdict(
        category=category or _CATEGORIES[action],
        owner=Owner.APPLICATION,
        action=action,
        summary=summary,
        remedy="mend it",
    )


def attempt(
    uid: str = "a",
    *,
    start: float | None = 10.0,
    end: float | None = 20.0,
    action: Action | None = None,
    category: Category | None = None,
    node: str = "gpu-1",
    gpus: int = 1,
    estimated: bool = False,
) -> Attempt:
    """Give an attempt.

    :param action: what its end asks for; None for a success, or while it runs.
    """
    return Attempt(
        number=1,
        pod=f"pod-{uid}",
        uid=uid,
        node=node if start is not None else "",
        started_at=start,
        ended_at=end,
        gpus=gpus,
        gpu_seconds=(end - start) * gpus if start is not None and end is not None else 0.0,
        estimated=estimated,
        verdict=verdict(action, category) if action is not None else None,
    )


def failed_attempts(count: int, action: Action = Action.RETRY) -> tuple[Attempt, ...]:
    """Give attempts, one behind the other, that held a GPU for ten seconds each."""
    return tuple(
        attempt(f"a{n}", start=20.0 * n, end=20.0 * n + 10, action=action, node=f"gpu-{n}") for n in range(count)
    )


def ledger_job(number: int = 1, **changes: Any) -> LedgerJob:
    """Give the record of a Job that lives."""
    return LedgerJob(
        **{
            "number": number,
            "generation": 1,
            "period": 1,
            "name": f"m-0123456789abcdef-g1-{number}",
            "uid": f"uid-{number}",
            "created_at": 0.0,
            "gpus": 1,
            "memory": "2Gi",
            "allowance": ALLOWANCE,
            **changes,
        }
    )


def ended_job(number: int = 1, *, action: Action | None = Action.RETRY, **changes: Any) -> LedgerJob:
    """Give the record of a Job that has ended after 100 s.

    :param action: what its end asks for; None for a success.
    """
    return ledger_job(
        number,
        **{
            "ended_at": 100.0,
            "ending": Ending.FAILED if action is not None else Ending.SUCCEEDED,
            "verdict": verdict(action) if action is not None else None,
            **changes,
        },
    )


def trained(number: int = 1, generation: int = 1) -> Trained:
    """Give what a generation came to."""
    return Trained(
        generation=generation,
        number=number,
        job=f"m-0123456789abcdef-g{generation}-{number}",
        job_uid=f"uid-{number}",
        mlflow_run_id="r",
        image="i",
        at=100.0,
        result=Result(status=ResultStatus.TRAINED),
    )


def ledger_of(*jobs: LedgerJob, **changes: Any) -> Ledger:
    """Give a ledger that holds these Jobs."""
    next_number = max((job.number for job in jobs), default=0) + 1
    fields = {"model": "m", "deployment": "airflow", "fingerprint": "f", "next_number": next_number, **changes}
    return Ledger(jobs=jobs, **fields)


texts = st.text(max_size=12)
moments = st.floats(min_value=0, max_value=4e9).map(lambda seconds: round(seconds, 3))
amounts = st.floats(min_value=0, max_value=1e9).map(lambda seconds: round(seconds, 3))
counts = st.integers(min_value=1, max_value=10**6)
verdicts = st.builds(
    Verdict,
    category=st.sampled_from(Category),
    owner=st.sampled_from(Owner),
    action=st.sampled_from(Action),
    summary=texts,
    remedy=texts,
)
attempts = st.builds(
    Attempt,
    number=counts,
    pod=texts,
    uid=texts,
    node=texts,
    started_at=st.none() | moments,
    ended_at=st.none() | moments,
    gpus=st.integers(min_value=0, max_value=64),
    gpu_seconds=amounts,
    estimated=st.booleans(),
    verdict=st.none() | verdicts,
)
allowances = st.builds(
    Allowance,
    failures=st.integers(min_value=0, max_value=100),
    disruptions=st.integers(min_value=0, max_value=100),
    gpu_seconds=st.none() | amounts,
    wall_seconds=amounts,
)
results = st.builds(
    Result,
    status=st.sampled_from(ResultStatus),
    metrics=st.dictionaries(texts, st.floats(min_value=-1e300, max_value=1e300), max_size=2),
    model_uri=st.none() | texts,
    last_step=st.none() | counts,
)
intervals = st.lists(st.tuples(moments, moments), max_size=3).map(merged)
jobs = st.builds(
    LedgerJob,
    number=counts,
    generation=counts,
    period=counts,
    name=texts,
    uid=st.none() | texts,
    created_at=moments,
    gpus=st.integers(min_value=0, max_value=64),
    memory=texts,
    allowance=allowances,
    on_demand=st.booleans(),
    seen_until=moments,
    ended_at=moments,
    ending=st.none() | st.sampled_from(Ending),
    verdict=st.none() | verdicts,
    attempts=st.lists(attempts, max_size=2).map(tuple),
    unseen_gpu_seconds=amounts,
    waited=intervals,
)
claims = st.builds(
    Claim,
    task=texts,
    max_tries=st.integers(min_value=-1, max_value=99),
    generation=counts,
    number=st.integers(min_value=0, max_value=10**6),
    at=moments,
)
renewals = st.builds(Renewal, at=moments, task=texts, generation=counts, period=counts, why=texts)
ends = st.builds(
    Trained,
    generation=counts,
    number=counts,
    job=texts,
    job_uid=texts,
    mlflow_run_id=texts,
    image=texts,
    at=moments,
    result=st.none() | results,
)


@st.composite
def ledgers(draw: st.DrawFn) -> Ledger:
    """Give any ledger whose parts fit together; at most its last Job lives."""
    listed = draw(st.lists(jobs, max_size=3, unique_by=lambda job: job.number))
    listed.sort(key=lambda job: job.number)
    if listed and draw(st.booleans()):
        listed[-1] = ledger_job(listed[-1].number, uid=draw(st.none() | texts))
    last = listed[-1].number if listed else 0
    return Ledger(
        model=draw(texts),
        deployment=draw(texts),
        fingerprint=draw(texts),
        generation=max([draw(counts), *(job.generation for job in listed)]),
        period=max([draw(counts), *(job.period for job in listed)]),
        next_number=last + draw(counts),
        jobs=tuple(listed),
        claims=tuple(draw(st.lists(claims, max_size=2))),
        renewals=tuple(draw(st.lists(renewals, max_size=2))),
        trained=tuple(draw(st.lists(ends, max_size=2))),
        folded_jobs=draw(st.integers(min_value=0, max_value=10**6)),
        folded_gpu_seconds=draw(amounts),
        updated_at=draw(moments),
    )
