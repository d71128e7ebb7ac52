"""Each fault has the effect it names, and its end ends it; `make sandbox-selftest` runs this."""

from __future__ import annotations

import http.client
import json
import os
import socket
import ssl
import subprocess
import sys
import time
from base64 import b64decode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.cluster.pod_documents import gpu_pod, job_of

from sandbox.api import ApiError, Document
from sandbox.cluster import Sandbox
from sandbox.control_plane import HOST
from sandbox.errors import SandboxError
from sandbox.faults import access, nodes, pods, programs
from sandbox.lifecycle import SHORT
from sandbox.nodes import NodeRequest
from sandbox.waiting import wait_for

pytestmark = pytest.mark.cluster

DEADLINE_S = 60.0
INCLUDE = str(Path(sys.modules["sandbox"].__path__[0]).parent)
VICTIM = "gpu-2"
ALIVE = "while :; do date +%s%N > {beat}; sleep 0.1; done"


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """Give a cluster of two nodes that notices a lost one in seconds."""
    requests = (NodeRequest(), NodeRequest(name=VICTIM))
    sandbox = Sandbox.up(tmp_path_factory.mktemp("faults"), nodes=requests, lifecycle=SHORT, owner_pid=os.getpid())
    yield sandbox
    sandbox.down()


@pytest.fixture(autouse=True)
def _settled(sandbox: Sandbox) -> Iterator[None]:
    """Begin on nodes that are well, and leave every program running.

    While etcd was away no node could tell that it is well; a controller manager that is stopped before it has heard of
    them again leaves their taints where they are, and no pod gets a node.
    """
    wait_for(lambda: all(is_well(sandbox, name) for name in ("gpu-1", VICTIM)), DEADLINE_S, "nodes that are well")
    yield
    for program in programs.PROGRAMS:
        if not sandbox.supervisor.status()[program].alive:
            programs.start_program(sandbox, program)


def is_well(sandbox: Sandbox, name: str) -> bool:
    """Tell whether a node is there, ready, and without a taint of the node controller."""
    node = read(sandbox, f"/api/v1/nodes/{name}")
    if node is None or conditions(node).get("Ready", {}).get("status") != "True":
        return False
    return not any(taint["key"].startswith("node.kubernetes.io/") for taint in node["spec"].get("taints", []))


def start(
    sandbox: Sandbox,
    namespace: str,
    script: str,
    *,
    kind: str = "pods",
    name: str = "training",
    gpus: int = 1,
    restart_policy: str = "Never",
) -> str:
    """Have a script run on the victim, as a pod or a Job; give the path of the object."""
    spec = gpu_pod(
        script,
        gpus=gpus,
        restartPolicy=restart_policy,
        terminationGracePeriodSeconds=5,
        nodeSelector={"kubernetes.io/hostname": VICTIM},
    )
    group = "/apis/batch/v1" if kind == "jobs" else "/api/v1"
    path = f"{group}/namespaces/{namespace}/{kind}"
    body = job_of(spec) if kind == "jobs" else spec
    sandbox.api.request("POST", path, {"metadata": {"name": name}, "spec": body})
    return f"{path}/{name}"


def read(sandbox: Sandbox, path: str) -> Document | None:
    try:
        found: Document = sandbox.api.request("GET", path)
    except ApiError as error:
        if error.status == http.client.NOT_FOUND:
            return None
        raise
    return found


def phase_is(sandbox: Sandbox, path: str, phase: str) -> Callable[[], bool]:
    return lambda: (read(sandbox, path) or {"status": {}})["status"].get("phase") == phase


def await_running(sandbox: Sandbox, path: str) -> None:
    wait_for(phase_is(sandbox, path, "Running"), DEADLINE_S, f"{path} to run")


def await_gone(sandbox: Sandbox, path: str) -> None:
    wait_for(lambda: read(sandbox, path) is None, DEADLINE_S, f"{path} to be gone")


def conditions(document: Document | None) -> dict[str, dict[str, Any]]:
    return {each["type"]: each for each in (document or {}).get("status", {}).get("conditions", [])}


def await_pending(sandbox: Sandbox, path: str, why: str) -> None:
    def said() -> bool:
        return why in conditions(read(sandbox, path)).get("PodScheduled", {}).get("message", "")

    wait_for(said, DEADLINE_S, f"{path} to be pending for {why}")


