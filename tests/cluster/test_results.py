"""How a training's result reaches the task on a real control plane, and what follows where it does not."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.trainings import (
    RESULT,
    RecordedTrigger,
    TaskInstance,
    defer,
    fire,
    jobs_of,
    ledger_of,
    operator,
    pods_of,
    recorded,
    spec,
    train,
)
from tests.cluster.waits import Wait, waits
from tests.fake_mlflow import FakeMlflow

from gpu_training.contract import RESULT_PREFIX
from gpu_training.core.errors import TrainingFailed
from gpu_training.operators.outcomes import TrainingFailedForGood
from sandbox.cluster import Sandbox
from sandbox.faults.pods import fail_container
from sandbox.manifests import NAMESPACE
from sandbox.proxy import FaultyProxy
from sandbox.proxy_script import Action, Rule
from sandbox.testing import wait_for

pytestmark = pytest.mark.cluster

# As the library writes it: of whom it is, and of which data.
OWN = '"pod_uid":"\'$GPU_TRAINING_POD_UID\'","data_version":"\'$DATA_VERSION\'"'
SAY = f"echo '{RESULT_PREFIX}{RESULT[:-1]},{OWN}}}'"
LEAVE = f"echo '{RESULT}' > /dev/termination-log"
RESOURCES = {"limits": {"memory": "32Mi"}, "requests": {"memory": "32Mi"}}
LARGE = (
    "import json; values = {f'metric_{n}': n / 7 for n in range(9000)}; "
    "print(json.dumps({'v': 1, 'status': 'trained', 'metrics': values}))"
)
LEAVE_LARGE = f'python3 -c "{LARGE}" > /dev/termination-log'


def beside(*scripts: str) -> dict[str, Any]:
    """Give a base Job whose pods have containers that run these scripts beside the training's."""
    others = [
        {"name": f"beside-{n}", "image": "sandbox-shell:1", "command": ["sh", "-c", script], "resources": RESOURCES}
        for n, script in enumerate(scripts)
    ]
    return {"spec": {"template": {"spec": {"containers": [{"name": "training"}, *others]}}}}


def naming(**fields: str) -> str:
    """Give a script that leaves a result with these fields."""
    return f"echo '{json.dumps({**json.loads(RESULT), **fields})}' > /dev/termination-log"


REFUSED = {
    "200 KiB": (LEAVE_LARGE, {}, "the beginning is missing: Kubernetes kept 4096 bytes"),
    "200 KiB in the first of four containers": (
        LEAVE_LARGE,
        beside("true", "true", "true"),
        "the beginning is missing, and maybe the end: Kubernetes kept 3072 bytes of the termination message, where 4",
    ),
    "3500 bytes in the first of four containers": (
        naming(error="x" * 3400),
        beside("true", "true", "true"),
        "the end is missing: Kubernetes kept 3072 bytes",
    ),
    "3 KiB": (naming(error="x" * 3000), {}, "at most 2048"),
    "another pod's": (naming(pod_uid="another"), {}, "another pod's: it says pod_uid='another'"),
    "another run's": (naming(mlflow_run_id="another"), {}, "names MLflow run 'another'"),
}


@pytest.mark.case("C083")
@pytest.mark.parametrize(("script", "base", "said"), REFUSED.values(), ids=REFUSED.keys())
def test_a_result_that_is_cut_or_not_the_pods_own_is_refused_with_a_reason(
    connected: FakeMlflow, script: str, base: dict[str, Any], said: str
) -> None:
    instance = TaskInstance()
    with pytest.raises(TrainingFailedForGood, match=said) as caught:
        train(operator(spec(NAMESPACE, script), full_job_spec=base or None), instance)

    assert caught.value.verdict.category == "result_invalid"
    assert len(json.dumps([str(caught.value), instance.xcoms])) < 4096


def test_a_result_that_names_its_own_pod_and_run_counts(connected: FakeMlflow) -> None:
    fields = '"pod_uid":"\'$GPU_TRAINING_POD_UID\'","mlflow_run_id":"\'$MLFLOW_RUN_ID\'"'
    script = f"echo '{RESULT[:-1]},{fields}}}' > $GPU_TRAINING_TERMINATION_LOG"
    result = train(
        operator(spec(NAMESPACE, f"GPU_TRAINING_TERMINATION_LOG=/dev/termination-log; {script}")), TaskInstance()
    )

    assert [result["mlflow_run_id"]] == list(connected.runs)


# No sidecar, no exec, no rights.


