"""One lineage over runs, tries and Jobs: who joins, who trains again, what is reused, and when the budget ends it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred
from tests.cluster.trainings import (
    RUNS_ON,
    SUCCEED,
    TaskInstance,
    defer,
    fire,
    is_running,
    jobs_of,
    ledger_of,
    operator,
    pods_of,
    spec,
    train,
    waiters_on,
)
from tests.fake_mlflow import FakeMlflow

from gpu_training.core.errors import TrainingFailed
from gpu_training.operators.outcomes import TrainingFailedForGood
from sandbox.agent.images import ImageStore
from sandbox.cluster import Sandbox
from sandbox.faults.pods import fail_container
from sandbox.proxy import FaultyProxy
from sandbox.proxy_script import Action, Rule
from sandbox.testing import wait_for

pytestmark = pytest.mark.cluster

MODEL = "m-1"
"""The logged model that SUCCEED tells of."""


def pinned(namespace: str, script: str, **changes: Any) -> dict[str, Any]:
    """Give a spec whose image is known by its digest, so that runs share the work."""
    return spec(namespace, script, image=ImageStore().image("sandbox-shell").identity, **changes)


def scheduled() -> TaskInstance:
    return TaskInstance(run_type="scheduled")


def once(folder: Path, script: str) -> str:
    """Give a script that does this the first time, and succeeds the second time."""
    folder.chmod(0o777)
    return f"if mkdir {folder}/tried; then {script}; fi; {SUCCEED}"


@pytest.mark.case("C097")
def test_runs_that_ask_for_the_same_work_wait_on_one_job(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow, tmp_path: Path
) -> None:
    tmp_path.chmod(0o777)
    training = pinned(namespace, f"until [ -e {tmp_path}/go ]; do sleep 0.1; done; {SUCCEED}")
    nightly, by_hand = scheduled(), TaskInstance()
    one, other = (defer(operator(training), each) for each in (nightly, by_hand))
    (job,) = jobs_of(sandbox, namespace)
    assert [run for _, run, *_ in waiters_on(job)] == [nightly.run_id, by_hand.run_id]

    (tmp_path / "go").touch()
    results = [
        operator(training).execute_complete(each.context, fire(trigger))
        for each, trigger in ((nightly, one), (by_hand, other))
    ]
    assert [result["job_uid"] for result in results] == [job["metadata"]["uid"]] * 2
    assert [result["reused"] for result in results] == [False, False]
    assert len(pods_of(sandbox, namespace)) == len(connected.runs) == 1


def test_what_is_trained_is_green_at_once_for_another_run(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow
) -> None:
    connected.models.add(MODEL)
    first = train(operator(pinned(namespace, SUCCEED)), scheduled())
    second = train(operator(pinned(namespace, SUCCEED)), TaskInstance())

    assert (second["reused"], second["gpu_seconds"], second["attempts"]) == (True, 0, 0)
    assert {name: second[name] for name in ("job_uid", "model_uri", "metrics", "mlflow_run_id")} == {
        name: first[name] for name in ("job_uid", "model_uri", "metrics", "mlflow_run_id")
    }
    assert len(jobs_of(sandbox, namespace)) == 1


def test_the_same_work_on_other_resources_is_the_same_work(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow
) -> None:
    connected.models.add(MODEL)
    train(operator(pinned(namespace, SUCCEED)), scheduled())
    larger = {"limits": {"memory": "128Mi", "nvidia.com/gpu": 1}}
    assert train(operator(pinned(namespace, SUCCEED, resources=larger)), scheduled())["reused"]


def test_a_model_that_is_gone_from_mlflow_is_trained_again(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow
) -> None:
    train(operator(pinned(namespace, SUCCEED)), scheduled())
    again = train(operator(pinned(namespace, SUCCEED)), scheduled())

    assert (again["reused"], again["generation"], again["job"][-5:]) == (False, 2, "-g2-2")


def test_who_asks_to_train_again_gets_the_next_generation_and_its_retry_keeps_it(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow, tmp_path: Path
) -> None:
    connected.models.add(MODEL)
    tmp_path.chmod(0o777)
    script = f"n=$(ls {tmp_path} | wc -l); touch {tmp_path}/$n; [ $n != 1 ] || exit 1; {SUCCEED}"
    train(operator(pinned(namespace, script)), scheduled())
    asks = TaskInstance(max_tries=1)
    with pytest.raises(TrainingFailed):
        train(operator(pinned(namespace, script, if_trained="retrain"), retries=1), asks)
    result = train(operator(pinned(namespace, script, if_trained="retrain"), retries=1), asks.next_try())

    assert (result["generation"], result["reused"]) == (2, False)
    assert [job["metadata"]["name"][-5:] for job in jobs_of(sandbox, namespace)] == ["-g2-3", "-g2-2", "-g1-1"]


def test_a_tagged_image_is_never_reused_by_another_run_and_a_warning_says_so(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow, capsys: pytest.CaptureFixture[str]
) -> None:
    connected.models.add(MODEL)
    results = [train(operator(spec(namespace, SUCCEED)), TaskInstance()) for _ in range(2)]

    assert [result["reused"] for result in results] == [False, False]
    assert len(jobs_of(sandbox, namespace)) == 2
    assert "Image sandbox-shell:1 has no digest: what is trained with it is never reused" in capsys.readouterr().out


def test_one_budget_rules_the_jobs_back_off_and_airflows_retries_together(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow
) -> None:
    """Alone, Airflow's two retries of a Job with a back-off of one would be six attempts."""
    training = pinned(namespace, "exit 1", backoff_limit=1)
    instance = TaskInstance(max_tries=2)
    with pytest.raises(TrainingFailed) as first:
        train(operator(training, retries=2), instance)
    with pytest.raises(TrainingFailedForGood, match="budget is spent: 3 of 3 attempts") as second:
        train(operator(training, retries=2), instance.next_try())

    assert not isinstance(first.value, TrainingFailedForGood)
    assert [f"attempt {n}: pod" in str(second.value) for n in (1, 2, 3, 4)] == [True, True, True, False]
    assert len(pods_of(sandbox, namespace)) == 3