def pods_of(sandbox: Sandbox, namespace: str) -> list[Document]:
    pods: list[Document] = sandbox.api.request("GET", f"/api/v1/namespaces/{namespace}/pods")["items"]
    return pods


def beats(beat: Path) -> bool:
    """Tell whether a container goes on: its heart beats ten times a second."""
    before = beat.read_text()
    try:
        wait_for(lambda: beat.read_text() not in ("", before), 2, "a beat")
    except SandboxError:
        return False
    return True


def await_lost(sandbox: Sandbox, name: str) -> None:
    def is_unknown() -> bool:
        return conditions(read(sandbox, f"/api/v1/nodes/{name}"))["Ready"]["status"] == "Unknown"

    wait_for(is_unknown, DEADLINE_S, f"node {name} to be missed")


@pytest.mark.fault("lose-node", "return-node")
@pytest.mark.parametrize("power", [False, True], ids=["cut off", "machine off"])
def test_a_lost_node_is_missed_and_its_pods_are_given_up(
    sandbox: Sandbox, namespace: str, tmp_path: Path, power: bool
) -> None:
    beat = tmp_path / "beat"
    pod = start(sandbox, namespace, ALIVE.format(beat=beat))
    await_running(sandbox, pod)
    wait_for(beat.exists, DEADLINE_S, "a first beat")
    started = time.monotonic()
    nodes.lose_node(sandbox, VICTIM, power=power)
    await_lost(sandbox, VICTIM)
    wait_for(
        lambda: "deletionTimestamp" in (read(sandbox, pod) or {"metadata": {}})["metadata"], DEADLINE_S, "its deletion"
    )
    assert time.monotonic() - started < 45
    assert conditions(read(sandbox, pod))["DisruptionTarget"]["reason"] == "DeletionByTaintManager"
    assert beats(beat) is not power
    nodes.return_node(sandbox, VICTIM)
    await_gone(sandbox, pod)
    assert not beats(beat)


@pytest.mark.fault("reclaim-node")
def test_a_reclaimed_node_gives_notice_and_is_gone_when_it_is_over(
    sandbox: Sandbox, namespace: str, tmp_path: Path
) -> None:
    noticed = tmp_path / "noticed"
    pod = start(sandbox, namespace, f"trap 'date > {noticed}; exit 0' TERM; sleep 600 & wait")
    await_running(sandbox, pod)
    nodes.reclaim_node(sandbox, VICTIM, notice_s=3)
    assert noticed.exists()
    assert read(sandbox, f"/api/v1/nodes/{VICTIM}") is None
    assert VICTIM not in [line.name for line in sandbox.status().nodes]
    sandbox.add_node(NodeRequest(name=VICTIM))
    await_gone(sandbox, pod)


@pytest.mark.fault("delete-node")
def test_a_deleted_node_stays_away_until_it_is_made_anew(sandbox: Sandbox) -> None:
    nodes.delete_node(sandbox, VICTIM)
    time_to_come_back = time.monotonic() + 2 * SHORT.status_s
    wait_for(lambda: time.monotonic() > time_to_come_back, DEADLINE_S, "two looks of its agent at its Node")
    assert read(sandbox, f"/api/v1/nodes/{VICTIM}") is None
    sandbox.remove_node(VICTIM)
    sandbox.add_node(NodeRequest(name=VICTIM))


@pytest.mark.fault("cordon", "uncordon")
def test_a_cordoned_node_gets_no_pod_until_it_is_uncordoned(sandbox: Sandbox, namespace: str) -> None:
    nodes.cordon_node(sandbox, VICTIM)
    pod = start(sandbox, namespace, "exit 0")
    await_pending(sandbox, pod, "unschedulable")
    nodes.uncordon_node(sandbox, VICTIM)
    wait_for(phase_is(sandbox, pod, "Succeeded"), DEADLINE_S, "the pod's end")


@pytest.mark.fault("drop-gpus", "restore-gpus")
def test_a_node_without_gpus_gets_no_pod_until_they_are_back(sandbox: Sandbox, namespace: str) -> None:
    nodes.drop_gpus(sandbox, VICTIM)
    node = read(sandbox, f"/api/v1/nodes/{VICTIM}")
    assert node is not None
    assert node["status"]["capacity"]["nvidia.com/gpu"] == "1"
    pod = start(sandbox, namespace, "exit 0")
    await_pending(sandbox, pod, "Insufficient nvidia.com/gpu")
    nodes.restore_gpus(sandbox, VICTIM)
    wait_for(phase_is(sandbox, pod, "Succeeded"), DEADLINE_S, "the pod's end")


