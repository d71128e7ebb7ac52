"""Why a Job has no pod, or not all of them: its queue, what the API server refuses, a controller that is silent."""

from __future__ import annotations

from typing import Final

from gpu_training.core.admission_words import parse_refusal
from gpu_training.core.naming import QUEUE_LABEL
from gpu_training.core.pending_cause import Cause, Cure
from gpu_training.core.pending_events import last_at
from gpu_training.core.pending_quota import of_quotas, with_quota
from gpu_training.core.pending_report import Report
from gpu_training.core.pending_view import View
from gpu_training.core.queue_words import QueueWords, parse_queue
from gpu_training.core.retry_delay import next_pod_at
from gpu_training.core.sayings import plain
from gpu_training.core.surroundings import Happening, Workload

CONTROLLER_SILENT_S: Final = 2.0
"""The Job controller takes up a new Job within a tenth of a second (measured with Kubernetes 1.37)."""

QUEUE_SILENT_S: Final = 5.0
"""Kueue makes a Workload within a tenth of a second (measured with 0.17), and says soon what becomes of it."""

_OVERDUE_S: Final = 15.0
"""The controller rounds its back-off up, and its own restart begins it anew."""

_CONTROLLER_REMEDY: Final = (
    "Whoever runs the cluster checks kube-controller-manager; the Job goes on by itself once it is back."
)


def of_suspended(view: View) -> Report:
    """Give why a Job is suspended."""
    queue = view.job.labels.get(QUEUE_LABEL, "")
    workload = _workload(view)
    if not queue and workload is None:
        return Report(
            cause=Cause.SUSPENDED,
            cure=Cure.WAITING,
            summary="The Job is suspended by hand: it names no queue.",
            remedy=f'Whoever suspended it resumes it: kubectl patch job {view.job.name} -p \'{{"spec":{{"suspend":'
            "false}}'.",
        )
    if workload is None:
        return _without_workload(plain(queue), view)
    words = parse_queue(workload)
    if words is None:
        return _silent_queue(plain(workload.queue or queue), view)
    if words.admitted:
        return _admitted(words, workload, view)
    return Report(
        cause=words.cause, cure=words.cure, summary=words.summary, remedy=words.remedy, words=_condition_words(workload)
    )


def _workload(view: View) -> Workload | None:
    uid = view.job.uid
    found = [each for each in view.around.workloads or () if uid and each.job_uid == uid]
    return max(found, key=lambda each: (each.active, each.name), default=None)


def _condition_words(workload: Workload) -> str:
    told = [each for each in workload.conditions if each.message and each.type in ("QuotaReserved", "Evicted")]
    newest = max(told, key=lambda each: each.changed_at or 0.0, default=None)
    return plain(newest.message, 1000) if newest is not None else ""


def _without_workload(queue: str, view: View) -> Report:
    if view.around.workloads is None:
        return Report(
            cause=Cause.QUEUED,
            cure=Cure.WAITING,
            summary=f"It is suspended for queue {queue}; what the queue says could not be looked at.",
            remedy="Wait for its turn, or let the account read Kueue's Workloads to know more.",
        )
    return _silent_queue(queue, view)


def _silent_queue(queue: str, view: View) -> Report:
    if not view.older_than(view.job.created_at, QUEUE_SILENT_S):
        return Report(
            cause=Cause.WAITING,
            cure=Cure.TRANSIENT,
            summary=f"The Job has just been put into queue {queue}.",
            remedy="Wait.",
        )
    return Report(
        cause=Cause.QUEUE_SILENT,
        cure=Cure.WAITING,
        summary=f"It is suspended for queue {queue}, and Kueue says nothing of it.",
        remedy="Whoever runs the cluster checks that Kueue runs and manages the Jobs of this namespace; training.queue "
        "names the LocalQueue.",
    )


def _admitted(words: QueueWords, workload: Workload, view: View) -> Report:
    admitted = next((each for each in workload.conditions if each.type == "Admitted" and each.holds), None)
    if admitted is not None and view.older_than(admitted.changed_at, CONTROLLER_SILENT_S):
        return Report(
            cause=Cause.CONTROLLER_NOT_RUNNING,
            cure=Cure.TRANSIENT,
            summary=f"{words.summary.rstrip('.')}, and the Job has not been let go: Kueue or the controller manager is "
            "down or far behind.",
            remedy="Whoever runs the cluster checks Kueue and kube-controller-manager.",
        )
    return Report(cause=Cause.WAITING, cure=Cure.TRANSIENT, summary=words.summary, remedy=words.remedy or "Wait.")


def of_no_pod(view: View) -> Report | None:
    """Give why a Job that is not suspended has no pod that lives; None while it is in its back-off."""
    pods = view.observation.pods
    if pods and pods[-1].phase == "Succeeded":
        return None
    refused = of_refusal(view)
    if refused is not None:
        return refused
    if pods:
        return _between_pods(view)
    if view.job.started_at is not None:
        return _looked_at(view)
    if not view.older_than(view.job.created_at, CONTROLLER_SILENT_S):
        return Report(cause=Cause.WAITING, cure=Cure.TRANSIENT, summary="The Job has just been made.", remedy="Wait.")
    return Report(
        cause=Cause.CONTROLLER_NOT_RUNNING,
        cure=Cure.TRANSIENT,
        summary="Nobody has looked at the Job: the controller manager is down or far behind.",
        remedy=_CONTROLLER_REMEDY,
    )


def _looked_at(view: View) -> Report:
    by_quota = None if view.events.readable else of_quotas(view)
    if by_quota is not None:
        return by_quota
    unread = "" if view.events.readable else "; the Job's events, which would say why, could not be read"
    return Report(
        cause=Cause.WAITING,
        cure=Cure.TRANSIENT,
        summary=f"The Job controller has taken the Job up and has made no pod yet{unread}.",
        remedy=f"Wait; if it stays so, see `kubectl describe job {view.job.name}`.",
    )


def _between_pods(view: View) -> Report | None:
    """Give that the next pod does not come when it is due."""
    if view.job.parallelism not in (None, 1):
        return None
    due = next_pod_at([pod.last_finished_at for pod in view.observation.pods])
    # A Job that was suspended meanwhile began anew when it was resumed.
    due = None if due is None else max(due, view.job.started_at or due)
    if not view.older_than(due, _OVERDUE_S):
        return None
    return Report(
        cause=Cause.CONTROLLER_NOT_RUNNING,
        cure=Cure.TRANSIENT,
        summary="The next attempt is overdue and nothing says why: the controller manager is down or far behind.",
        remedy=_CONTROLLER_REMEDY,
    )


def of_refusal(view: View) -> Report | None:
    """Give why the API server makes no pod; None where it refused none since the last one was made."""
    event = _refusal(view)
    words = parse_refusal(event.message) if event is not None else None
    if event is None or words is None:
        return None
    said = plain(event.message, 1000)
    report = Report(cause=words.cause, cure=words.cure, summary=words.summary, remedy=words.remedy, words=said)
    return with_quota(report, words, view)


def _refusal(view: View) -> Happening | None:
    made = [pod.created_at for pod in view.observation.pods if pod.created_at is not None]
    # What was said before a resume, or before the newest pod, has been overcome.
    since = max([view.job.started_at or 0.0, *made])
    for event in view.events.about(view.job.uid):
        at = last_at(event)
        if event.reason == "SuccessfulCreate" or (at is not None and at < int(since)):
            return None
        if event.reason == "FailedCreate":
            return event
    return None