def test_a_scheduled_run_does_not_renew_a_spent_budget_and_is_told_where_it_went(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow
) -> None:
    training = pinned(namespace, "exit 1")
    with pytest.raises(TrainingFailedForGood):
        train(operator(training), scheduled())
    with pytest.raises(TrainingFailedForGood, match=r"Nothing is trained.*1 of 1 attempts(.|\n)*attempt 1: pod"):
        train(operator(training), scheduled())
    assert len(jobs_of(sandbox, namespace)) == 1


def test_a_clear_and_a_run_by_hand_renew_the_budget_in_the_same_generation(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow
) -> None:
    training, nightly = pinned(namespace, "exit 1"), scheduled()
    for instance in (nightly, replace(nightly.next_try(), max_tries=1), TaskInstance()):
        with pytest.raises(TrainingFailedForGood):
            train(operator(training), instance)

    assert [job["metadata"]["name"][-5:] for job in jobs_of(sandbox, namespace)] == ["-g1-3", "-g1-2", "-g1-1"]
    assert [renewal["why"] for renewal in ledger_of(sandbox, namespace)["renewals"]] == [
        "cleared",
        "a new run by hand",
    ]


def test_bad_data_is_not_tried_again_by_any_later_scheduled_run(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow
) -> None:
    training = pinned(namespace, "exit 81", backoff_limit=2)
    for _ in range(2):
        with pytest.raises(TrainingFailedForGood, match="bad_data"):
            train(operator(training, retries=2), scheduled())
    assert len(pods_of(sandbox, namespace)) == 1


def test_gpu_seconds_that_are_spent_end_the_training_that_runs(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow
) -> None:
    with pytest.raises(TrainingFailedForGood, match=r"budget is spent: .* GPU-seconds"):
        train(operator(pinned(namespace, RUNS_ON, budget={"gpu_seconds": 10})), scheduled())

    (job,) = ledger_of(sandbox, namespace)["jobs"]
    assert 10 <= job["attempts"][0]["gpu_seconds"] <= 25
    assert not is_running(sandbox, namespace)