@pytest.mark.fault("press", "relieve")
def test_a_node_under_pressure_is_tainted_until_it_is_relieved(sandbox: Sandbox, namespace: str) -> None:
    def taints() -> set[str]:
        node = read(sandbox, f"/api/v1/nodes/{VICTIM}") or {}
        return {taint["key"] for taint in node["spec"].get("taints", [])}

    nodes.press_node(sandbox, VICTIM, "MemoryPressure", "DiskPressure")
    pressure = {"node.kubernetes.io/memory-pressure", "node.kubernetes.io/disk-pressure"}
    wait_for(lambda: pressure <= taints(), DEADLINE_S, "the taints")
    pod = start(sandbox, namespace, "exit 0")
    await_pending(sandbox, pod, "untolerated taint")
    nodes.relieve_node(sandbox, VICTIM)
    wait_for(phase_is(sandbox, pod, "Succeeded"), DEADLINE_S, "the pod's end")
    with pytest.raises(SandboxError, match="condition 'Boredom' is no pressure; known are MemoryPressure"):
        nodes.press_node(sandbox, VICTIM, "Boredom")


def container_status(sandbox: Sandbox, pod: str) -> dict[str, Any]:
    statuses = (read(sandbox, pod) or {"status": {}})["status"].get("containerStatuses") or [{"state": {}}]
    status: dict[str, Any] = statuses[0]
    return status


def container_state(sandbox: Sandbox, pod: str) -> dict[str, Any]:
    state: dict[str, Any] = container_status(sandbox, pod)["state"]
    return state


@pytest.mark.fault("refuse-image", "admit-image")
def test_a_refused_image_is_not_pulled_until_it_is_admitted(sandbox: Sandbox, namespace: str) -> None:
    pods.refuse_image(
        sandbox, VICTIM, "sandbox-shell", message="toomanyrequests: you have reached your pull rate limit"
    )
    pod = start(sandbox, namespace, "exit 0")

    def waits() -> dict[str, str]:
        waiting: dict[str, str] = container_state(sandbox, pod).get("waiting", {})
        return waiting if waiting.get("reason") == "ImagePullBackOff" else {}

    assert "pull rate limit" in wait_for(waits, DEADLINE_S, "ImagePullBackOff")["message"]
    pods.admit_image(sandbox, VICTIM, "sandbox-shell")
    wait_for(phase_is(sandbox, pod, "Succeeded"), DEADLINE_S, "the pod's end")


@pytest.mark.fault("slow-image")
def test_a_slow_image_delays_its_container(sandbox: Sandbox, namespace: str) -> None:
    pods.slow_image(sandbox, VICTIM, "sandbox-shell", delay_s=2)
    started = time.monotonic()
    pod = start(sandbox, namespace, "exit 0")
    wait_for(phase_is(sandbox, pod, "Succeeded"), DEADLINE_S, "the pod's end")
    assert time.monotonic() - started >= 2
    events = sandbox.api.request("GET", f"/api/v1/namespaces/{namespace}/events")["items"]
    assert "Pulling" in [each["reason"] for each in events]
    pods.admit_image(sandbox, VICTIM, "sandbox-shell")


@pytest.mark.fault("fail-container")
@pytest.mark.parametrize(
    ("end", "told"),
    [
        ({"exit_code": 42}, (42, "Error", "half way")),
        ({"signum": 11}, (139, "Error", "half way")),
        ({"reason": "OOMKilled"}, (137, "OOMKilled", "half way")),
        ({"exit_code": 3, "message": "no data"}, (3, "Error", "no data")),
    ],
    ids=["exit code", "signal", "out of memory", "message"],
)
def test_a_container_fails_as_ordered(
    sandbox: Sandbox, namespace: str, tmp_path: Path, end: dict[str, Any], told: tuple[int, str, str]
) -> None:
    ready = tmp_path / "ready"
    pod = start(sandbox, namespace, f"echo -n half way > /dev/termination-log; touch {ready}; sleep 600")
    wait_for(ready.exists, DEADLINE_S, "the container to be half way")
    await_running(sandbox, pod)
    pods.fail_container(sandbox, namespace, "training", **end)
    wait_for(phase_is(sandbox, pod, "Failed"), DEADLINE_S, "the pod's end")
    ended = container_state(sandbox, pod)["terminated"]
    assert (ended["exitCode"], ended["reason"], ended["message"]) == told
    with pytest.raises(SandboxError, match=f"pod {namespace}/training does not run on this node"):
        pods.fail_container(sandbox, namespace, "training")


