"""A small Kubernetes: Jobs and their pods as its controllers treat them (measured with Kubernetes 1.37), a ConfigMap,
and the clock of them all.

Kubernetes acts at whole seconds here, so that what it writes down is what is true; those who call it do so between.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import ceil
from typing import Any, Final

from gpu_training.core.failure_policy import build_failure_policy
from gpu_training.rule_table import built_in_rules

Document = dict[str, Any]

RULES: Final = built_in_rules()
GRACE_S: Final = 30
TTL_S: Final = 3600
TRAINED: Final = '{"v":1,"status":"trained","data_version":"2026-03-01","model_uri":"models:/m-1","metrics":{}}'
_BEGIN: Final = 1_800_000_000
_BACKOFF_S: Final = 10
_LONGEST_BACKOFF_S: Final = 600


def stamp(seconds: float) -> str:
    """Give a moment as the API server writes it."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Refused(Exception):
    """The API server's answer is 409."""


@dataclass(frozen=True)
class Fate:
    """What becomes of a pod.

    :param kind: succeed, exit, oom, xid, hang; evict, node, delete: it is taken away; refuse: its node turns it away.
    :param after: seconds on its node.
    :param queue: seconds until it has a node.
    :param takes: seconds that its program takes to end when it is told to.
    :param on_term: its exit code then.
    """

    kind: str = "succeed"
    after: int = 30
    code: int = 1
    queue: int = 1
    takes: int = 2
    on_term: int = 85


@dataclass
class Pod:
    """:ivar ended: when its container ended, or its node was lost.
    :ivar end: why: own, disrupted, refused, taken (with its Job), deleted; None while it lives and when it succeeded.
    """

    name: str
    job: Job
    fate: Fate
    node: str
    created: int
    scheduled: int | None = None
    ended: int | None = None
    end: str | None = None
    code: int | None = None
    oom: bool = False
    phase: str = "Pending"
    marked_at: int | None = None
    deleting_at: int | None = None
    gone_at: float | None = None
    counted: bool = False

    @property
    def uid(self) -> str:
        return f"uid-{self.name}"

    @property
    def holds(self) -> bool:
        """Whether it holds GPUs."""
        return self.scheduled is not None and self.ended is None

    @property
    def terminal(self) -> bool:
        return self.phase in ("Succeeded", "Failed")

    def gpu_seconds(self, now: float) -> float:
        if self.scheduled is None or self.end == "refused":
            return 0.0
        until = now if self.ended is None else min(now, self.ended)
        return max(0.0, until - self.scheduled) * self.job.gpus

    def document(self) -> Document:
        """Give the Pod as the API server has it."""
        bound = self.scheduled is not None
        conditions = [_condition("PodScheduled", self.scheduled or 0)] if bound else []
        if self.marked_at is not None:
            reason = "DeletionByPodGC" if self.fate.kind == "node" else "EvictionByEvictionAPI"
            conditions.append(_condition("DisruptionTarget", self.marked_at, reason))
        limits = {"memory": "2Gi", "nvidia.com/gpu": str(self.job.gpus)}
        reference = {"kind": "Job", "uid": self.job.uid, "controller": True}
        return {
            "metadata": {
                "name": self.name,
                "uid": self.uid,
                "creationTimestamp": stamp(self.created),
                "ownerReferences": [reference],
                **({} if self.deleting_at is None else {"deletionTimestamp": stamp(self.deleting_at + GRACE_S)}),
            },
            "spec": {
                "containers": [{"name": "training", "resources": {"limits": limits}}],
                **({"nodeName": self.node} if bound else {}),
            },
            "status": {
                "phase": self.phase,
                "conditions": conditions,
                **({"reason": "OutOfnvidia.com/gpu", "message": "Pod was rejected"} if self.end == "refused" else {}),
                **({"containerStatuses": [self._container()]} if bound and self.end != "refused" else {}),
            },
        }

    def _container(self) -> Document:
        if self.code is None:  # also on a lost node, for ever
            return {"name": "training", "state": {"running": {"startedAt": stamp(self.scheduled or 0)}}}
        state: Document = {
            "exitCode": self.code,
            "reason": "OOMKilled" if self.oom else "Completed" if self.code == 0 else "Error",
            "startedAt": stamp(self.scheduled or 0),
            "finishedAt": stamp(self.ended or 0),
        }
        if self.code == 0 and self.end is None:
            state["message"] = TRAINED
        return {"name": "training", "state": {"terminated": state}}