def test_host_out_of_memory_is_tried_again_with_more_up_to_the_cap(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow
) -> None:
    training = pinned(namespace, RUNS_ON, budget={"attempts": 5}, memory_growth={"factor": 2, "maximum": "128Mi"})
    instance = TaskInstance(max_tries=4)

    def out_of_memory(each: TaskInstance) -> Exception:
        trigger = defer(operator(training, retries=4), each)
        wait_for(lambda: is_running(sandbox, namespace), 60, "a running container")
        (pod,) = (p for p in pods_of(sandbox, namespace) if p["metadata"]["labels"]["job-name"] == trigger.job["name"])
        fail_container(sandbox, namespace, pod["metadata"]["name"], reason="OOMKilled")
        with pytest.raises(TrainingFailed) as failure:
            operator(training, retries=4).execute_complete(each.context, fire(trigger))
        return failure.value

    first, second = out_of_memory(instance), out_of_memory(instance.next_try())
    memory = [
        job["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["memory"]
        for job in jobs_of(sandbox, namespace)
    ]
    assert memory == ["128Mi", "64Mi"]
    assert not isinstance(first, TrainingFailedForGood)
    assert isinstance(second, TrainingFailedForGood)
    assert "128Mi is the most that training.memory_growth allows" in str(second)
    assert len(pods_of(sandbox, namespace)) == 2


def test_an_error_of_the_gpu_is_tried_again_on_another_node(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow
) -> None:
    training = pinned(namespace, "echo 'NVRM: Xid (PCI:0000:00:1e): 79, pid=1, GPU has fallen off'; sleep 1; exit 1")
    instance = TaskInstance(max_tries=1)
    with pytest.raises(TrainingFailed, match="gpu_hardware"):
        train(operator(training, retries=1), instance)
    defer(operator(training, retries=1), instance.next_try())

    new, _ = jobs_of(sandbox, namespace)
    (term,) = new["spec"]["template"]["spec"]["affinity"]["nodeAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]["nodeSelectorTerms"]
    assert term["matchFields"] == [{"key": "metadata.name", "operator": "NotIn", "values": ["gpu-1"]}]
    pods = [pod["spec"].get("nodeName") for pod in pods_of(sandbox, namespace)]
    assert pods.count("gpu-1") == 1


def test_what_the_log_says_ends_a_job_that_would_repeat_it(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow
) -> None:
    script = "echo 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB'; sleep 1; exit 1"
    with pytest.raises(TrainingFailedForGood, match="cuda_out_of_memory"):
        train(operator(pinned(namespace, script, backoff_limit=3), retries=3), scheduled())
    assert len(pods_of(sandbox, namespace)) == 1


def test_the_last_attempt_goes_where_the_spot_fallback_says(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow, tmp_path: Path
) -> None:
    training = pinned(
        namespace,
        once(tmp_path, "exit 1"),
        node_selector={"workload": "gpu-training"},
        spot_fallback={"node_selector": {"kubernetes.io/hostname": "gpu-1"}},
    )
    instance = TaskInstance(max_tries=1)
    with pytest.raises(TrainingFailed):
        train(operator(training, retries=1), instance)
    train(operator(training, retries=1), instance.next_try())

    selectors = [job["spec"]["template"]["spec"]["nodeSelector"] for job in jobs_of(sandbox, namespace)]
    assert selectors == [{"kubernetes.io/hostname": "gpu-1"}, {"workload": "gpu-training"}]
    assert [job["on_demand"] for job in ledger_of(sandbox, namespace)["jobs"]] == [False, True]


def test_a_waiter_of_higher_priority_replaces_a_job_that_has_not_started(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow
) -> None:
    name = f"urgent-{namespace}"
    sandbox.api.request("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": name}, "value": 7})
    nowhere = {"node_selector": {"no-such-label": "x"}}
    low, high = scheduled(), TaskInstance()
    waiting = defer(operator(pinned(namespace, SUCCEED, **nowhere)), low)
    wait_for(lambda: pods_of(sandbox, namespace), 30, "a pod that waits for a node")
    try:
        urgent = defer(operator(pinned(namespace, SUCCEED, priority_class=name)), high)
        again = fire(waiting)  # its Job is gone
        with pytest.raises(TaskDeferred) as deferral:
            operator(pinned(namespace, SUCCEED, **nowhere)).execute_complete(low.context, again)
        fire(urgent)
    finally:
        sandbox.api.request("DELETE", f"/apis/scheduling.k8s.io/v1/priorityclasses/{name}")

    assert again["verdict"]["category"] == "replaced"
    (job,) = jobs_of(sandbox, namespace)
    assert job["metadata"]["uid"] == urgent.job["uid"] == deferral.value.trigger.job["uid"] != waiting.job["uid"]
    assert sorted(run for _, run, *_ in waiters_on(job)) == sorted([low.run_id, high.run_id])


def test_an_equal_priority_replaces_nothing(sandbox: Sandbox, namespace: str, connected: FakeMlflow) -> None:
    nowhere = {"node_selector": {"no-such-label": "x"}}
    one, other = (defer(operator(pinned(namespace, SUCCEED, **nowhere)), each) for each in (scheduled(), scheduled()))
    assert one.job == other.job


def config_map(sandbox: Sandbox, namespace: str) -> dict[str, Any]:
    (found,) = sandbox.api.request(
        "GET", f"/api/v1/namespaces/{namespace}/configmaps?labelSelector=gpu-training.io/ledger"
    )["items"]
    return dict(found)


