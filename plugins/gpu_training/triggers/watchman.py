"""Looks at why a training waits: finds the cause, says it once, and writes it on the Job for whoever looks there."""

from __future__ import annotations

import json
from time import monotonic
from typing import TYPE_CHECKING, Final

from gpu_training.cluster.connection import MERGE_PATCH, Cluster
from gpu_training.cluster.jobs import jobs_path
from gpu_training.core.errors import ClusterRejected, GpuTrainingError
from gpu_training.core.naming import ANNOTATION_PENDING
from gpu_training.core.observation import Observation
from gpu_training.core.pending import diagnose
from gpu_training.core.pending_document import from_document, to_document
from gpu_training.core.pending_report import Report
from gpu_training.core.phase import Phase, Wait
from gpu_training.core.pod_demand import Demand, demand_of
from gpu_training.task_log import TaskLog

if TYPE_CHECKING:
    from gpu_training.cluster.subscription import Subscription

_WAITS: Final = frozenset({Phase.PENDING, Phase.SUSPENDED, Phase.QUEUED, Phase.STARTING, Phase.RETRYING})
_LOOK_EVERY_S: Final = 1.0
"""Some causes are a silence: that a controller has not looked at the Job comes without any news."""
_PAUSES: Final = 10
_LONGEST_PAUSE_S: Final = 30.0
"""The longer it waits, the more seldom it looks without any news: by a tenth of the wait, up to half a minute."""
_SETTLED_WITHIN_S: Final = 2.0
"""So long the first look around may take; a cause is told without what is not known by then."""
_AT_ONCE: Final = 5
_SELDOM_S: Final = 30.0
"""So many causes are written as they come, and all further ones not more often than this."""
_WRITE_EVERY_S: Final = 60.0
"""How often other words for the same cause are written on the Job, and what was refused is tried again."""
_AGAIN_AFTER_S: Final = 5.0
"""How soon what the API server did not answer is tried again."""


class Watchman:
    """Keeps an eye on one training.

    :param cluster: where the Job is.
    """

    def __init__(self, subscription: Subscription, cluster: Cluster, log: TaskLog) -> None:
        self._subscription = subscription
        self._cluster = cluster
        self._log = log
        self._demand: tuple[str, Demand] | None = None
        self._began: float | None = None
        self._written_at, self._written = float("-inf"), 0
        self._quiet_until = float("-inf")
        self._warned = False
        self._broken = False
        self.report: Report | None = None
        self.held_since: float | None = None
        """Since when the report has this cause, and says the same of whether waiting helps, in seconds since 1970."""

    def look(self, observation: Observation, wait: Wait, now: float) -> float | None:
        """Find out why the training waits: :attr:`report`, which is None where it does not.

        :param now: seconds since 1970.
        :returns: seconds after which to look again even if nothing is heard; None for no need.
        """
        waits = wait.phase in _WAITS
        self._subscription.look_around(waits)
        if not waits:
            self._began = None
            self._take(None, now)
            bears = observation.job is not None and ANNOTATION_PENDING in observation.job.annotations
            return max(_LOOK_EVERY_S, self._quiet_until - monotonic()) if bears else None
        self._began = monotonic() if self._began is None else self._began
        settled = self._subscription.lookout.is_settled
        if settled or monotonic() >= self._began + _SETTLED_WITHIN_S:
            self._take(self._diagnosed(observation, now), now)
        return min(_LONGEST_PAUSE_S, max(_LOOK_EVERY_S, (monotonic() - self._began) / _PAUSES))

    def _diagnosed(self, observation: Observation, now: float) -> Report | None:
        try:
            return diagnose(observation, self._asked(), self._subscription.around(), now)
        except Exception as error:  # of whatever kind: it is no reason to end a training
            if not self._broken:
                self._broken = True
                self._log.warning("Why the training waits could not be found out, it waits on: %r", error)
            return None

    def _take(self, report: Report | None, now: float) -> None:
        before = self.report
        if report is None or before is None or (report.cause, report.curable) != (before.cause, before.curable):
            self.held_since = None if report is None else now
        self.report = report

    def _asked(self) -> Demand | None:
        """Give what the pod that waits asks for; the pods of a Job all ask for the same."""
        for uid, pod in self._subscription.pods.items():
            if self._demand is None or self._demand[0] != uid:
                self._demand = (uid, demand_of(pod))
            return self._demand[1]
        return demand_of(self._subscription.document) if self._subscription.document is not None else None

    async def write(self, observation: Observation) -> None:
        """Have the Job bear the report, or none where it does not wait. What can not be written is a warning."""
        job = observation.job
        if job is None or job.ended or job.deleting or observation.gone or monotonic() < self._quiet_until:
            return
        if not self._is_news(job.annotations.get(ANNOTATION_PENDING)):
            return
        text = None if self.report is None else json.dumps(to_document(self.report), ensure_ascii=False)
        self._written_at, self._written = monotonic(), self._written + 1
        try:
            await self._cluster.request(
                "PATCH",
                jobs_path(job.namespace, job.name),
                doing=f"write on Job {job.namespace}/{job.name} why it waits",
                body={"metadata": {"uid": job.uid, "annotations": {ANNOTATION_PENDING: text}}},
                content_type=MERGE_PATCH,
                tries=1,
            )
        except ClusterRejected as error:
            if error.status not in (404, 409, 422):
                self._warn(error)
        except GpuTrainingError as error:
            self._warn(error)

    def _is_news(self, written: str | None) -> bool:
        if self.report is None:
            return written is not None and monotonic() >= self._written_at + _LOOK_EVERY_S
        wanted = from_document(to_document(self.report))
        try:
            before = from_document(json.loads(written)) if written is not None else None
        except (ValueError, RecursionError):
            before = None
        if before is None or wanted is None or before.cause is not wanted.cause:
            # Causes that alternate, and watchers who do not see the same, are not worth a write a second.
            return monotonic() >= self._written_at + (_LOOK_EVERY_S if self._written < _AT_ONCE else _SELDOM_S)
        return before.summary != wanted.summary and monotonic() >= self._written_at + _WRITE_EVERY_S

    def _warn(self, error: GpuTrainingError) -> None:
        self._quiet_until = monotonic() + (_WRITE_EVERY_S if isinstance(error, ClusterRejected) else _AGAIN_AFTER_S)
        if not self._warned:
            self._warned = True
            self._log.warning("Why the training waits is not written on its Job: %s", error)