def _condition(type_: str, at: float, reason: str = "", message: str = "") -> Document:
    return {"type": type_, "status": "True", "reason": reason, "message": message, "lastTransitionTime": stamp(at)}


@dataclass
class Job:
    """:ivar target: why it will be Failed: reason and message.
    :ivar trained: whether it came to a model before anybody deleted it.
    :ivar by_outsider: whether somebody else deleted it, or its time to live was over.
    :ivar lowered: whether its deadline leaves no room for the queue any more.
    :ivar unwritten: whether it was deleted while the ledger could not be written.
    """

    name: str
    uid: str
    number: int
    generation: int
    priority: int
    gpus: int
    backoff_limit: int
    deadline: int
    labels: dict[str, str]
    annotations: dict[str, str]
    created: float
    version: int
    started: int
    pods: list[Pod] = field(default_factory=list)
    conditions: list[Document] = field(default_factory=list)
    failed: int = 0
    repeats: int = 0
    next_pod_at: int = 0
    target: tuple[str, str] | None = None
    ended_at: float | None = None
    deleting_at: float | None = None
    gone_at: float | None = None
    trained: bool = False
    by_outsider: bool = False
    unwritten: bool = False
    lowered: bool = False
    longest: int = 0

    @property
    def hidden(self) -> bool:
        """Whether how it ended may be known to nobody, for no fault of ours."""
        return self.by_outsider or self.unwritten

    @property
    def live(self) -> bool:
        return self.ended_at is None and self.deleting_at is None and self.gone_at is None

    def document(self) -> Document:
        """Give the Job as the API server has it."""
        return {
            "metadata": {
                "name": self.name,
                "namespace": "gpu-training",
                "uid": self.uid,
                "resourceVersion": str(self.version),
                "creationTimestamp": stamp(self.created),
                "labels": self.labels,
                "annotations": dict(self.annotations),
                **({} if self.deleting_at is None else {"deletionTimestamp": stamp(self.deleting_at)}),
            },
            "spec": {
                "parallelism": 1,
                "completions": 1,
                "backoffLimit": self.backoff_limit,
                "activeDeadlineSeconds": self.deadline,
            },
            "status": {"startTime": stamp(self.started), "conditions": list(self.conditions), "failed": self.failed},
        }


