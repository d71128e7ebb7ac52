"""Retries, crashes and clears: which Job a try waits on."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from tests.cluster import trainings
from tests.cluster.trainings import (
    RUNS_ON,
    SUCCEED,
    TaskInstance,
    defer,
    fire,
    jobs_of,
    operator,
    pods_of,
    spec,
    train,
    waiters_on,
)
from tests.fake_mlflow import FakeMlflow

from gpu_training.core.errors import ConfigurationError, StaleTry, TrainingFailed
from sandbox.cluster import Sandbox
from sandbox.proxy import FaultyProxy
from sandbox.proxy_script import Action, Rule
from sandbox.testing import wait_for

pytestmark = pytest.mark.cluster

WAITERS = "gpu-training.io/waiters"


def tries_on(job: dict[str, Any]) -> list[tuple[str, int]]:
    """Give run and number of the tries that wait on a Job."""
    return [(run, number) for _, run, _, _, number in waiters_on(job)]


@pytest.mark.case("C001")
@pytest.mark.case("C005")
def test_a_retry_adopts_the_job_of_a_try_that_died_before_it_deferred(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow
) -> None:
    script = f"sleep 2; {SUCCEED}"
    first = TaskInstance()
    defer(operator(spec(namespace, script)), first)  # its worker is gone: no trigger was ever made of it
    second = first.next_try()
    result = train(operator(spec(namespace, script)), second)

    (job,) = jobs_of(sandbox, namespace)
    (pod,) = pods_of(sandbox, namespace)
    assert result["job_uid"] == job["metadata"]["uid"]
    assert [owner["uid"] for owner in pod["metadata"]["ownerReferences"]] == [job["metadata"]["uid"]]
    assert tries_on(job) == [(first.run_id, 2)]
    assert len(connected.runs) == 1


def test_adoption_needs_no_mlflow(sandbox: Sandbox, namespace: str, connected: FakeMlflow) -> None:
    first = TaskInstance()
    defer(operator(spec(namespace, RUNS_ON)), first)
    connected.stop()
    second = first.next_try()
    defer(operator(spec(namespace, RUNS_ON)), second)

    assert second.xcoms["job"]["job_uid"] == first.xcoms["job"]["job_uid"]
    assert second.xcoms["job"]["mlflow_run_id"] == first.xcoms["job"]["mlflow_run_id"]


@pytest.mark.case("C007")
@pytest.mark.case("C008")
@pytest.mark.case("C009")
def test_a_retry_after_a_failure_trains_in_the_next_job(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow, tmp_path: Any
) -> None:
    tmp_path.chmod(0o777)
    script = f"test -e {tmp_path}/tried || {{ touch {tmp_path}/tried; exit 1; }}; {SUCCEED}"
    first = TaskInstance(max_tries=1)
    with pytest.raises(TrainingFailed):
        train(operator(spec(namespace, script), retries=1), first)
    result = train(operator(spec(namespace, script), retries=1), first.next_try())

    new, old = jobs_of(sandbox, namespace)
    assert old["metadata"]["name"].endswith("-g1-1")
    assert new["metadata"]["name"].endswith("-g1-2")
    assert result["job"] == new["metadata"]["name"]


@pytest.mark.case("C055")
def test_a_retry_takes_the_success_that_nobody_reported(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow
) -> None:
    first = TaskInstance(max_tries=1)
    fire(defer(operator(spec(namespace, SUCCEED), retries=1), first))  # the worker that should resume dies
    result = train(operator(spec(namespace, SUCCEED), retries=1), first.next_try())

    (job,) = jobs_of(sandbox, namespace)
    assert result["job_uid"] == job["metadata"]["uid"]


def test_a_retry_takes_a_job_that_ended_well_without_the_result_that_nobody_requires(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow
) -> None:
    first = TaskInstance(max_tries=1)
    fire(defer(operator(spec(namespace, "true"), retries=1, result_required=False), first))
    result = train(operator(spec(namespace, "true"), retries=1, result_required=False), first.next_try())

    (job,) = jobs_of(sandbox, namespace)
    assert result["job_uid"] == job["metadata"]["uid"]


@pytest.mark.case("C009")
def test_a_task_that_is_cleared_after_its_success_trains_again(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow
) -> None:
    first = TaskInstance(max_tries=0)
    train(operator(spec(namespace, SUCCEED)), first)
    cleared = replace(first.next_try(), max_tries=1)  # what Airflow changes when a person clears a task
    result = train(operator(spec(namespace, SUCCEED)), cleared)

    assert len(jobs_of(sandbox, namespace)) == 2
    assert (result["job"][-5:], result["generation"]) == ("-g2-2", 2)


def test_a_cleared_task_with_other_parameters_deletes_its_old_job(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow
) -> None:
    first = TaskInstance()
    old = defer(operator(spec(namespace, RUNS_ON)), first)
    new = defer(operator(spec(namespace, RUNS_ON, arguments={"rounds": 2})), first.next_try())

    assert new.job["uid"] != old.job["uid"]
    wait_for(lambda: len(jobs_of(sandbox, namespace)) == 1, 60, "the end of the old Job")
    (job,) = jobs_of(sandbox, namespace)
    assert job["metadata"]["uid"] == new.job["uid"]


def test_another_run_of_a_tagged_image_gets_a_job_of_its_own(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow
) -> None:
    one, other = (defer(operator(spec(namespace, RUNS_ON)), TaskInstance()) for _ in range(2))

    assert one.job["uid"] != other.job["uid"]
    assert one.work["lineage"] != other.work["lineage"]
    assert {job["metadata"]["name"][-5:] for job in jobs_of(sandbox, namespace)} == {"-g1-1"}


@pytest.mark.case("C011")
def test_mapped_tasks_keep_to_their_own_jobs(sandbox: Sandbox, namespace: str, connected: FakeMlflow) -> None:
    run = TaskInstance()
    mapped = [replace(run, map_index=index, xcoms={}) for index in range(3)]
    work = [spec(namespace, RUNS_ON, arguments={"fold": index}) for index in range(3)]
    first = [defer(operator(each), instance) for each, instance in zip(work, mapped, strict=True)]
    again = [
        defer(operator(each), replace(instance, try_number=2)) for each, instance in zip(work, mapped, strict=True)
    ]

    assert len({trigger.job["uid"] for trigger in first}) == 3
    assert [trigger.job for trigger in again] == [trigger.job for trigger in first]


def test_a_foreign_object_under_our_name_is_an_error_and_left_alone(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow
) -> None:
    first = TaskInstance(max_tries=1)
    with pytest.raises(TrainingFailed):
        train(operator(spec(namespace, "exit 1"), retries=1), first)
    name = first.xcoms["job"]["job"].removesuffix("1") + "2"
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "sandbox-shell:1"}]}
    foreign = {"metadata": {"name": name}, "spec": {"suspend": True, "template": {"spec": pod}}}
    sandbox.api.request("POST", f"/apis/batch/v1/namespaces/{namespace}/jobs", foreign)

    def found() -> list[Any]:
        return [(job["metadata"]["uid"], job["metadata"].get("annotations"), job["spec"]) for job in jobs]

    jobs = jobs_of(sandbox, namespace)
    before = found()
    with pytest.raises(AirflowFailException, match=f"Job {namespace}/{name} exists and is not ours"):
        defer(operator(spec(namespace, "exit 1"), retries=1), first.next_try())
    jobs = jobs_of(sandbox, namespace)
    assert found() == before
    assert all("deletionTimestamp" not in job["metadata"] for job in jobs)


def edit(sandbox: Sandbox, namespace: str, job: dict[str, str], annotations: dict[str, str | None]) -> None:
    path = f"/apis/batch/v1/namespaces/{namespace}/jobs/{job['name']}"
    patch = {"metadata": {"annotations": annotations}}
    sandbox.api.request("PATCH", path, patch, content_type="application/merge-patch+json")


@pytest.mark.parametrize("forged", ["somebody", "[[1]]", None], ids=["no list", "a list of something", "taken away"])
def test_a_job_on_which_somebody_edited_who_waits_is_adopted_since_the_ledger_knows_it(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow, forged: str | None
) -> None:
    first = TaskInstance()
    job = defer(operator(spec(namespace, RUNS_ON)), first).job
    edit(sandbox, namespace, job, {WAITERS: forged})
    second = defer(operator(spec(namespace, RUNS_ON)), first.next_try())

    (left,) = jobs_of(sandbox, namespace)
    assert second.job == job
    assert tries_on(left) == [(first.run_id, 2)]


def test_a_job_whose_fingerprint_somebody_edited_is_neither_adopted_nor_touched(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow
) -> None:
    first = TaskInstance()
    job = defer(operator(spec(namespace, RUNS_ON)), first).job
    edit(sandbox, namespace, job, {"gpu-training.io/fingerprint": "sha256:" + "0" * 64})
    marks = [(each["metadata"]["uid"], each["metadata"]["annotations"]) for each in jobs_of(sandbox, namespace)]

    with pytest.raises(AirflowFailException, match="exists and is not ours, or somebody edited its marks"):
        defer(operator(spec(namespace, RUNS_ON)), first.next_try())
    found = [(each["metadata"]["uid"], each["metadata"]["annotations"]) for each in jobs_of(sandbox, namespace)]
    assert found == marks


def test_a_job_made_by_somebody_else_under_the_marks_of_ours_is_not_adopted(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow
) -> None:
    first = TaskInstance()
    job = defer(operator(spec(namespace, RUNS_ON)), first).job
    path = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    copy = sandbox.api.request("GET", f"{path}/{job['name']}")
    sandbox.api.request("DELETE", f"{path}/{job['name']}", {"propagationPolicy": "Foreground"})
    wait_for(lambda: not jobs_of(sandbox, namespace), 60, "the end of the Job")
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "sandbox-shell:1"}]}
    marks = {name: copy["metadata"][name] for name in ("name", "annotations")}
    marks["labels"] = {k: v for k, v in copy["metadata"]["labels"].items() if k.startswith("gpu-training.io/")}
    sandbox.api.request("POST", path, {"metadata": marks, "spec": {"suspend": True, "template": {"spec": pod}}})
    (forged,) = jobs_of(sandbox, namespace)
    second = defer(operator(spec(namespace, RUNS_ON)), first.next_try())

    assert second.job["name"] == job["name"].removesuffix("1") + "2"
    (left,) = (each for each in jobs_of(sandbox, namespace) if each["metadata"]["uid"] == forged["metadata"]["uid"])
    assert "deletionTimestamp" not in left["metadata"]
    assert (left["metadata"]["annotations"], left["spec"]) == (forged["metadata"]["annotations"], forged["spec"])


def test_a_job_that_is_being_deleted_is_not_adopted(sandbox: Sandbox, namespace: str, connected: FakeMlflow) -> None:
    first = TaskInstance()
    script = "trap '' TERM; echo on it; sleep 600 & wait; sleep 600"
    grace = {"spec": {"template": {"spec": {"containers": [], "terminationGracePeriodSeconds": 8}}}}
    job = defer(operator(spec(namespace, script), full_job_spec=grace), first).job
    wait_for(lambda: trainings.is_running(sandbox, namespace), 30, "a running container")
    path = f"/apis/batch/v1/namespaces/{namespace}/jobs/{job['name']}"
    sandbox.api.request("DELETE", path, {"propagationPolicy": "Foreground"})
    second = defer(operator(spec(namespace, script), full_job_spec=grace), first.next_try())

    assert second.job["name"] == job["name"].removesuffix("1") + "2"
    assert all(pod["metadata"]["labels"]["job-name"] == second.job["name"] for pod in pods_of(sandbox, namespace))


@pytest.mark.parametrize("arguments", [{}, {"rounds": 2}], ids=["the same work", "other work"])
def test_a_stale_try_leaves_the_job_of_a_later_one_alone(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow, arguments: dict[str, int]
) -> None:
    first = TaskInstance()
    defer(operator(spec(namespace, RUNS_ON)), first)
    defer(operator(spec(namespace, RUNS_ON, arguments=arguments)), first.next_try())
    owners = [tries_on(job) for job in jobs_of(sandbox, namespace) if "deletionTimestamp" not in job["metadata"]]

    with pytest.raises(StaleTry, match=r"try 2 of task 'train' waits on it, and this is try 1"):
        defer(operator(spec(namespace, RUNS_ON)), first)  # its worker was cut off, and comes back
    left = [tries_on(job) for job in jobs_of(sandbox, namespace) if "deletionTimestamp" not in job["metadata"]]
    assert left == owners == [[(first.run_id, 2)]]


def test_several_triggers_share_one_watch(namespace: str, connected: FakeMlflow) -> None:
    triggers = [defer(operator(spec(namespace, SUCCEED)), TaskInstance()) for _ in range(4)]

    async def run_all() -> list[Any]:
        async def first(trigger: Any) -> Any:
            return [event.payload async for event in trigger.run()]

        return await asyncio.wait_for(asyncio.gather(*map(first, triggers)), 120)

    payloads = asyncio.run(run_all())
    assert [len(fired) for fired in payloads] == [1, 1, 1, 1]
    assert [fired[0]["kind"] for fired in payloads] == ["succeeded"] * 4
    assert [fired[0]["job"] for fired in payloads] == [trigger.job for trigger in triggers]


@pytest.mark.case("C005")
def test_an_adoption_whose_answer_was_lost_is_an_adoption(sandbox: Sandbox, namespace: str, proxy: FaultyProxy) -> None:
    first = TaskInstance()
    job = defer(operator(spec(namespace, RUNS_ON)), first).job
    proxy.follow(Rule(action=Action.LOSE_REPLY, method="PATCH", count=1))

    assert defer(operator(spec(namespace, RUNS_ON)), first.next_try()).job == job
    assert len(jobs_of(sandbox, namespace)) == 1


@dataclass
class Unheard(TaskInstance):
    """A task instance whose XComs fail."""

    fault: Exception | None = None

    def xcom_push(self, key: str, value: Any) -> None:
        assert self.fault is not None
        raise self.fault


LEFT_BEHIND = [
    # retries, what fails after the Job was made, what is raised, whether the Job lives on
    (0, OSError("no answer"), OSError, False),
    (1, OSError("no answer"), OSError, True),
    (1, ConfigurationError("f", "v", "is not allowed"), AirflowFailException, False),
]


@pytest.mark.parametrize(
    ("retries", "fault", "raised", "lives"), LEFT_BEHIND, ids=["last try", "a retry follows", "no retry helps"]
)
def test_a_failure_before_the_task_defers_leaves_no_job_that_nobody_would_adopt(
    sandbox: Sandbox,
    namespace: str,
    connected: FakeMlflow,
    retries: int,
    fault: Exception,
    raised: type[Exception],
    lives: bool,
) -> None:
    with pytest.raises(raised, match=str(fault)):
        defer(operator(spec(namespace, RUNS_ON)), Unheard(max_tries=retries, fault=fault))

    (run_id,) = connected.runs
    assert connected.status_of(run_id) == ("RUNNING" if lives else "KILLED")
    if lives:
        (job,) = jobs_of(sandbox, namespace)
        assert "deletionTimestamp" not in job["metadata"]
    else:
        wait_for(lambda: not jobs_of(sandbox, namespace), 60, "the end of the Job")


def test_a_job_that_can_not_be_deleted_hides_no_failure(sandbox: Sandbox, namespace: str, proxy: FaultyProxy) -> None:
    proxy.follow(Rule(action=Action.ANSWER, status=403, method="DELETE"))
    with pytest.raises(OSError, match="no answer"):
        defer(operator(spec(namespace, RUNS_ON)), Unheard(fault=OSError("no answer")))

    assert len(jobs_of(sandbox, namespace)) == 1
