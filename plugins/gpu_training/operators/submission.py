"""From a plan to the Job that this task try waits on, or to what is trained already; or the Job is only checked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

import yaml

from gpu_training.core.consequence import Join, Refuse, Request, Reuse, Start
from gpu_training.core.errors import ClusterRejected, ClusterUnavailable, GpuTrainingError, JobNameConflict
from gpu_training.core.ledger import Ledger, LedgerJob, Trained, attempts_in
from gpu_training.core.manifest import build_job
from gpu_training.core.naming import job_name
from gpu_training.core.next_job import NextJob, next_job
from gpu_training.core.next_job_document import lay_differences_over
from gpu_training.core.orders import wanted_backoff_limit
from gpu_training.core.recovery import KnownTraining
from gpu_training.core.registration import TAG_PREFIX
from gpu_training.core.training_container import RunSettings
from gpu_training.operators.outcomes import refusal_of
from gpu_training.operators.plan import Plan, lineage_of
from gpu_training.task_log import TaskLog
from gpu_training.task_state import close_run, is_alive

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from gpu_training.cluster.connection import Cluster, ClusterAddress
    from gpu_training.cluster.holding import HeldJob, Step
    from gpu_training.cluster.ledger_store import LedgerStore, Lineage
    from gpu_training.core.waiters import Waiters
    from gpu_training.registry.model_lookup import FoundModel, ModelLookup
    from gpu_training.registry.model_registry import ModelRegistry

_DRY_RUN: Final = "dry-run"
"""MLflow run id of a Job that is only checked: no run is made for it."""
_ROUNDS: Final = 20

T = TypeVar("T")


def run_to_end(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in an event loop of its own; the caller's thread has none."""
    return asyncio.run(work)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReusedModel:
    """The work is trained already.

    :param own: whether this task itself waited on the Job that trained it.
    """

    trained: Trained
    ledger: Ledger
    own: bool
    found: FoundModel | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """Brings a plan to a cluster.

    :param build_base: gives the stock operator's Job as plain JSON data; called once the cluster has answered.
    :param experiment: MLflow experiment of the run.
    :param registered_model: registered model that the training is for.
    :param pods: of the Job that run at once.
    :param indexed: whether the Job is an Indexed one.
    """

    plan: Plan
    address: ClusterAddress
    registry: ModelRegistry
    lookup: ModelLookup
    experiment: str
    registered_model: str | None
    build_base: Callable[[], Mapping[str, Any]]
    log: TaskLog
    pods: int = 1
    indexed: bool = False

    def hold(self, request: Request) -> HeldJob | ReusedModel:
        """Give the Job to wait on, or what is trained: what the lineage's ledger says follows.

        :raises TrainingFailed: the budget is spent, or the same work has failed for good; says where it went.
        :raises ClusterUnavailable: nobody answers; names the connection, the host, and what to check.
        :raises ClusterRejected: the API server refuses; no Job was made.
        :raises JobNameConflict: what stands under the Job's name is not ours.
        :raises LedgerConflict: what stands under the ledger's name is not ours, or was edited.
        :raises StaleTry: a later try of the same task waits on the Job.
        """
        base: Mapping[str, Any] | None = None
        unusable: set[int] = set()
        others: Waiters = ()
        known = self._known()
        for _ in range(_ROUNDS):
            step = run_to_end(self._consult(request, unusable, known))
            match step.consequence:
                case Refuse(verdict=verdict):
                    raise refusal_of(verdict, self.plan.identity, attempts_in(step.ledger, step.ledger.generation))
                case Reuse(trained=trained, own=own):
                    # What this task itself has waited for needs no proof: register looks at it next.
                    found = None if own else self._find(trained)
                    if found is not None or own:
                        return ReusedModel(trained=trained, ledger=step.ledger, own=own, found=found)
                    self.log.warning(
                        "MLflow has no model of what Job %s trained, or not any more: training again", trained.job
                    )
                    unusable.add(trained.generation)
                case Join(job=job):
                    held, others = run_to_end(self._join(step, job, others))
                    if held is not None:
                        return held
                case Start() if step.record is not None:
                    base = base if base is not None else self.build_base()
                    held = self._create(base, step.record, step.ledger, others)
                    if held is not None:
                        return held
        raise ClusterUnavailable(
            f"the Jobs of lineage {self.plan.identity.lineage} come and go faster than one can be waited on: try again"
        )

    def check(self) -> None:
        """Show the Job that would be created, and have the API server check it and its pod; nothing is created.

        :raises ClusterRejected: what the API server would refuse.
        """
        from gpu_training.cluster.jobs import check_job

        base = self.build_base()

        async def ask() -> list[str]:
            async with self._cluster() as cluster:
                ledger = await self._store(cluster).read()
                plan = self.plan.numbered(generation=ledger.generation, number=ledger.next_number)
                document = self._document(base, plan, next_job(ledger, plan.spec, plan.budget, self._now()), _DRY_RUN)
                self.log.info("The Job that would be created:\n%s", yaml.safe_dump(document, sort_keys=False))
                return await check_job(cluster, document)

        for remark in run_to_end(ask()):
            self.log.warning("The API server remarks: %s", remark)
        self.log.info("The API server accepts the Job and its pod")

    @property
    def lineage(self) -> Lineage:
        return lineage_of(self.plan)

    def _cluster(self) -> Cluster:
        from gpu_training.cluster.connection import Cluster

        return Cluster(self.address)

    def _now(self) -> float:
        from gpu_training.cluster.server_clock import clock_of

        return clock_of(self.address).now()

    def _store(self, cluster: Cluster) -> LedgerStore:
        from gpu_training.cluster.ledger_store import LedgerStore

        return LedgerStore(cluster, self.lineage)

    def _known(self) -> KnownTraining | None:
        """Give what MLflow knows of the work where the ledger does not: it was pruned, or somebody deleted it."""

        async def is_new() -> bool:
            async with self._cluster() as cluster:
                return not (await self._store(cluster).read()).updated_at

        if not run_to_end(is_new()):
            return None
        fingerprint = self.plan.identity.fingerprint
        return self.lookup.known(registered_model=self.registered_model, fingerprint=fingerprint)

    async def _consult(self, request: Request, unusable: Collection[int], known: KnownTraining | None) -> Step:
        from gpu_training.cluster.departure import depart_from_other_work
        from gpu_training.cluster.holding import consult

        plan = self.plan
        async with self._cluster() as cluster:
            for name in await depart_from_other_work(cluster, self.lineage, plan.identity.owner, is_alive):
                self.log.warning("Deleted Job %s: an earlier try made it for other work, and nobody waits on it", name)
            return await consult(
                cluster,
                self._store(cluster),
                plan.identity,
                request,
                self._announce,
                policy=plan.policy,
                memory_cap=plan.spec.memory_growth.maximum,
                unusable=unusable,
                known=known,
            )

    def _announce(self, ledger: Ledger, start: Start) -> LedgerJob:
        plan = self.plan.numbered(generation=start.generation, number=start.number)
        following = next_job(ledger, plan.spec, plan.budget, self._now())
        return following.record(
            number=start.number,
            generation=start.generation,
            period=ledger.period,
            name=job_name(plan.identity, indexed=self.indexed),
            pods=self.pods,
            now=self._now(),
        )

    async def _join(self, step: Step, job: LedgerJob, others: Waiters) -> tuple[HeldJob | None, Waiters]:
        """Give the Job when this try is on its list, and who has to be on the list of the one that replaces it."""
        from gpu_training.cluster.holding import join_job, replace_if_idle

        async with self._cluster() as cluster:
            store = self._store(cluster)
            if step.document is not None:
                priority = self.plan.spec.priority_class
                waited = await replace_if_idle(cluster, store, job, step.document, priority)
                if waited is not None:
                    self.log.info("Replacing Job %s, none of whose pods has started: priority %s", job.name, priority)
                    return None, waited
            return await join_job(cluster, store, job, self.plan.identity.owner, others=others), ()

    def _create(self, base: Mapping[str, Any], record: LedgerJob, ledger: Ledger, others: Waiters) -> HeldJob | None:
        """Find or create the MLflow run, then create the Job; refused, it leaves no run that seems to go on."""
        from gpu_training.cluster.holding import create
        from gpu_training.cluster.waiting_list import join

        plan = self.plan.numbered(generation=record.generation, number=record.number)
        following = next_job(ledger, plan.spec, plan.budget, self._now())
        self._document(base, plan, following, _DRY_RUN)  # a contradiction is told before MLflow is asked
        run_id = self.registry.find_or_create_run(
            experiment=self.experiment,
            run_name=f"{plan.spec.model} {plan.version.id}",
            fingerprint=plan.identity.fingerprint,
            generation=plan.identity.generation,
            tags=self._tags(),
        )

        async def ask() -> HeldJob | None:
            async with self._cluster() as cluster:
                document = self._document(base, plan, following, run_id)
                # Whoever announced the Job may have named it for another shape.
                document["metadata"]["name"] = record.name
                held = await create(cluster, self._store(cluster), plan.identity, record, document)
                if held is not None and others:
                    await join(cluster, held.document, plan.identity.owner, others=others)
                return held

        try:
            return run_to_end(ask())
        except (ClusterRejected, JobNameConflict):
            if not run_to_end(self._is_made(record.number)):
                close_run(self.registry.conn_id, run_id, self.log, killed=False)
            raise

    async def _is_made(self, number: int) -> bool:
        """Whether somebody has made the Job of a number; without an answer, it counts as made."""
        async with self._cluster() as cluster:
            try:
                job = (await self._store(cluster).read()).job(number)
            except GpuTrainingError:
                return True
            return job is not None and job.uid is not None

    def _find(self, trained: Trained) -> FoundModel | None:
        return self.lookup.find(
            model_uri=trained.result.model_uri if trained.result is not None else None,
            registered_model=self.registered_model,
            fingerprint=self.plan.identity.fingerprint,
            generation=trained.generation,
        )

    def _document(self, base: Mapping[str, Any], plan: Plan, following: NextJob, run_id: str) -> dict[str, Any]:
        settings = RunSettings(
            data_uri=plan.version.uri,
            tracking_uri=self.registry.tracking_uri,
            mlflow_run_id=run_id,
            backoff_limit=wanted_backoff_limit(following.allowance, admissions=0),
            deadline_seconds=following.outer_deadline_seconds,
            work_seconds=following.work_seconds,
            avoid_nodes=following.avoid_nodes,
        )
        document = build_job(base, plan.spec, plan.identity, settings, plan.rules)
        lay_differences_over(document, plan.spec, following.spec)
        return document

    def _tags(self) -> dict[str, str]:
        plan = self.plan
        return {
            TAG_PREFIX + "model": plan.spec.model,
            TAG_PREFIX + "data_version": plan.version.id,
            TAG_PREFIX + "data_digest": plan.version.digest,
            TAG_PREFIX + "image": plan.spec.image,
            TAG_PREFIX + "dag_run": plan.identity.owner.run_id,
        }