@pytest.mark.parametrize(
    ("end", "message"),
    [
        ({"exit_code": 0}, "exit_code is 0: give one from 1 to 255"),
        ({"signum": 99}, "signum is 99: give one from 1 to 64"),
        ({"exit_code": 1, "signum": 9}, "exit_code and signum are both given"),
    ],
)
def test_an_end_that_can_not_be_is_refused(sandbox: Sandbox, end: dict[str, int], message: str) -> None:
    with pytest.raises(SandboxError, match=message):
        pods.fail_container(sandbox, "any", "pod", **end)  # type: ignore[arg-type]


@pytest.mark.fault("fail-pod")
def test_a_node_evicts_a_pod(sandbox: Sandbox, namespace: str) -> None:
    job = start(sandbox, namespace, "trap 'exit 7' TERM; sleep 600 & wait", kind="jobs")
    (found,) = wait_for(lambda: pods_of(sandbox, namespace), DEADLINE_S, "the Job's pod")
    path = f"/api/v1/namespaces/{namespace}/pods/{found['metadata']['name']}"
    await_running(sandbox, path)
    pods.fail_pod(sandbox, namespace, found["metadata"]["name"])
    wait_for(lambda: "Failed" in conditions(read(sandbox, job)), DEADLINE_S, "the Job's end")
    pod = read(sandbox, path)
    assert pod is not None
    assert (pod["status"]["phase"], pod["status"]["reason"]) == ("Failed", "Evicted")
    assert conditions(pod)["DisruptionTarget"]["reason"] == "TerminationByKubelet"
    assert container_state(sandbox, path)["terminated"]["exitCode"] == 7


@pytest.mark.parametrize(
    ("order", "message"),
    [
        (lambda each: nodes.lose_node(each, "gpu-9"), "no node is named 'gpu-9'; known are gpu-1, gpu-2"),
        (lambda each: nodes.press_node(each, "gpu-9"), "no node is named 'gpu-9'; known are gpu-1, gpu-2"),
        (lambda each: nodes.cordon_node(each, "gpu-9"), "no node is named 'gpu-9'; known are gpu-1, gpu-2"),
        (lambda each: nodes.delete_node(each, "gpu-9"), "no node is named 'gpu-9'; known are gpu-1, gpu-2"),
        (lambda each: programs.restart_program(each, "kubelet"), "no program is named 'kubelet'; known are etcd, kube"),
        (lambda each: pods.fail_pod(each, "nowhere", "any"), "no namespace is named 'nowhere'; known are default, gpu"),
        (
            lambda each: pods.fail_pod(each, "gpu-training", "any"),
            "no pod of namespace gpu-training is named 'any'; known",
        ),
        (lambda each: access.fill_quota(each, "nowhere"), "no namespace is named 'nowhere'"),
        (lambda each: access.fill_quota(each, "gpu-training", gpus=-1), "gpus is -1: give a whole number from 0 up"),
        (lambda each: access.free_quota(each, "gpu-training"), "namespace gpu-training has no quota of fill-quota"),
    ],
)
def test_a_name_that_nothing_has_is_told_with_those_that_are_known(
    sandbox: Sandbox, order: Callable[[Sandbox], None], message: str
) -> None:
    with pytest.raises(SandboxError, match=message):
        order(sandbox)


@pytest.mark.fault("restart-node")
def test_a_node_whose_agent_is_killed_and_restarted_keeps_its_pods(
    sandbox: Sandbox, namespace: str, tmp_path: Path
) -> None:
    beat = tmp_path / "beat"
    pod = start(sandbox, namespace, f"trap 'exit 0' USR1; echo $$ > {beat}.pid; {ALIVE.format(beat=beat)}")
    await_running(sandbox, pod)
    wait_for(beat.exists, DEADLINE_S, "a first beat")
    agent = sandbox.supervisor.status()[sandbox.site.process_name(VICTIM)].pid
    nodes.restart_node(sandbox, VICTIM)
    assert sandbox.supervisor.status()[sandbox.site.process_name(VICTIM)].pid != agent
    assert beats(beat)
    pods.fail_container(sandbox, namespace, "training", exit_code=9)
    wait_for(phase_is(sandbox, pod, "Failed"), DEADLINE_S, "the pod's end, seen by the new agent")
    assert (container_state(sandbox, pod)["terminated"]["exitCode"], beats(beat)) == (9, False)