class World:
    """:ivar fate: gives the next pod's fate.
    :ivar on_pod: called when a pod is made.
    :ivar on_change: called when anything of a Job has changed.
    """

    def __init__(self, fate: Callable[[], Fate]) -> None:
        self.now: float = _BEGIN
        self.fate = fate
        self.jobs: list[Job] = []
        self.ledger_text: str | None = None
        self.ledger_version = 0
        self.down_until: float = 0
        self.on_pod: Callable[[Pod], None] = lambda _: None
        self.on_change: Callable[[Job], None] = lambda _: None
        self._policy = build_failure_policy(None, RULES)["rules"]
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    # The clock.

    def at(self, moment: float, do: Callable[[], None]) -> None:
        """Have something done at a moment."""
        self._count += 1
        heapq.heappush(self._agenda, (max(moment, self.now), self._count, do))

    def after(self, seconds: float, do: Callable[[], None]) -> None:
        self.at(self.now + seconds, do)

    def step(self) -> bool:
        """Do what is next; False when nothing is."""
        if not self._agenda:
            return False
        moment, _, do = heapq.heappop(self._agenda)
        self.now = max(self.now, moment)
        do()
        return True

    @property
    def second(self) -> int:
        return ceil(self.now)

    # What its callers ask.

    def get(self, name: str) -> Job | None:
        return next((job for job in self.jobs if job.name == name and job.gone_at is None), None)

    def pods_of(self, uid: str) -> list[Pod]:
        return [pod for pod in self.pods() if pod.job.uid == uid and pod.gone_at is None]

    def pods(self) -> Iterator[Pod]:
        return (pod for job in self.jobs for pod in job.pods)

    def post(self, job: Job) -> Job:
        """Make a Job; one of its name must not be there."""
        if self.get(job.name) is not None:
            raise Refused(job.name)
        self.jobs.append(job)
        self.at(self.second, lambda: self._sync(job))
        return job

    def patch(self, job: Job, *, annotations: dict[str, str], spec: dict[str, int]) -> None:
        job.annotations.update(annotations)
        job.backoff_limit = spec.get("backoffLimit", job.backoff_limit)
        deadline = spec.get("activeDeadlineSeconds", job.deadline)
        job.lowered = deadline < job.deadline or (job.lowered and deadline == job.deadline)
        job.deadline = deadline
        self._changed(job)
        self.at(self.second, lambda: self._sync(job))

    def delete(self, job: Job, *, version: str | None = None, background: bool = False) -> None:
        """Delete a Job and its pods, in the foreground as a rule."""
        if version not in (None, str(job.version)) or job.gone_at is not None:
            raise Refused(job.name)
        job.deleting_at = self.now if job.deleting_at is None else job.deleting_at
        if background:
            job.gone_at = self.now
        self._changed(job)
        self.at(self.second, lambda: self._collect(job))

    # Pods.

    def _new_pod(self, job: Job) -> None:
        n = len(job.pods)
        pod = Pod(f"{job.name}-p{n}", job, self.fate(), f"node-{(job.number + n) % 3}", self.second)
        job.pods.append(pod)
        self.on_pod(pod)
        self._changed(job)
        self.at(self.second + pod.fate.queue, lambda: self._schedule(pod))

    def _schedule(self, pod: Pod) -> None:
        if pod.terminal or pod.gone_at is not None or pod.deleting_at is not None:
            return
        pod.scheduled = self.second
        if pod.fate.kind == "refuse":
            pod.end, pod.ended = "refused", self.second
            self._phase(pod, "Failed")
            return
        pod.phase = "Running"
        self._changed(pod.job)
        if pod.fate.kind != "hang":
            self.at(self.second + pod.fate.after, lambda: self._meet(pod))

    def _meet(self, pod: Pod) -> None:
        if pod.ended is not None or pod.deleting_at is not None:
            return
        match pod.fate.kind:
            case "succeed":
                self._end(pod, 0, None)
            case "exit" | "xid":
                self._end(pod, pod.fate.code, "own")
            case "oom":
                pod.oom = True
                self._end(pod, 137, "own")
            case "node":
                pod.marked_at = pod.ended = self.second
                pod.end = "disrupted"
                self._phase(pod, "Failed")
                self.at(self.second + 1, lambda: self._remove(pod))
            case "evict":
                pod.marked_at = self.second
                self._terminate(pod, "disrupted")
            case _:
                self._terminate(pod, "deleted")

    def _terminate(self, pod: Pod, end: str) -> None:
        """Have a pod end within its grace period, and take it away then."""
        if pod.deleting_at is not None or pod.gone_at is not None:
            return
        pod.deleting_at = self.second
        self._changed(pod.job)
        if pod.ended is not None or pod.scheduled is None:
            pod.end = pod.end if pod.ended is not None else end
            self.at(self.second, lambda: self._remove(pod))
            return
        takes = pod.fate.takes
        self.at(self.second + takes, lambda: self._end(pod, pod.fate.on_term if takes < GRACE_S else 137, end))

    def _end(self, pod: Pod, code: int, end: str | None) -> None:
        if pod.ended is not None:
            return
        pod.code, pod.ended, pod.end = code, self.second, end
        self._changed(pod.job)
        self.at(self.second + 1, lambda: self._phase(pod, "Succeeded" if code == 0 else "Failed"))
        if pod.deleting_at is not None:
            self.at(self.second + 2, lambda: self._remove(pod))

    def _phase(self, pod: Pod, phase: str) -> None:
        pod.phase = phase
        self._changed(pod.job)
        self.at(self.second + 1, lambda: self._sync(pod.job))

    def _remove(self, pod: Pod) -> None:
        if pod.gone_at is None:
            pod.gone_at = self.now
            self._changed(pod.job)
            self.at(self.second, lambda: self._sync(pod.job))

    # The Job controller.

    def _sync(self, job: Job) -> None:
        if job.gone_at is None and job.ended_at is None:
            self._judge(job)
            if job.ended_at is None and job.target is not None:
                self._fail(job)
            elif job.ended_at is None and job.deleting_at is None:
                self._replenish(job)
        if job.deleting_at is not None:
            self._collect(job)

    def _judge(self, job: Job) -> None:
        for pod in job.pods:
            if pod.counted or not (pod.terminal or pod.gone_at is not None):
                continue
            pod.counted = True
            if pod.phase == "Succeeded":
                if job.target is None:
                    job.trained = pod.end is None and job.deleting_at is None
                    self._finish(job, "SuccessCriteriaMet", "Complete", "CompletionsReached", "")
                    return
            else:
                self._count_failure(job, pod)
        if job.target is None and job.failed > job.backoff_limit:
            job.target = ("BackoffLimitExceeded", "Job has reached the specified backoff limit")
        if job.target is None and self.now >= job.started + job.deadline:
            job.target = ("DeadlineExceeded", "Job was active longer than specified deadline")

    def _count_failure(self, job: Job, pod: Pod) -> None:
        action = self._action(pod)
        if action == "FailJob" and job.target is None:
            said = f"Container training for pod gpu-training/{pod.name} failed with exit code {pod.code} matching "
            job.target = ("PodFailurePolicy", f"{said}FailJob rule at index 1")
        job.failed += action != "Ignore"
        job.repeats += 1
        pause = min(_LONGEST_BACKOFF_S, _BACKOFF_S * 2 ** (job.repeats - 1))
        job.next_pod_at = (pod.ended or self.second) + pause

    def _action(self, pod: Pod) -> str:
        for rule in self._policy:
            if "onPodConditions" in rule and pod.marked_at is not None:
                return str(rule["action"])
            if "onExitCodes" in rule and pod.code in rule["onExitCodes"]["values"]:
                return str(rule["action"])
        return "Count"

    def _fail(self, job: Job) -> None:
        reason, message = job.target or ("", "")
        if not any(condition["type"] == "FailureTarget" for condition in job.conditions):
            job.conditions.append(_condition("FailureTarget", self.now, reason, message))
            self._changed(job)
        living = [pod for pod in job.pods if not pod.terminal and pod.gone_at is None]
        for pod in living:
            self._terminate(pod, "taken")
        if not living:
            self._finish(job, None, "Failed", reason, message)

    def _finish(self, job: Job, before: str | None, type_: str, reason: str, message: str) -> None:
        if before is not None:
            job.conditions.append(_condition(before, self.now, reason, message))
        job.conditions.append(_condition(type_, self.now, reason, message))
        job.ended_at = self.now
        self._changed(job)
        self.after(TTL_S, lambda: self._expire(job))

    def _expire(self, job: Job) -> None:
        if job.gone_at is None:
            job.by_outsider = True
            self.delete(job)

    def _replenish(self, job: Job) -> None:
        if any(not pod.counted for pod in job.pods):
            self.at(job.started + job.deadline, lambda: self._sync(job))
        elif self.now >= job.next_pod_at:
            self._new_pod(job)
            self.at(job.started + job.deadline, lambda: self._sync(job))
        else:
            self.at(min(job.next_pod_at, job.started + job.deadline), lambda: self._sync(job))

    def _collect(self, job: Job) -> None:
        """Go on with a deletion: pods first, then the Job."""
        here = [pod for pod in job.pods if pod.gone_at is None]
        for pod in here:
            self._terminate(pod, "taken")
        if not here and job.gone_at is None:
            job.gone_at = self.now
            self._changed(job)

    def _changed(self, job: Job) -> None:
        job.version += 1
        self.on_change(job)
