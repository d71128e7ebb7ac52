"""From rendered parameters to the Job that this task try waits on: adopted, created, or only checked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

import yaml

from gpu_training.contract import Variable
from gpu_training.core.dataversion import DataVersion, parse_data_version
from gpu_training.core.decide import Policy
from gpu_training.core.errors import ClusterRejected, JobNameConflict
from gpu_training.core.events import Work
from gpu_training.core.manifest import build_job
from gpu_training.core.naming import Identity, TaskTry, fingerprint
from gpu_training.core.registration import TAG_PREFIX
from gpu_training.core.spec import TrainingSpec, parse_training_spec
from gpu_training.core.training_container import RunSettings
from gpu_training.task_log import TaskLog
from gpu_training.task_state import close_run

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from gpu_training.cluster.adoption import HeldJob
    from gpu_training.cluster.connection import ClusterAddress
    from gpu_training.registry.model_registry import ModelRegistry

FIRST_GENERATION: Final = 1
_DRY_RUN: Final = "dry-run"
"""MLflow run id of a Job that is only checked: no run is made for it."""

T = TypeVar("T")


def run_to_end(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in an event loop of its own; the caller's thread has none."""
    return asyncio.run(work)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What this try is to train."""

    spec: TrainingSpec
    version: DataVersion
    identity: Identity

    def work(self, mlflow_run_id: str) -> Work:
        """Give what the trigger's event tells the operator when the task resumes."""
        return Work(
            model=self.spec.model,
            image=self.spec.image,
            fingerprint=self.identity.fingerprint,
            generation=self.identity.generation,
            data_version=self.version.id,
            data_digest=self.version.digest,
            mlflow_run_id=mlflow_run_id,
        )


def make_plan(training: object, data_version: object, *, deployment: str, owner: TaskTry) -> Plan:
    """Give the plan in rendered parameters.

    :raises ConfigurationError: the spec is wrong, or a template is left in it.
    :raises DataVersionError: the data version is absent or malformed.
    """
    spec = parse_training_spec(training)
    version = parse_data_version(data_version)
    identity = Identity(
        model=spec.model,
        deployment=deployment,
        fingerprint=fingerprint(spec, version.digest),
        generation=FIRST_GENERATION,
        number=1,
        data_version=version.id,
        data_digest=version.digest,
        owner=owner,
    )
    return Plan(spec=spec, version=version, identity=identity)


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """Brings a plan to a cluster.

    :param build_base: gives the stock operator's Job as plain JSON data; called once the cluster has answered.
    :param experiment: MLflow experiment of the run.
    """

    plan: Plan
    address: ClusterAddress
    registry: ModelRegistry
    experiment: str
    build_base: Callable[[], Mapping[str, Any]]
    log: TaskLog

    def adopt(self, *, policy: Policy, take_ended: bool) -> HeldJob | None:
        """Give the live Job of an earlier try, marked as ours.

        :param policy: what an end well is.
        :param take_ended: whether one that ended well counts, too.
        :raises ClusterUnavailable: nobody answers; names the connection, the host, and what to check.
        """
        from gpu_training.cluster.adoption import adopt
        from gpu_training.cluster.connection import Cluster

        async def ask() -> HeldJob | None:
            async with Cluster(self.address) as cluster:
                return await adopt(
                    cluster, self.plan.spec.namespace, self.plan.identity, policy=policy, take_ended=take_ended
                )

        return run_to_end(ask())

    def create(self) -> HeldJob:
        """Find or create the MLflow run, then create the Job; refused, it leaves no run that seems to go on.

        :raises ConfigurationError: the base contradicts the spec; MLflow is not asked then.
        :raises ClusterError: no Job was made.
        """
        from gpu_training.cluster.adoption import create
        from gpu_training.cluster.connection import Cluster

        plan, base = self.plan, self.build_base()
        self._document(base, plan.identity, _DRY_RUN)
        run_id = self.registry.find_or_create_run(
            experiment=self.experiment,
            run_name=f"{plan.spec.model} {plan.version.id}",
            fingerprint=plan.identity.fingerprint,
            generation=plan.identity.generation,
            tags=self._tags(),
        )

        async def ask() -> HeldJob:
            async with Cluster(self.address) as cluster:
                return await create(
                    cluster, plan.spec.namespace, plan.identity, lambda numbered: self._document(base, numbered, run_id)
                )

        try:
            return run_to_end(ask())
        except (ClusterRejected, JobNameConflict):
            close_run(self.registry.conn_id, run_id, self.log, killed=False)
            raise

    def check(self) -> None:
        """Show the Job that would be created, and have the API server check it and its pod; nothing is created.

        :raises ClusterRejected: what the API server would refuse.
        """
        from gpu_training.cluster.adoption import next_number
        from gpu_training.cluster.connection import Cluster
        from gpu_training.cluster.jobs import check_job

        plan, base = self.plan, self.build_base()

        async def ask() -> list[str]:
            async with Cluster(self.address) as cluster:
                number = await next_number(cluster, plan.spec.namespace, plan.identity)
                document = self._document(base, replace(plan.identity, number=number), _DRY_RUN)
                self.log.info("The Job that would be created:\n%s", yaml.safe_dump(document, sort_keys=False))
                return await check_job(cluster, document)

        for remark in run_to_end(ask()):
            self.log.warning("The API server remarks: %s", remark)
        self.log.info("The API server accepts the Job and its pod")

    def _document(self, base: Mapping[str, Any], identity: Identity, run_id: str) -> dict[str, Any]:
        settings = RunSettings(
            data_uri=self.plan.version.uri, tracking_uri=self.registry.tracking_uri, mlflow_run_id=run_id
        )
        return build_job(base, self.plan.spec, identity, settings)

    def _tags(self) -> dict[str, str]:
        plan = self.plan
        return {
            TAG_PREFIX + "model": plan.spec.model,
            TAG_PREFIX + "data_version": plan.version.id,
            TAG_PREFIX + "data_digest": plan.version.digest,
            TAG_PREFIX + "image": plan.spec.image,
            TAG_PREFIX + "dag_run": plan.identity.owner.run_id,
        }


def mlflow_run_of(job: Mapping[str, Any]) -> str:
    """Give the MLflow run that a Job's document names; "" when it names none."""
    for container in job["spec"]["template"]["spec"]["containers"]:
        for entry in container.get("env", ()):
            if entry.get("name") == Variable.MLFLOW_RUN_ID:
                return str(entry.get("value", ""))
    return ""