def write(sandbox: Sandbox, namespace: str, document: dict[str, Any]) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps/{document['metadata']['name']}"
    sandbox.api.request("PUT", path, document)


DAMAGE = {
    "no JSON": lambda text: text[: len(text) // 2],
    "a budget made larger": lambda text: text.replace('"failures": 0', '"failures": "many"'),
    "another release": lambda text: text.replace('"v": 1', '"v": 99'),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_an_edited_ledger_is_a_clear_error_and_nothing_is_trained(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow, damage: Any
) -> None:
    first = TaskInstance(max_tries=1)
    with pytest.raises(TrainingFailed):
        train(operator(pinned(namespace, "exit 1"), retries=1), first)
    document = config_map(sandbox, namespace)
    document["data"]["ledger.json"] = damage(document["data"]["ledger.json"])
    write(sandbox, namespace, document)
    before = config_map(sandbox, namespace)

    with pytest.raises(AirflowFailException, match=r"was edited and can not be read(.|\n)*delete the ConfigMap"):
        defer(operator(pinned(namespace, "exit 1"), retries=1), first.next_try())
    assert config_map(sandbox, namespace) == before
    assert len(jobs_of(sandbox, namespace)) == 1


def test_a_config_map_that_is_not_ours_is_a_clear_error_and_left_alone(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow
) -> None:
    first = TaskInstance()
    defer(operator(pinned(namespace, RUNS_ON)), first)
    document = config_map(sandbox, namespace)
    document["metadata"]["annotations"] = {}
    write(sandbox, namespace, document)
    before = config_map(sandbox, namespace)

    with pytest.raises(AirflowFailException, match="does not bear the marks of this lineage's ledger"):
        defer(operator(pinned(namespace, RUNS_ON)), first.next_try())
    assert config_map(sandbox, namespace) == before
    assert len(jobs_of(sandbox, namespace)) == 1


def test_a_ledger_that_somebody_deleted_is_found_again_in_the_job_that_lives(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow
) -> None:
    first = TaskInstance()
    job = defer(operator(pinned(namespace, RUNS_ON)), first).job
    name = config_map(sandbox, namespace)["metadata"]["name"]
    sandbox.api.request("DELETE", f"/api/v1/namespaces/{namespace}/configmaps/{name}")

    assert defer(operator(pinned(namespace, RUNS_ON)), first.next_try()).job == job
    assert ledger_of(sandbox, namespace)["next_number"] == 2


def test_an_account_that_may_not_read_ledgers_is_told_so_before_a_gpu_is_asked_for(
    sandbox: Sandbox, namespace: str, proxy: FaultyProxy
) -> None:
    proxy.follow(Rule(action=Action.ANSWER, status=403, path="/configmaps"))
    with pytest.raises(AirflowFailException, match=r"could not read ledger .*HTTP 403"):
        defer(operator(pinned(namespace, RUNS_ON)), TaskInstance())
    assert jobs_of(sandbox, namespace) == []


@pytest.mark.case("C085")
@pytest.mark.case("C086")
def test_names_of_any_length_and_script_neither_clash_nor_are_refused(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow
) -> None:
    long, group = "scheduled__" + "x" * 239, "Gruppe.Trainieren_ÄÖÜ"
    indexed = {"completionMode": "Indexed", "completions": 2, "parallelism": 2}
    cases: list[tuple[TaskInstance, dict[str, Any]]] = [
        (TaskInstance(run_id=long, task_id=group), {}),
        (TaskInstance(run_id=long[:-1] + "y", task_id=group), {}),
        (TaskInstance(run_id=long, task_id=group.lower()), {"arguments": {"n": 1}}),
        (TaskInstance(run_id=long, task_id=group, map_index=3), {"arguments": {"n": 2}}),
        (TaskInstance(run_id=long, task_id="in.dexed"), {"model": "m" * 40}),
    ]
    triggers = [
        defer(
            operator(
                spec(namespace, RUNS_ON, **changes),
                full_job_spec={"spec": {**indexed, "template": {"spec": {"containers": []}}}}
                if "model" in changes
                else None,
            ),
            instance,
        )
        for instance, changes in cases
    ]

    names = [trigger.job["name"] for trigger in triggers]
    assert len(set(names)) == len(cases)
    assert all(len(name) <= 63 for name in names)
    waiting = [tuple(entry) for job in jobs_of(sandbox, namespace) for entry in waiters_on(job)]
    assert sorted(waiting) == sorted((i.dag_id, i.run_id, i.task_id, i.map_index, 1) for i, _ in cases)
