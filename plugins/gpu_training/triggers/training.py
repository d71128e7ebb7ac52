"""Waits for one training in the triggerer, or on the worker when the operator does not defer.

It keeps nothing of its own that matters: whatever process runs it next lists the same Job and reaches the same end.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Final

from airflow.triggers.base import BaseTrigger, TriggerEvent

from gpu_training.core.contact import Silence, listen, out_of_contact
from gpu_training.core.decide import Outcome, OutcomeKind, Policy, decide
from gpu_training.core.errors import ClusterUnavailable, GpuTrainingError
from gpu_training.core.events import JobReference, TrainingEvent, Work, to_payload
from gpu_training.core.naming import TaskTry
from gpu_training.core.observation import Observation
from gpu_training.core.phase import Wait
from gpu_training.task_state import close_run, has_ended, task_state
from gpu_training.triggers.voice import Voice

if TYPE_CHECKING:
    from gpu_training.cluster.connection import Cluster
    from gpu_training.cluster.logs import LogFollower
    from gpu_training.cluster.subscription import Subscription

DRAIN_S: Final = 5.0
"""Longest wait for the end of a log after the training's end. Usually none: a container ends seconds before its Job."""
_CONFIRM_EVERY_S: Final = 1.0
_KILL_TRIES: Final = 3