@pytest.mark.case("C079")
@pytest.mark.parametrize("message", ["", f"{LEAVE}; "], ids=["without a result", "with one"])
def test_a_training_that_fails_ends_its_pod_at_once(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow, message: str
) -> None:
    task = operator(spec(namespace, f"{message}exit 1"), do_xcom_push=True, full_job_spec=beside("sleep 2"))
    with pytest.raises(TrainingFailed, match="container training exited with 1") as caught:
        train(task, TaskInstance())

    assert caught.value.verdict.category == "application_error"
    (pod,) = pods_of(sandbox, namespace)
    assert pod["status"]["phase"] == "Failed"
    assert [each["name"] for each in pod["spec"]["containers"]] == ["training", "beside-0"]


@pytest.mark.case("C080")
def test_a_pod_without_any_right_that_runs_as_another_user_hands_its_result_over(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow
) -> None:
    security = {"runAsUser": 65534, "runAsGroup": 65534, "readOnlyRootFilesystem": True}
    base = {"spec": {"template": {"spec": {"containers": [{"name": "training", "securityContext": security}]}}}}
    script = f"test ! -e /var/run/secrets/kubernetes.io/serviceaccount/token || exit 7; {LEAVE}"
    result = train(operator(spec(namespace, script), full_job_spec=base), TaskInstance())

    assert result["metrics"] == {"mae": 1.5}
    (pod,) = pods_of(sandbox, namespace)
    (container,) = pod["spec"]["containers"]
    assert container["securityContext"]["runAsUser"] == 65534
    assert "volumeMounts" not in container or "kube-api-access" not in json.dumps(container["volumeMounts"])
    for verb, resource, part in (("create", "pods", "exec"), ("patch", "pods", None), ("create", "configmaps", None)):
        wanted = {"namespace": namespace, "verb": verb, "resource": resource, "subresource": part}
        review = {"user": f"system:serviceaccount:{namespace}:training", "resourceAttributes": wanted}
        answer = sandbox.api.request(
            "POST",
            "/apis/authorization.k8s.io/v1/subjectaccessreviews",
            {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": review},
        )
        assert answer["status"]["allowed"] is False


def evict(sandbox: Sandbox, namespace: str) -> None:
    (pod,) = pods_of(sandbox, namespace)
    name = pod["metadata"]["name"]
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": namespace}}
    sandbox.api.request("POST", f"/api/v1/namespaces/{namespace}/pods/{name}/eviction", eviction)


@pytest.mark.case("C081")
@pytest.mark.parametrize(
    ("hand_over", "code", "attempts"),
    [
        # Evicted, it had the time to finish: what it left is read though the pod is deleted as soon as it ends.
        (LEAVE, 0, ["succeeded"]),
        # Evicted in the middle of its last words: they count for nothing, and the next attempt's do.
        (f"printf %s '{RESULT[:40]}' > /dev/termination-log", 85, ["disrupted", "succeeded"]),
        # The result of an attempt that was interrupted is not the training's.
        (naming(model_uri="models:/half"), 85, ["disrupted", "succeeded"]),
    ],
    ids=["in time", "too late", "complete, and still interrupted"],
)
def test_an_eviction_while_the_result_is_handed_over(
    sandbox: Sandbox,
    namespace: str,
    connected: FakeMlflow,
    tmp_path: Path,
    hand_over: str,
    code: int,
    attempts: list[str],
) -> None:
    tmp_path.chmod(0o777)
    once = f"test -e {tmp_path}/tried || {{ touch {tmp_path}/tried; sleep 600 & wait; }}"
    script = f'trap "{quoted(hand_over)}; exit {code}" TERM; {once}; {LEAVE}'
    with waits(sandbox, namespace, script) as begin:
        wait = begin()
        wait_for((tmp_path / "tried").exists, 30, "the first attempt")
        evict(sandbox, namespace)
        result = wait.conclude()

    ends = [attempt["verdict"] for attempt in wait.await_end()["attempts"]]
    assert [end["category"] if end else "succeeded" for end in ends] == attempts
    assert result["model_uri"] == "models:/m-1"


def quoted(script: str) -> str:
    """Give a script as it stands between double quotes."""
    return script.replace('"', '\\"')


@pytest.mark.case("C070")
def test_a_training_that_runs_out_of_memory_says_so_with_its_last_words(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow
) -> None:
    with waits(sandbox, namespace, "echo batch 7 > /dev/termination-log; echo ready; sleep 600 & wait") as begin:
        wait = begin()
        wait.await_line("ready")
        (pod,) = pods_of(sandbox, namespace)
        fail_container(sandbox, namespace, pod["metadata"]["name"], reason="OOMKilled")
        with pytest.raises(TrainingFailed, match=r"exited with 137 \(SIGKILL, OOMKilled\): batch 7") as caught:
            wait.conclude()

    assert caught.value.verdict.category == "out_of_memory"


# Deleted before anybody has read it.


@contextmanager
def unread(sandbox: Sandbox, namespace: str, proxy: FaultyProxy, folder: Path, first: str) -> Iterator[Wait]:
    """Give a training whose pod is deleted right after its Job is Complete, and of whose pod nobody saw the end.

    :param first: script that runs, and whose log is heard, before the pod is out of sight.
    """
    folder.chmod(0o777)
    script = f"{first}; echo ready; until test -e {folder}/go; do sleep 0.1; done; {LEAVE}"
    with waits(sandbox, namespace, script) as begin:
        wait = begin()
        wait.await_line("ready")
        proxy.follow(Rule(action=Action.ANSWER, status=503, path=r"/pods(\?|$)"))
        proxy.cut_streams()
        wait.await_line("the training goes on")
        (folder / "go").touch()
        wait_for(lambda: is_complete(sandbox, namespace), 30, "the Job's end")
        delete_the_pod(sandbox, namespace)
        proxy.follow()
        yield wait


def delete_the_pod(sandbox: Sandbox, namespace: str) -> None:
    (pod,) = pods_of(sandbox, namespace)
    sandbox.api.request("DELETE", f"/api/v1/namespaces/{namespace}/pods/{pod['metadata']['name']}")
    wait_for(lambda: not pods_of(sandbox, namespace), 30, "the end of the pod")


def is_complete(sandbox: Sandbox, namespace: str) -> bool:
    (job,) = jobs_of(sandbox, namespace)
    return any(c["type"] == "Complete" and c["status"] == "True" for c in job["status"].get("conditions", ()))


def test_a_pod_that_is_deleted_before_it_is_read_and_that_told_nothing_is_worth_a_retry(
    sandbox: Sandbox, namespace: str, proxy: FaultyProxy, tmp_path: Path
) -> None:
    with (
        unread(sandbox, namespace, proxy, tmp_path, "echo no word of the result") as wait,
        pytest.raises(TrainingFailed, match="gone before anybody read its result") as caught,
    ):
        wait.conclude()

    assert caught.value.verdict.category == "result_missing"
    assert caught.value.verdict.owner == "infrastructure"
    assert "a retry goes on from the last checkpoint" in str(caught.value)


def test_a_pod_that_is_deleted_before_it_is_read_has_told_its_result_in_its_log(
    sandbox: Sandbox, namespace: str, proxy: FaultyProxy, tmp_path: Path
) -> None:
    with unread(sandbox, namespace, proxy, tmp_path, SAY) as wait:
        result = wait.conclude()
        jobs, ledger = jobs_of(sandbox, namespace), ledger_of(sandbox, namespace)

    assert (result["model_uri"], result["metrics"], result["attempts"]) == ("models:/m-1", {"mae": 1.5}, 1)
    assert len(jobs) == 1  # nothing was trained again
    assert [attempt["verdict"] for attempt in wait.await_end()["attempts"]] == [None]
    assert "models:/m-1" in json.dumps(ledger)
    (said,) = wait.log("is the one that its log tells")
    assert "its termination message was not seen" in said
    assert not wait.log(RESULT_PREFIX)


def test_what_a_log_told_outlives_the_triggerer_that_heard_it(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow, tmp_path: Path
) -> None:
    tmp_path.chmod(0o777)
    script = f"{SAY}; echo ready; until test -e {tmp_path}/go; do sleep 0.1; done; {LEAVE}"
    task, instance = operator(spec(namespace, script)), TaskInstance()
    first = recorded(defer(task, instance))
    asyncio.run(cancelled(first, lambda: bool(first.record.about("ready"))))

    (tmp_path / "go").touch()
    wait_for(lambda: is_complete(sandbox, namespace), 30, "the Job's end")
    delete_the_pod(sandbox, namespace)
    second = RecordedTrigger(**first.serialize()[1])
    result = task.execute_complete(instance.context, fire(second))

    assert (result["model_uri"], len(jobs_of(sandbox, namespace))) == ("models:/m-1", 1)
    assert second.record.about("is the one that its log tells")


async def cancelled(trigger: RecordedTrigger, when: Callable[[], bool]) -> None:
    """Run a trigger until something holds, and end it as a triggerer that shuts down does."""
    watching = asyncio.ensure_future(trigger.wait())
    await asyncio.to_thread(wait_for, when, 30, "what the trigger is to be heard saying")
    watching.cancel()
    await asyncio.wait([watching])
