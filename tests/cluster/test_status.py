"""`gpu-training status` on a real cluster: what runs, what waits for its GPU and why, and what is done."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from tests.cluster.trainings import SUCCEED, TaskInstance, defer, is_running, jobs_of, operator, pods_of, spec, train
from tests.fake_mlflow import FakeMlflow

from gpu_training.cli import main
from gpu_training.commands.exits import Exit
from gpu_training.contract import Progress
from gpu_training.core.naming import ANNOTATION_PROGRESS
from gpu_training.core.progress_document import ToldProgress, to_text
from sandbox.cluster import Sandbox
from sandbox.testing import wait_for

pytestmark = pytest.mark.cluster

DEADLINE_S = 60
PROGRESS = 'GPU_TRAINING_PROGRESS {"v":1,"step":80,"total":200}'
RUNS = f"trap 'exit 85' TERM; echo '{PROGRESS}'; sleep 600 & wait"


@dataclass
class Scene:
    """Three trainings of a namespace: `done`, `runs` and `waits`, for the GPU that `runs` has.

    :ivar jobs: name of each one's Job, by model.
    """

    sandbox: Sandbox
    namespace: str
    jobs: dict[str, str]
    capsys: pytest.CaptureFixture[str]

    def ask(self, *arguments: str, **options: str) -> tuple[int, str, str]:
        """Give exit code, standard output and standard error of the command, as the operator's account."""
        named = {"namespace": self.namespace, "kubeconfig": str(self.sandbox.operator_kubeconfig), **options}
        words = [word for name, value in named.items() if value for word in (f"--{name}", value)]
        self.capsys.readouterr()
        code = main(["status", *arguments, *words])
        said = self.capsys.readouterr()
        return code, said.out, said.err

    def document(self, *arguments: str) -> dict[str, Any]:
        """Give what the command says as JSON."""
        code, out, _ = self.ask("--json", *arguments)
        assert code == Exit.DONE
        return dict(json.loads(out))

    def training(self, model: str) -> dict[str, Any]:
        """Give the one training of a model."""
        (found,) = self.document(model)["trainings"]
        return dict(found)


def is_turned_away(sandbox: Sandbox, namespace: str, job: str) -> bool:
    """Whether the scheduler has looked at the pod of a Job and found no node for it."""
    return any(
        condition["type"] == "PodScheduled" and condition["status"] == "False"
        for pod in pods_of(sandbox, namespace)
        if pod["metadata"]["labels"]["job-name"] == job
        for condition in pod["status"].get("conditions", [])
    )


@pytest.fixture
def scene(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow, capsys: pytest.CaptureFixture[str]
) -> Iterator[Scene]:
    done = train(operator(spec(namespace, SUCCEED, model="done")), TaskInstance())
    jobs = {"done": done["job"]}
    for model, is_there in (
        ("runs", lambda: is_running(sandbox, namespace)),
        ("waits", lambda: is_turned_away(sandbox, namespace, jobs["waits"])),
    ):
        trigger = defer(operator(spec(namespace, RUNS, model=model)), TaskInstance(run_id=f"run of {model}"))
        jobs[model] = str(trigger.job["name"])
        wait_for(is_there, DEADLINE_S, f"the training that {model}")
    return Scene(sandbox, namespace, jobs, capsys)


def test_a_script_reads_what_each_training_does_the_one_that_waits_first(scene: Scene) -> None:
    document = scene.document()
    assert document["version"] == 1
    assert document["namespace"] == scene.namespace
    phases = [(training["model"], training["phase"], training["waits"]) for training in document["trainings"]]
    assert phases == [("waits", "queued", True), ("runs", "running", False), ("done", "succeeded", False)]
    assert {training["model"]: training["job"] for training in document["trainings"]} == scene.jobs
    assert {training["data_version"] for training in document["trainings"]} == {"2013-w01"}


