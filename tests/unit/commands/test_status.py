"""`gpu-training status`: exit codes, messages, what is shown of what may be read; against an API server over HTTP."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.cluster.object_server import ObjectApi

from gpu_training.cli import main
from gpu_training.commands.exits import Exit
from gpu_training.contract import Progress
from gpu_training.core.naming import ANNOTATION_PROGRESS
from gpu_training.core.progress_document import ToldProgress, to_text

pytestmark = pytest.mark.unit

JOBS = "/apis/batch/v1/namespaces/gpu-training/jobs"
PODS = "/api/v1/namespaces/gpu-training/pods"
MAPS = "/api/v1/namespaces/gpu-training/configmaps"
NAMESPACE = "/api/v1/namespaces/gpu-training"
LOG = f"{PODS}/m-1-pod/log"
CREATED = "2026-11-30T19:24:00Z"


def labels(model: str = "flight-delay", deployment: str = "airflow") -> dict[str, str]:
    return {
        "gpu-training.io/model": model,
        "gpu-training.io/deployment": deployment,
        "gpu-training.io/lineage": f"lineage-of-{model}",
    }


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectApi]:
    """A cluster in which one training runs and another one is done, reached by $KUBECONFIG."""
    api = ObjectApi(tmp_path)
    monkeypatch.setenv("KUBECONFIG", str(api.address.config_file))
    api.put(NAMESPACE, {"metadata": {"name": "gpu-training"}})
    api.put(
        f"{JOBS}/m-1",
        {
            "metadata": {
                "name": "m-1",
                "namespace": "gpu-training",
                "uid": "u1",
                "creationTimestamp": CREATED,
                "labels": labels(),
                "annotations": {"gpu-training.io/generation": "1", "gpu-training.io/data-version": "2013-03-04"},
            },
            "spec": {},
            "status": {"startTime": CREATED, "active": 1},
        },
    )
    api.put(
        f"{PODS}/m-1-pod",
        {
            "metadata": {
                "name": "m-1-pod",
                "creationTimestamp": CREATED,
                "labels": {**labels(), "batch.kubernetes.io/controller-uid": "u1"},
                "ownerReferences": [{"uid": "u1", "controller": True}],
            },
            "spec": {"nodeName": "gpu-1", "containers": []},
            "status": {
                "phase": "Running",
                "startTime": CREATED,
                "containerStatuses": [{"name": "training", "state": {"running": {"startedAt": CREATED}}}],
            },
        },
    )
    failed = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "lastTransitionTime": CREATED}
    api.put(
        f"{JOBS}/n-1",
        {
            "metadata": {
                "name": "n-1",
                "namespace": "gpu-training",
                "uid": "u2",
                "creationTimestamp": CREATED,
                "labels": labels("air-time", "another"),
            },
            "spec": {},
            "status": {"conditions": [failed]},
        },
    )
    yield api
    api.stop()


def test_every_training_of_the_namespace_is_shown_and_what_can_not_be_seen_is_said(
    api: ObjectApi, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["status"]) == Exit.DONE
    said = capsys.readouterr().out
    assert said.startswith("flight-delay 2013-03-04: running for ")
    assert "\nair-time: failed " in said
    assert "  hidden    progress: could not read the log of pod m-1-pod" in said


def test_where_the_log_can_not_be_read_the_annotation_of_the_job_tells_how_far_it_is(
    api: ObjectApi, capsys: pytest.CaptureFixture[str]
) -> None:
    told = ToldProgress(at=1796066640.0, pod="m-1-pod", progress=Progress(step=80, total=200, checkpoint_step=60))
    job = api.objects[f"{JOBS}/m-1"]
    job["metadata"]["annotations"][ANNOTATION_PROGRESS] = to_text(told)
    api.put(f"{JOBS}/m-1", job)
    assert main(["status", "flight-delay"]) == Exit.DONE
    said = capsys.readouterr().out
    assert "  progress  40% step 80/200 checkpoint 60; " in said
    assert "  hidden    progress: could not read the log of pod m-1-pod" in said


def test_with_json_the_standard_output_is_one_document(api: ObjectApi, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "--json"]) == Exit.DONE
    document = json.loads(capsys.readouterr().out)
    assert document["version"] == 1
    assert [(each["job"], each["phase"]) for each in document["trainings"]] == [("m-1", "running"), ("n-1", "failed")]


@pytest.mark.parametrize(
    ("arguments", "jobs"),
    [
        (["flight-delay"], ["m-1"]),
        (["n-1"], ["n-1"]),
        (["--deployment", "another"], ["n-1"]),
        (["--deployment", "airflow", "air-time"], []),
        (["--namespace", "empty"], []),
    ],
)
def test_one_asks_for_a_model_a_job_an_airflow_or_a_namespace(
    api: ObjectApi, capsys: pytest.CaptureFixture[str], arguments: list[str], jobs: list[str]
) -> None:
    api.put("/api/v1/namespaces/empty", {"metadata": {"name": "empty"}})
    assert main(["status", "--json", *arguments]) == Exit.DONE
    assert [each["job"] for each in json.loads(capsys.readouterr().out)["trainings"]] == jobs


def test_where_nothing_is_to_be_shown_that_is_said(api: ObjectApi, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "nothing"]) == Exit.DONE
    assert capsys.readouterr().out == (
        "no training of model or Job nothing in namespace gpu-training; there are: air-time, flight-delay\n"
    )
    assert main(["status", "--deployment", "third"]) == Exit.DONE
    assert "no training of Airflow third in namespace gpu-training lives" in capsys.readouterr().out


def test_a_namespace_that_does_not_exist_is_refused_and_one_that_may_not_be_read_is_empty(
    api: ObjectApi, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["status", "--namespace", "gpu-trianing"]) == Exit.REFUSED
    assert "namespace=gpu-trianing: the cluster has none of this name" in capsys.readouterr().err
    api.objects.clear()
    api.refusals["GET", "/api/v1/namespaces/gpu-training"] = (403, "forbidden")
    assert main(["status"]) == Exit.DONE


@pytest.mark.parametrize("what", ["pods", "configmaps"])
def test_what_the_account_may_not_read_is_said_and_the_rest_is_shown(
    api: ObjectApi, capsys: pytest.CaptureFixture[str], what: str
) -> None:
    api.refusals["GET", f"gpu-training/{what}"] = (403, f'User "me" cannot list resource "{what}"')
    assert main(["status", "--json"]) == Exit.DONE
    document = json.loads(capsys.readouterr().out)
    assert [(f'cannot list resource "{what}"' in reason) for reason in document["hidden"]] == [True]
    phases = {each["job"]: each["phase"] for each in document["trainings"]}
    assert phases == {"m-1": "unknown" if what == "pods" else "running", "n-1": "failed"}


WAITING_POD = {
    "metadata": {
        "name": "w-1-pod",
        "creationTimestamp": CREATED,
        "labels": {**labels("waits"), "batch.kubernetes.io/controller-uid": "u3"},
        "ownerReferences": [{"uid": "u3", "controller": True}],
    },
    "spec": {"containers": [{"name": "training", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]},
    "status": {
        "phase": "Pending",
        "conditions": [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "message": "0/2 nodes are available: 2 Insufficient nvidia.com/gpu. preemption: 0/2 nodes "
                "are available: 2 No preemption victims found for incoming pod.",
                "lastTransitionTime": CREATED,
            }
        ],
    },
}


def test_what_waits_is_explained_by_the_schedulers_words_where_nothing_around_it_may_be_seen(
    api: ObjectApi, capsys: pytest.CaptureFixture[str]
) -> None:
    metadata = {"name": "w-1", "namespace": "gpu-training", "uid": "u3", "labels": labels("waits")}
    api.put(f"{JOBS}/w-1", {"metadata": metadata, "spec": {}, "status": {"active": 1}})
    api.put(f"{PODS}/w-1-pod", WAITING_POD)
    for what in ("/nodes", "/api/v1/pods", "/events", "/resourcequotas", "/limitranges", "/apis/kueue", "/kube-system"):
        api.refusals["GET", what] = (403, "forbidden")
    assert main(["status", "--json"]) == Exit.DONE
    waits = json.loads(capsys.readouterr().out)["trainings"][0]
    assert (waits["job"], waits["cause"], waits["nodes"][0]["count"]) == ("w-1", "gpus_taken", 2)
    assert {reason.partition(":")[0] for reason in waits["hidden"]} >= {"nodes", "events", "resource quotas"}


def test_a_cluster_that_refuses_is_one_line_and_exit_code_2(api: ObjectApi, capsys: pytest.CaptureFixture[str]) -> None:
    api.refusals["GET", "/jobs"] = (403, 'User "me" cannot list resource "jobs"')
    assert main(["status"]) == Exit.REFUSED
    complaint = capsys.readouterr().err
    assert 'HTTP 403: User "me" cannot list resource "jobs"; the Role of' in complaint
    assert complaint.count("\n") == 1


def test_whoever_has_read_enough_is_told_no_more(api: ObjectApi) -> None:
    """As `gpu-training status | head` does, whose pipe is closed before all is written."""
    command = [sys.executable, "-m", "gpu_training.cli", "status"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        complaint = process.stderr.read()
    assert process.returncode == Exit.DONE
    assert b"BrokenPipeError" not in complaint


def test_a_cluster_that_is_away_is_one_line_and_exit_code_2(api: ObjectApi, capsys: pytest.CaptureFixture[str]) -> None:
    api.stop()
    assert main(["status"]) == Exit.REFUSED
    complaint = capsys.readouterr().err
    assert "could not list" in complaint
    assert f"kubeconfig {api.address.config_file}" in complaint
    assert complaint.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--kubeconfig", "/nowhere"], "kubeconfig=/nowhere: there is no such file"),
        (["--kubeconfig", "/nowhere", "--conn-id", "x"], "conn-id and kubeconfig exclude each other"),
        (["--context", "other"], "Expected object with name other"),
        (["--conn-id", "nothing"], "conn_id `nothing` isn't defined"),
    ],
)
def test_options_that_lead_to_no_cluster_are_refused_in_one_line(
    api: ObjectApi, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(["status", *arguments]) == Exit.REFUSED
    complaint = capsys.readouterr().err
    assert message in complaint
    assert complaint.count("\n") == 1


@pytest.mark.parametrize("content", ["a: [", "[]", "clusters: 3", ""])
def test_a_file_that_is_no_kubeconfig_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str
) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(content)
    assert main(["status", "--kubeconfig", str(file)]) == Exit.REFUSED
    complaint = capsys.readouterr().err
    assert f"kubeconfig='{file}': gives no way to a cluster" in complaint
    assert complaint.count("\n") == 1
