"""What of a budget is spent, in words."""

from __future__ import annotations

from typing import Final

from gpu_training.core.budget import Allowance, Budget
from gpu_training.core.ledger import Ledger, LedgerJob
from gpu_training.core.spending import Spending, spending
from gpu_training.core.verdict import Action, Category, Owner, Verdict

_REMEDY: Final = (
    "see where it went, attempt by attempt, below; clear the task or trigger a run by hand for a fresh budget, or "
    "raise training.budget"
)
LEAST_WALL_S: Final = 5
"""With less wall time left no Job is worth making: Kubernetes would take it away before its pod is there."""


def exhausted(ledger: Ledger, budget: Budget, now: float, *, has_fallback: bool) -> str | None:
    """Give what of the current period's budget is spent; None while another Job may be made.

    :param has_fallback: whether a spot fallback is declared: then the disruptions' end is one on-demand Job later.
    """
    jobs = ledger.current_jobs()
    spent = spending(jobs, now)
    fallback_left = has_fallback and not any(job.on_demand for job in jobs)
    if spent.failures >= budget.attempts:
        return f"{spent.failures} of {budget.attempts} attempts"
    if spent.disruptions > budget.disruptions and not fallback_left:
        return f"{spent.disruptions} disruptions, of which {budget.disruptions} are allowed"
    if budget.gpu_seconds is not None and spent.gpu_seconds >= budget.gpu_seconds:
        return f"{spent.gpu_seconds:g} of {budget.gpu_seconds} GPU-seconds"
    if spent.wall_seconds > budget.wall_seconds - LEAST_WALL_S and jobs_have_lived(jobs):
        return f"{spent.wall_seconds:.0f} of {budget.wall_seconds} seconds of wall time"
    return None


def jobs_have_lived(jobs: tuple[LedgerJob, ...]) -> bool:
    """Whether any Job has been there."""
    return any(job.uid is not None for job in jobs)


def overdrawn(job: LedgerJob, now: float) -> str | None:
    """Give what of its allowance a Job that lives has spent beyond what is allowed; None while all is well."""
    allowed = job.allowance
    if job.disruptions > allowed.disruptions:
        return f"{job.disruptions} disruptions, of which {allowed.disruptions} were left"
    if allowed.gpu_seconds is not None and job.gpu_seconds >= allowed.gpu_seconds:
        return f"{job.gpu_seconds:g} of the {allowed.gpu_seconds:g} GPU-seconds that were left"
    if job.wall_seconds(now) >= allowed.wall_seconds + LEAST_WALL_S:
        return f"{job.wall_seconds(now):.0f} of the {allowed.wall_seconds:.0f} seconds of wall time that were left"
    return None


def seconds_left(job: LedgerJob, allowed: Allowance, held_gpus: int, now: float) -> float:
    """Give the seconds after which a Job may be overdrawn if nothing else happens.

    :param held_gpus: GPUs that its pods hold now.
    """
    left = allowed.wall_seconds + LEAST_WALL_S - job.wall_seconds(now)
    if allowed.gpu_seconds is not None and held_gpus:
        left = min(left, (allowed.gpu_seconds - job.gpu_seconds) / held_gpus)
    return max(0.0, left)


def spent_verdict(what: str, spent: Spending) -> Verdict:
    """Give the verdict on a lineage whose budget is spent."""
    return Verdict(
        category=Category.BUDGET_SPENT,
        owner=Owner.CONFIGURATION,
        action=Action.FAIL,
        summary=f"the budget is spent: {what}; in all {spent.failures} failures, {spent.disruptions} disruptions, "
        f"{spent.gpu_seconds:g} GPU-seconds, {spent.wall_seconds:.0f} s of wall time",
        remedy=_REMEDY,
    )