def test_a_training_that_waits_tells_why_and_who_holds_its_gpu(scene: Scene) -> None:
    waits = scene.training("waits")
    assert (waits["cause"], waits["cure"], waits["curable"]) == ("gpus_taken", "waiting", True)
    assert waits["remedy"]
    assert waits["holders"][0]["node"] == "gpu-1"
    assert "runs" in waits["holders"][0]["who"]
    assert sum(node["count"] for node in waits["nodes"]) >= 1
    (queue,) = [clock for clock in waits["clocks"] if clock["clock"] == "queue"]
    assert 0 <= queue["elapsed_seconds"] < DEADLINE_S
    assert queue["limit_seconds"] == 24 * 3600
    assert [waiter["run_id"] for waiter in waits["waiters"]] == ["run of waits"]
    assert waits["gpu_seconds"] == 0


def test_a_training_that_runs_tells_how_far_it_is_and_what_it_has_used(scene: Scene) -> None:
    wait_for(lambda: scene.training("runs")["progress"], DEADLINE_S, "the first progress")
    runs = scene.training("runs")
    assert (runs["progress"]["step"], runs["progress"]["total"]) == (80, 200)
    assert runs["cause"] is None
    (attempt,) = runs["attempts"]
    assert (attempt["node"], attempt["ended_at"], attempt["verdict"]) == ("gpu-1", None, None)
    assert runs["gpu_seconds"] == attempt["gpu_seconds"]


def test_a_training_that_waits_between_attempts_tells_how_far_it_was(scene: Scene) -> None:
    told = ToldProgress(
        at=time.time() - 60, pod="gone", progress=Progress(step=120, total=200, throughput=2.0, checkpoint_step=100)
    )
    path = f"/apis/batch/v1/namespaces/{scene.namespace}/jobs/{scene.jobs['waits']}"
    patch = {"metadata": {"annotations": {ANNOTATION_PROGRESS: to_text(told)}}}
    scene.sandbox.api.request("PATCH", path, patch, content_type="application/merge-patch+json")
    progress = scene.training("waits")["progress"]
    assert (progress["step"], progress["percent"], progress["checkpoint_step"]) == (120, 60, 100)
    assert (progress["seconds_left"], progress["pod"]) == (None, "gone")
    assert "  progress  was at 60% step 120/200 checkpoint 100; 1 min " in scene.ask("waits")[1]


def test_a_training_that_is_done_tells_what_it_took(scene: Scene) -> None:
    done = scene.training("done")
    assert (done["ended"], done["waiters"], done["clocks"], done["verdict"]) == (True, [], [], None)
    (attempt,) = done["attempts"]
    assert attempt["ended_at"] is not None
    assert done["gpu_seconds"] == attempt["gpu_seconds"]


def test_a_training_whose_job_is_gone_is_told_of_by_its_ledger(scene: Scene) -> None:
    path = f"/apis/batch/v1/namespaces/{scene.namespace}/jobs/{scene.jobs['done']}"
    before = scene.training("done")
    scene.sandbox.api.request("DELETE", path, {"propagationPolicy": "Background"})
    wait_for(
        lambda: scene.jobs["done"] not in [job["metadata"]["name"] for job in jobs_of(scene.sandbox, scene.namespace)],
        DEADLINE_S,
        "the end of the Job",
    )
    after = scene.training("done")
    same = ("phase", "job", "attempts", "gpu_seconds", "ended")
    assert {name: after[name] for name in same} == {name: before[name] for name in same}


def test_a_person_reads_a_block_a_training_and_what_the_account_may_not_see(scene: Scene) -> None:
    code, out, err = scene.ask()
    assert (code, err) == (Exit.DONE, "")
    heads = [line.partition(":")[0] for line in out.splitlines() if line and not line.startswith((" ", "hidden"))]
    assert heads == ["waits 2013-w01", "runs 2013-w01", "done 2013-w01"]
    assert "  why       gpus_taken: " in out
    assert " of 24 h, total " in out
    assert "  waited by train_on_demand__shell, run run of waits, task train, try 1" in out
    assert "hidden    pods of other namespaces: the account may not list them" in out


def test_any_way_to_the_cluster_will_do_that_lets_something_be_seen(scene: Scene) -> None:
    code, out, _ = scene.ask("--json", "--conn-id", "kubernetes_gpu", kubeconfig="")
    assert code == Exit.DONE
    assert len(json.loads(out)["trainings"]) == 3
    code, out, err = scene.ask(namespace="kube-system")
    assert (code, out) == (Exit.REFUSED, "")
    assert "HTTP 403" in err
    assert err.count("\n") == 1
