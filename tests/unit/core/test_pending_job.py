"""Why a Job has no pod, or not all of them: queue, refusal, a controller that is silent."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.core.kubernetes_documents import (
    at,
    complete,
    condition,
    container,
    failed_pod,
    job,
    pod,
    running,
    succeeded_pod,
    terminated,
)
from tests.unit.core.pending_world import (
    around,
    event,
    node,
    queued_job,
    report_of,
    tenant,
    told,
    untaken_job,
    waiting_pod,
    workload,
)

from gpu_training.core.pending_cause import Cause, Cure

pytestmark = pytest.mark.core

QUOTA = (
    'Error creating: pods "flight-delay-w8sww" is forbidden: exceeded quota: gpuq, requested: '
    "requests.nvidia.com/gpu=2, used: requests.nvidia.com/gpu=1, limited: requests.nvidia.com/gpu=2"
)
TOO_MUCH = QUOTA.replace("requested: requests.nvidia.com/gpu=2", "requested: requests.nvidia.com/gpu=3")
NO_ACCOUNT = (
    'Error creating: pods "flight-delay-" is forbidden: error looking up service account gpu-training/nobody: '
    'serviceaccount "nobody" not found'
)
UNKNOWN = 'Error creating: pods "flight-delay-" is forbidden: the stars say no'


def refusal(message: str = QUOTA, *, second: int = 10, **more: Any) -> Any:
    return event(job(), "FailedCreate", message, source="job-controller", second=second, kind="Job", **more)


def creation(second: int) -> Any:
    return event(job(), "SuccessfulCreate", "Created pod: x", source="job-controller", second=second, kind="Job")


@pytest.mark.case("C041")
@pytest.mark.parametrize(
    ("message", "cause", "cure", "says"),
    [
        (QUOTA, Cause.QUOTA_EXCEEDED, Cure.WAITING, "gpuq"),
        (TOO_MUCH, Cause.QUOTA_EXCEEDED, Cure.NEVER, "3 asked"),
        (NO_ACCOUNT, Cause.SERVICE_ACCOUNT_MISSING, Cure.NEVER, "nobody"),
        (UNKNOWN, Cause.POD_REFUSED, Cure.WAITING, "the stars say no"),
    ],
)
def test_what_the_api_server_refuses_is_told(message: str, cause: Cause, cure: Cure, says: str) -> None:
    report = report_of([], around([node()], events=[refusal(message)]))
    assert (report.cause, report.cure) == (cause, cure)
    assert says in report.summary
    assert report.words == message
    assert report.subject.startswith("Job flight-delay-")
    assert report.remedy


def test_the_newest_refusal_is_told() -> None:
    events = [refusal(NO_ACCOUNT, second=10), refusal(QUOTA, second=40), refusal(UNKNOWN, second=20)]
    assert report_of([], around([node()], events=events)).cause is Cause.QUOTA_EXCEEDED


@pytest.mark.parametrize(
    ("events", "why"),
    [
        ([refusal(second=10), creation(second=40)], "a pod was made since"),
        ([refusal(uid="uid-of-an-earlier-job")], "it is about another Job of the same name"),
        ([], "there is none"),
    ],
)
def test_a_refusal_that_has_been_overcome_is_not_told(events: list[Any], why: str) -> None:
    assert report_of([], around([node()], events=events)).cause is Cause.WAITING, why


def test_a_refusal_older_than_the_newest_pod_or_the_last_resume_is_not_told() -> None:
    late = pod("Failed", container(terminated(1, started=102, finished=115)), created=100)
    assert told([late], around([node()], events=[refusal(second=40)]), second=125) is None
    assert report_of([late], around([node()], events=[refusal(second=110)]), second=125).cause is Cause.QUOTA_EXCEEDED
    resumed = job(status={"startTime": at(60)})
    assert report_of([], around([node()], events=[refusal(second=40)]), of=resumed).cause is Cause.WAITING


@pytest.mark.parametrize(("second", "cause"), [(2, Cause.WAITING), (3, Cause.CONTROLLER_NOT_RUNNING)])
def test_a_job_that_nobody_takes_up_is_told_of(second: int, cause: Cause) -> None:
    report = report_of([], around([node()]), of=untaken_job(), second=second)
    assert (report.cause, report.cure) == (cause, Cure.TRANSIENT)


def test_a_job_that_was_taken_up_is_waited_for() -> None:
    report = report_of([], around([node()]), second=5)
    assert (report.cause, report.cure) == (Cause.WAITING, Cure.TRANSIENT)
    unread = report_of([], around([node()], events=None), second=5)
    assert "could not be read" in unread.summary


def test_in_its_back_off_a_training_waits_for_nothing_that_is_odd() -> None:
    ended = failed_pod()  # at 11: the next one is due at 21
    for second in (12, 21, 36):
        assert told([ended], around([node()]), second=second) is None
    overdue = report_of([ended], around([node()]), second=37)
    assert (overdue.cause, overdue.cure) == (Cause.CONTROLLER_NOT_RUNNING, Cure.TRANSIENT)
    resumed = job(status={"startTime": at(100)})
    assert told([], around([node()]), of=resumed, gone=[ended], second=101) is None
    assert told([succeeded_pod()], around([node()]), second=600) is None
    unseen = pod("Running", container(running()))
    assert told([], around([node()]), gone=[unseen], second=600) is None


def quota(used: str, hard: str = "2", name: str = "requests.nvidia.com/gpu") -> Any:
    return {"metadata": {"name": "gpuq"}, "status": {"hard": {name: hard}, "used": {name: used}}}


def test_who_uses_a_quota_is_named() -> None:
    tenants = [tenant("ours", gpus=1, deadline=60), tenant("theirs", namespace="research"), tenant("cpu", gpus=0)]
    report = report_of([], around([node()], tenants, [refusal()], quotas=[quota("1")]))
    assert (report.cause, report.cure) == (Cause.QUOTA_EXCEEDED, Cure.WAITING)
    assert [holder.who for holder in report.holders] == ["pod ours"]


def test_a_quota_of_something_else_names_nobody() -> None:
    of_memory = QUOTA.replace("requests.nvidia.com/gpu", "requests.memory")
    report = report_of([], around([node()], [tenant("ours")], [refusal(of_memory)]))
    assert (report.cause, report.holders) == (Cause.QUOTA_EXCEEDED, ())


def test_a_refusal_without_words_tells_nothing() -> None:
    assert report_of([], around([node()], events=[refusal("")])).cause is Cause.WAITING


def test_a_quota_that_has_room_again_heals_with_the_controllers_next_try() -> None:
    """It tries after 64 s and more, once it has been refused a few times."""
    report = report_of([], around([node()], [tenant()], [refusal()], quotas=[quota("0")]))
    assert (report.cause, report.cure) == (Cause.QUOTA_EXCEEDED, Cure.TRANSIENT)
    assert "room by now" in report.summary
    odd = {"metadata": {"name": "gpuq"}, "status": {"hard": {"requests.nvidia.com/gpu": "many"}, "used": {}}}
    assert report_of([], around([node()], events=[refusal()], quotas=[odd])).cure is Cure.WAITING


@pytest.mark.parametrize(
    ("of_namespace", "cure", "says"),
    [
        (quota("2"), Cure.WAITING, "requests.nvidia.com/gpu: 1 asked, 2 of 2 used"),
        (quota("0", "0"), Cure.NEVER, "1 asked, 0 of 0 used"),
        (quota("3", "3", "pods"), Cure.WAITING, "pods: 1 asked, 3 of 3 used"),
        (quota("1Gi", "2Gi", "memory"), Cure.WAITING, "memory: 2Gi asked, 1Gi of 2Gi used"),
    ],
)
def test_where_events_are_hidden_the_quotas_tell(of_namespace: Any, cure: Cure, says: str) -> None:
    report = report_of([], around([node()], events=None, quotas=[of_namespace]), of=with_template())
    assert (report.cause, report.cure) == (Cause.QUOTA_EXCEEDED, cure)
    assert says in report.summary
    roomy = report_of([], around([node()], events=None, quotas=[quota("1")]), of=with_template())
    assert roomy.cause is Cause.WAITING


def with_template() -> Any:
    return job(spec={"template": waiting_pod()})


QUEUED_WORDS = (
    "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in flavor default, 1 more "
    "needed"
)
NEVER_FITS = (
    "couldn't assign flavors to pod set main: insufficient quota for nvidia.com/gpu in flavor default, previously "
    "considered podsets requests (0) + current podset request (2) > maximum capacity (1)"
)


def reserved(message: str, reason: str = "Pending") -> Any:
    return condition("QuotaReserved", status="False", reason=reason, message=message)


@pytest.mark.case("C044")
@pytest.mark.parametrize(
    ("workload_document", "cause", "cure", "says"),
    [
        (workload(reserved(QUEUED_WORDS)), Cause.QUEUED, Cure.WAITING, "1 more nvidia.com/gpu needed"),
        (workload(reserved(NEVER_FITS)), Cause.QUEUE_TOO_SMALL, Cure.NEVER, "gpu"),
        (
            workload(reserved("LocalQueue gpu doesn't exist", "Inadmissible")),
            Cause.QUEUE_MISSING,
            Cure.NEVER,
            "gpu",
        ),
        (workload(active=False), Cause.QUEUE_DEACTIVATED, Cure.NEVER, "queue"),
        (workload(), Cause.QUEUE_SILENT, Cure.WAITING, "gpu"),
    ],
)
def test_what_the_queue_says_is_told(workload_document: Any, cause: Cause, cure: Cure, says: str) -> None:
    report = report_of([], around([node()], workloads=[workload_document]), of=queued_job())
    assert (report.cause, report.cure) == (cause, cure), report
    assert says in report.summary
    assert report.remedy


@pytest.mark.parametrize(("second", "cause"), [(5, Cause.WAITING), (6, Cause.QUEUE_SILENT)])
def test_a_queue_that_says_nothing_is_told_of(second: int, cause: Cause) -> None:
    assert report_of([], around([node()]), of=queued_job(), second=second).cause is cause
    of_another = workload(reserved(QUEUED_WORDS), job_uid="uid-of-another")
    assert report_of([], around([node()], workloads=[of_another]), of=queued_job(), second=second).cause is cause


def test_a_queue_that_may_not_be_looked_at_is_waited_for() -> None:
    hidden = ("workloads: the account may not list them",)
    report = report_of([], around([node()], workloads=None, hidden=hidden), of=queued_job())
    assert (report.cause, report.cure, report.hidden) == (Cause.QUEUED, Cure.WAITING, hidden)


def test_one_that_was_admitted_is_about_to_begin() -> None:
    def admitted(second: int) -> Any:
        return workload(condition("Admitted", reason="Admitted", message="The workload is admitted", second=second))

    soon = report_of([], around([node()], workloads=[admitted(119)]), of=queued_job())
    assert (soon.cause, soon.cure) == (Cause.WAITING, Cure.TRANSIENT)
    stuck = report_of([], around([node()], workloads=[admitted(60)]), of=queued_job())
    assert (stuck.cause, stuck.cure) == (Cause.CONTROLLER_NOT_RUNNING, Cure.TRANSIENT)


def test_one_that_somebody_suspended_is_told_so() -> None:
    by_hand = job(condition("Suspended", reason="JobSuspended"), spec={"suspend": True})
    report = report_of([], around([node()], workloads=None), of=by_hand)
    assert (report.cause, report.cure) == (Cause.SUSPENDED, Cure.WAITING)
    assert "suspend" in report.remedy


@pytest.mark.parametrize(
    "over",
    [
        complete(),
        job(condition("FailureTarget", reason="DeadlineExceeded")),
        job(condition("SuccessCriteriaMet")),
        job(metadata={"deletionTimestamp": at(50)}),
    ],
)
def test_nothing_is_told_of_what_ends(over: Any) -> None:
    assert told([waiting_pod()], around([node()], events=[refusal()]), of=over) is None
    assert told([waiting_pod("")], around([node()]), of=over) is None
