"""How the next Job of a lineage is made, from what happened to those before it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from gpu_training.core.budget import Allowance, Budget
from gpu_training.core.exhaustion import LEAST_WALL_S
from gpu_training.core.ledger import Ledger, LedgerJob
from gpu_training.core.memory_growth import grown
from gpu_training.core.spec import MAXIMUM_DEADLINE_S, TrainingSpec
from gpu_training.core.spending import allowance, spending
from gpu_training.core.verdict import Action


@dataclass(frozen=True, slots=True, kw_only=True)
class NextJob:
    """What differs in the next Job.

    :param spec: the training spec with more memory, or on other nodes.
    :param avoid_nodes: names of nodes on which it must not run.
    :param allowance: what it may spend.
    :param on_demand: whether it goes where the spot fallback says.
    """

    spec: TrainingSpec
    allowance: Allowance
    avoid_nodes: tuple[str, ...] = ()
    on_demand: bool = False

    @property
    def work_seconds(self) -> int:
        """What the Job may take outside of the queue."""
        return max(LEAST_WALL_S, int(self.allowance.wall_seconds))

    @property
    def outer_deadline_seconds(self) -> int:
        """The Job's own deadline when it is made: Kubernetes counts the queue, too. Whoever watches lowers it once the
        queue is over (:func:`gpu_training.core.orders.wanted_deadline`)."""
        queue = self.spec.clocks.queue_seconds
        return MAXIMUM_DEADLINE_S if queue is None else min(MAXIMUM_DEADLINE_S, self.work_seconds + queue)

    def record(self, *, number: int, generation: int, period: int, name: str, pods: int, now: float) -> LedgerJob:
        """Give the record with which it is announced before it is made.

        :param pods: that run at once.
        """
        return LedgerJob(
            number=number,
            generation=generation,
            period=period,
            name=name,
            uid=None,
            created_at=now,
            seen_until=now,
            gpus=self.spec.resources.gpus * pods,
            memory=self.spec.resources.limits["memory"],
            allowance=self.allowance,
            on_demand=self.on_demand,
            checkpoint_uri=self.spec.checkpoint_uri or "",
        )


def next_job(ledger: Ledger, spec: TrainingSpec, budget: Budget, now: float) -> NextJob:
    """Give what differs in the next Job. Memory grows once for each attempt of the generation that ran out of it; nodes
    that failed are avoided until a person renews the budget; the last attempt goes where the spot fallback says."""
    jobs = ledger.current_jobs()
    spent = spending(jobs, now)
    last = spent.failures >= budget.attempts - 1 or spent.disruptions > budget.disruptions
    on_demand = spec.spot_fallback is not None and last
    kept = 1 if spec.spot_fallback is not None and not on_demand else 0
    allowed = allowance(
        budget, spent, backoff_limit=spec.backoff_limit, deadline_seconds=spec.deadline_seconds, kept=kept
    )
    return NextJob(
        spec=_elsewhere(_larger(spec, _steps(ledger)), on_demand=on_demand),
        allowance=allowed,
        avoid_nodes=tuple(sorted(_bad_nodes(jobs))),
        on_demand=on_demand,
    )


def _steps(ledger: Ledger) -> int:
    attempts = [attempt for job in ledger.jobs if job.generation == ledger.generation for attempt in job.attempts]
    return sum(a.verdict is not None and a.verdict.action is Action.RETRY_LARGER for a in attempts)


def _bad_nodes(jobs: tuple[LedgerJob, ...]) -> set[str]:
    attempts = [attempt for job in jobs for attempt in job.attempts]
    return {a.node for a in attempts if a.node and a.verdict and a.verdict.action is Action.RETRY_ELSEWHERE}


def _larger(spec: TrainingSpec, steps: int) -> TrainingSpec:
    if not steps:
        return spec
    before = spec.resources.limits["memory"]
    memory = grown(before, spec.memory_growth, steps)

    def with_memory(amounts: Mapping[str, str]) -> dict[str, str]:
        return {name: memory if name == "memory" and text == before else text for name, text in amounts.items()}

    resources = replace(
        spec.resources, requests=with_memory(spec.resources.requests), limits=with_memory(spec.resources.limits)
    )
    return replace(spec, resources=resources)


def _elsewhere(spec: TrainingSpec, *, on_demand: bool) -> TrainingSpec:
    if not on_demand or spec.spot_fallback is None:
        return spec
    fallback = spec.spot_fallback
    return replace(
        spec,
        node_selector=dict(fallback.node_selector),
        tolerations=fallback.tolerations,
    )