@pytest.mark.fault("restart-node")
def test_a_node_whose_machine_restarts_restarts_or_fails_its_pods_as_they_say(
    sandbox: Sandbox, namespace: str, tmp_path: Path
) -> None:
    runs = tmp_path / "runs"
    lasting = f"echo run >> {runs}; sleep 600"
    ended = start(sandbox, namespace, lasting, gpus=0)
    restarted = start(sandbox, namespace, lasting, gpus=0, name="lasting", restart_policy="OnFailure")
    await_running(sandbox, ended)
    await_running(sandbox, restarted)
    wait_for(lambda: runs.exists() and runs.read_text().count("run") == 2, DEADLINE_S, "both to run")
    nodes.restart_node(sandbox, VICTIM, machine=True)
    wait_for(phase_is(sandbox, ended, "Failed"), DEADLINE_S, "the end of a pod that is not to be restarted")
    wait_for(lambda: runs.read_text().count("run") == 3, DEADLINE_S, "the second run of the other")
    wait_for(lambda: container_status(sandbox, restarted).get("restartCount") == 1, DEADLINE_S, "its count of restarts")


@pytest.mark.fault("stop", "start", "restart")
def test_a_stopped_api_server_refuses_connections_and_forgets_nothing(sandbox: Sandbox, namespace: str) -> None:
    programs.stop_program(sandbox, "kube-apiserver")
    with pytest.raises(ApiError, match="Connection refused"):
        sandbox.api.request("GET", "/version")
    with socket.create_server((HOST, urlsplit(sandbox.api_url).port or 0)):
        started = time.monotonic()
        with pytest.raises(SandboxError, match=r"kube-apiserver ended with exit code 1, (.|\n)*address already in use"):
            programs.start_program(sandbox, "kube-apiserver")
        assert time.monotonic() - started < programs.READY_DEADLINE_S / 2
    programs.start_program(sandbox, "kube-apiserver")
    assert sandbox.api.exists(f"/api/v1/namespaces/{namespace}")
    before = sandbox.supervisor.status()["kube-apiserver"].pid
    programs.restart_program(sandbox, "kube-apiserver", kill=True)
    assert sandbox.supervisor.status()["kube-apiserver"].pid != before
    assert sandbox.api.exists(f"/api/v1/namespaces/{namespace}")


@pytest.mark.fault("pause", "resume")
def test_a_paused_api_server_takes_connections_and_does_not_answer(sandbox: Sandbox) -> None:
    programs.pause_program(sandbox, "kube-apiserver")
    with pytest.raises(ApiError, match="timed out"):
        sandbox.api.request("GET", "/version", timeout_s=1)
    programs.resume_program(sandbox, "kube-apiserver")
    assert sandbox.api.request("GET", "/version")["major"] == "1"


@pytest.mark.fault("restart")
@pytest.mark.parametrize(
    ("program", "kill"),
    [("etcd", True), ("kube-controller-manager", False), ("kube-scheduler", False)],
)
def test_a_restarted_program_is_another_process_and_the_cluster_works_on(
    sandbox: Sandbox, namespace: str, program: str, kill: bool
) -> None:
    before = sandbox.supervisor.status()[program].pid
    programs.restart_program(sandbox, program, kill=kill)
    assert sandbox.supervisor.status()[program].pid != before
    job = start(sandbox, namespace, "exit 0", kind="jobs")
    wait_for(lambda: "Complete" in conditions(read(sandbox, job)), DEADLINE_S, "a Job's end after it")


@pytest.mark.fault("stop", "start")
def test_without_etcd_the_api_server_is_not_ready(sandbox: Sandbox) -> None:
    programs.stop_program(sandbox, "etcd")
    wait_for(lambda: not sandbox.api.is_ready(), DEADLINE_S, "the API server to miss etcd")
    programs.start_program(sandbox, "etcd")
    assert sandbox.api.exists("/api/v1/nodes/gpu-1")


