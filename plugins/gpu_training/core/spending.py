"""What Jobs of a lineage have spent together, and what is left for the next one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpu_training.core.budget import Allowance, Budget
from gpu_training.core.ledger import LedgerJob


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """What the current period has spent."""

    failures: int
    disruptions: int
    gpu_seconds: float
    wall_seconds: float


def spending(jobs: Sequence[LedgerJob], now: float) -> Spending:
    """Give what Jobs have spent together."""
    return Spending(
        failures=sum(job.failures for job in jobs),
        disruptions=sum(job.disruptions for job in jobs),
        gpu_seconds=round(sum(job.gpu_seconds for job in jobs), 3),
        wall_seconds=round(sum(job.wall_seconds(now) for job in jobs), 3),
    )


def allowance(
    budget: Budget, spent: Spending, *, backoff_limit: int, deadline_seconds: int, kept: int = 0
) -> Allowance:
    """Give what the next Job may spend: at most its own limits, and what is left but for `kept` attempts."""
    return Allowance(
        failures=max(0, min(backoff_limit, budget.attempts - spent.failures - 1 - kept)),
        disruptions=max(0, budget.disruptions - spent.disruptions),
        gpu_seconds=None if budget.gpu_seconds is None else max(0.0, budget.gpu_seconds - spent.gpu_seconds),
        wall_seconds=max(0.0, min(deadline_seconds, budget.wall_seconds - spent.wall_seconds)),
    )