class TrainingJobTrigger(BaseTrigger):
    """Waits until a training has ended, and fires exactly one event (:mod:`gpu_training.core.events`).

    Meanwhile the task log gets each phase, the pods' own lines, and progress.

    :param cluster: which API server: the fields of :class:`~gpu_training.cluster.connection.ClusterAddress`.
    :param job: namespace, name and UID.
    :param work: what is trained; handed on in the event.
    :param owner: the task try that waits, as :meth:`TaskTry.to_text` gives it.
    :param deployment: id of the Airflow deployment; its Jobs are watched together.
    :param mlflow_conn_id: connection through which a kill closes the MLflow run.
    :param contact_limit_seconds: longest time without contact to the Job that is waited out, by a monotonic clock: the
        Job's own deadline, after which it is over, seen or not. Counted anew in each process that runs the trigger.
    :param get_logs: whether the pods' lines go to the task log.
    :param result_required: whether a Job that is Complete needs a valid result document.
    """

    def __init__(
        self,
        *,
        cluster: dict[str, Any],
        job: dict[str, str],
        work: dict[str, Any],
        owner: str,
        deployment: str,
        mlflow_conn_id: str,
        contact_limit_seconds: float,
        get_logs: bool = True,
        result_required: bool = True,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.cluster = cluster
        self.job = job
        self.work = work
        self.owner = owner
        self.deployment = deployment
        self.mlflow_conn_id = mlflow_conn_id
        self.contact_limit_seconds = contact_limit_seconds
        self.get_logs = get_logs
        self.result_required = result_required
        self._fired = False

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Give class path and every argument."""
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {
                "cluster": self.cluster,
                "job": self.job,
                "work": self.work,
                "owner": self.owner,
                "deployment": self.deployment,
                "mlflow_conn_id": self.mlflow_conn_id,
                "contact_limit_seconds": self.contact_limit_seconds,
                "get_logs": self.get_logs,
                "result_required": self.result_required,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Fire once, and return at once: a trigger that lingers after its event is killed like one that waits."""
        payload = await self.wait()
        self._fired = True
        yield TriggerEvent(payload)  # type: ignore[no-untyped-call]

    async def wait(self) -> dict[str, Any]:
        """Give the event's payload when the training has ended."""
        from gpu_training.cluster.connection import ClusterAddress
        from gpu_training.cluster.logs import LogFollower
        from gpu_training.cluster.watch import SharedWatch

        reference = JobReference(**self.job)
        voice = Voice(self.log)
        async with SharedWatch.subscribe(ClusterAddress(**self.cluster), job=reference, deployment=self.deployment) as (
            subscription,
            cluster,
        ):
            follower = LogFollower(cluster, reference.namespace, voice.line, self.log) if self.get_logs else None
            try:
                observation, outcome = await self._until_ended(subscription, cluster, follower, voice)
                if follower is not None:
                    follower.update(subscription.pods, subscription.gone_pods)
                    await follower.drain(DRAIN_S)
            finally:
                if follower is not None:
                    await follower.stop()
        voice.end(outcome)
        return to_payload(
            TrainingEvent(job=reference, work=Work(**self.work), outcome=outcome, image=_image(observation))
        )

    async def _until_ended(
        self, subscription: Subscription, cluster: Cluster, follower: LogFollower | None, voice: Voice
    ) -> tuple[Observation, Outcome]:
        policy = Policy(result_required=self.result_required)
        silence: Silence | None = None
        while True:
            voice.trouble(subscription.trouble)
            if follower is not None:
                follower.update(subscription.pods, subscription.gone_pods)
            observation, clock = subscription.observe(), time.monotonic()
            decision = decide(observation, policy, time.time())
            # An end that was seen waits for the pods; before that, only news of the Job matters.
            silence = listen(
                silence, subscription.job_trouble if isinstance(decision, Wait) else subscription.trouble, clock
            )
            left = silence.left(self.contact_limit_seconds, clock) if silence is not None else None
            if silence is not None and left == 0:
                lost = out_of_contact(observation, silence, clock=clock, now=time.time())
                return observation, lost if isinstance(decision, Wait) else decision
            if isinstance(decision, Wait):
                await subscription.changed(_sooner(voice.phase(decision), left))
            elif decision.kind is OutcomeKind.SUCCEEDED or await self._has_seen_all(subscription, cluster):
                observation = subscription.observe()
                decision = decide(observation, policy, time.time())
                if isinstance(decision, Outcome):
                    return observation, decision

    async def _has_seen_all(self, subscription: Subscription, cluster: Cluster) -> bool:
        """Read the pods once more before a training is called failed: Jobs and pods are watched apart, and what a pod
        left may still be on its way when its Job's end is known."""
        from gpu_training.cluster.jobs import list_pods

        try:
            subscription.refresh(await list_pods(cluster, subscription.job))
        except ClusterUnavailable as error:
            self.log.debug("not deciding yet: %s", error)
            await subscription.changed(_CONFIRM_EVERY_S)
            return False
        except GpuTrainingError as error:
            self.log.warning("deciding by what was seen: %s", error)
        return True

    async def on_kill(self) -> None:
        """Delete the Job if the task instance has ended by a person's hand, and this try still is its owner.

        Airflow calls this, too, when another triggerer took the trigger over, and when the task was cleared; the Job is
        left then: whoever runs next watches or adopts it.
        """
        if self._fired:
            return
        owner = TaskTry.from_text(self.owner)
        if owner is None:
            return
        state = await asyncio.to_thread(task_state, owner)
        name = f"{self.job['namespace']}/{self.job['name']}"
        if not has_ended(state):
            self.log.info("Leaving Job %s: the task is %s", name, state)
            return
        from gpu_training.cluster.connection import Cluster, ClusterAddress
        from gpu_training.cluster.jobs import delete_if_owned

        async with Cluster(ClusterAddress(**self.cluster)) as cluster:
            if not await delete_if_owned(cluster, JobReference(**self.job), owner, tries=_KILL_TRIES):
                return
        self.log.info("Deleted Job %s: the task is %s", name, state)
        await asyncio.to_thread(close_run, self.mlflow_conn_id, self.work["mlflow_run_id"], self.log, killed=True)


def _sooner(one: float | None, other: float | None) -> float | None:
    """Give the shorter of two waits, of which None has no end."""
    return min((wait for wait in (one, other) if wait is not None), default=None)


def _image(observation: Observation) -> str:
    for pod in reversed(observation.pods):
        if pod.training is not None and pod.training.image_id:
            return pod.training.image_id
    return ""