@pytest.mark.fault("stop", "start")
def test_without_a_controller_manager_a_job_has_no_pod(sandbox: Sandbox, namespace: str) -> None:
    programs.stop_program(sandbox, "kube-controller-manager")
    start(sandbox, namespace, "exit 0", kind="jobs")
    pod = start(sandbox, namespace, "exit 0")
    wait_for(phase_is(sandbox, pod, "Succeeded"), DEADLINE_S, "the end of a pod that needs no controller")
    assert len(pods_of(sandbox, namespace)) == 1
    programs.start_program(sandbox, "kube-controller-manager")
    wait_for(lambda: len(pods_of(sandbox, namespace)) == 2, DEADLINE_S, "the Job's pod")


@pytest.mark.fault("pause", "resume")
def test_without_a_scheduler_a_pod_has_no_node(sandbox: Sandbox, namespace: str) -> None:
    programs.pause_program(sandbox, "kube-scheduler")
    job = start(sandbox, namespace, "exit 0", kind="jobs")
    (pod,) = wait_for(lambda: pods_of(sandbox, namespace), DEADLINE_S, "the Job's pod")
    assert "nodeName" not in pod["spec"]
    programs.resume_program(sandbox, "kube-scheduler")
    wait_for(lambda: "Complete" in conditions(read(sandbox, job)), DEADLINE_S, "the Job's end")


@pytest.mark.fault("fill-quota", "free-quota")
def test_a_filled_quota_keeps_pods_away_until_it_is_freed(sandbox: Sandbox, namespace: str) -> None:
    access.fill_quota(sandbox, namespace)
    job = start(sandbox, namespace, "exit 0", kind="jobs")

    def complaints() -> list[str]:
        events = sandbox.api.request("GET", f"/api/v1/namespaces/{namespace}/events")["items"]
        return [each["message"] for each in events if each["reason"] == "FailedCreate"]

    assert "exceeded quota" in wait_for(complaints, DEADLINE_S, "a word about the quota")[0]
    assert pods_of(sandbox, namespace) == []
    access.free_quota(sandbox, namespace)
    wait_for(lambda: "Complete" in conditions(read(sandbox, job)), DEADLINE_S, "the Job's end")


@pytest.mark.fault("rotate-token")
def test_a_rotated_token_ends_the_one_before(sandbox: Sandbox) -> None:
    before, trust, host = credentials(sandbox)
    assert status_with(before, trust, host) == http.client.OK
    access.rotate_token(sandbox)
    after, _, _ = credentials(sandbox)
    assert status_with(after, trust, host) == http.client.OK
    wait_for(lambda: status_with(before, trust, host) == http.client.UNAUTHORIZED, DEADLINE_S, "the old token's end")


def credentials(sandbox: Sandbox) -> tuple[str, ssl.SSLContext, str]:
    config = json.loads(sandbox.operator_kubeconfig.read_text())
    authority = b64decode(config["clusters"][0]["cluster"]["certificate-authority-data"]).decode()
    token: str = config["users"][0]["user"]["token"]
    return token, ssl.create_default_context(cadata=authority), urlsplit(sandbox.api_url).netloc


def status_with(token: str, trust: ssl.SSLContext, host: str) -> int:
    connection = http.client.HTTPSConnection(host, context=trust, timeout=10)
    path = "/apis/batch/v1/namespaces/gpu-training/jobs"
    connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
    return connection.getresponse().status


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": INCLUDE}
    return subprocess.run(
        [sys.executable, "-m", "sandbox", "fault", *arguments],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )


def test_faults_are_commands_too(sandbox: Sandbox, tmp_path: Path) -> None:
    state = ("--state", str(sandbox.folder))
    assert command("cordon", VICTIM, *state).returncode == 0
    node = read(sandbox, f"/api/v1/nodes/{VICTIM}")
    assert node is not None
    assert node["spec"]["unschedulable"] is True
    assert command("uncordon", VICTIM, *state).returncode == 0
    told = command("lose-node", "gpu-9", "--power", *state)
    assert (told.returncode, told.stderr) == (
        1,
        "no node is named 'gpu-9'; known are gpu-1, gpu-2\n",
    )
    script = tmp_path / "script.json"
    script.write_text('{"rules": [{"action": "explode"}]}')
    assert "action is 'explode'" in command("proxy", "--script", str(script), *state).stderr
    told = command("cordon", VICTIM, "--state", str(tmp_path / "none"))
    assert (told.returncode, "no sandbox runs in" in told.stderr) == (1, True)
