"""Nodes of kind `process` behave as a kubelet does, as far as anyone can see through the API server."""

from __future__ import annotations

import base64
import contextlib
import http.client
import itertools
import json
import secrets
import signal
import ssl
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from sandbox.agent.images import ImageStore
from sandbox.api import ApiError
from sandbox.cluster import Sandbox
from sandbox.control_plane import Credentials
from sandbox.nodes import KINDS, NodeRequest, Site
from sandbox.waiting import wait_for

pytestmark = pytest.mark.cluster

Document = dict[str, Any]
DEADLINE_S = 30.0

_numbers = itertools.count(1)


class Pods:
    """Pods of one namespace on node `gpu-1`."""

    def __init__(self, sandbox: Sandbox, namespace: str) -> None:
        self.sandbox = sandbox
        self.namespace = namespace
        self._base = f"/api/v1/namespaces/{namespace}"

    def create(self, script: str = "true", *, container: Document | None = None, **spec: Any) -> str:
        """Create a pod that runs a shell script; return its name."""
        name = f"p{next(_numbers)}"
        main = {"name": "main", "image": "sandbox-shell", "command": ["/bin/sh", "-c", script], **(container or {})}
        body = {
            "restartPolicy": "Never",
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
            "terminationGracePeriodSeconds": 5,
            "containers": [main],
            **spec,
        }
        metadata = {"name": name, **body.pop("metadata", {})}
        self.sandbox.api.request("POST", f"{self._base}/pods", {"metadata": metadata, "spec": body})
        return name

    def put(self, kind: str, name: str, **content: Any) -> None:
        self.sandbox.api.request("POST", f"{self._base}/{kind}", {"metadata": {"name": name}, **content})

    def get(self, name: str) -> Document:
        pod: Document = self.sandbox.api.request("GET", f"{self._base}/pods/{name}")
        return pod

    def delete(self, name: str, **options: Any) -> None:
        self.sandbox.api.request("DELETE", f"{self._base}/pods/{name}", options)

    def exists(self, name: str) -> bool:
        return self.sandbox.api.exists(f"{self._base}/pods/{name}")

    def wait(self, name: str, condition: Callable[[Document], object], deadline_s: float = DEADLINE_S) -> Document:
        """Return the pod once the condition holds for it."""

        def asked() -> Document | None:
            pod = self.get(name)
            return pod if condition(pod) else None

        return wait_for(asked, deadline_s, f"pod {name}") or {}

    def ended(self, name: str, deadline_s: float = DEADLINE_S) -> Document:
        return self.wait(name, lambda pod: pod["status"]["phase"] in ("Succeeded", "Failed"), deadline_s)

    def running(self, name: str) -> Document:
        return self.wait(name, lambda pod: "running" in state_of(pod))

    def waiting(self, name: str, reason: str) -> str:
        """Return the message of a container that waits for this reason."""
        pod = self.wait(name, lambda pod: state_of(pod).get("waiting", {}).get("reason") == reason)
        return str(state_of(pod)["waiting"].get("message", ""))

    def log(self, name: str, **query: str) -> str:
        return str(self.sandbox.api.request("GET", f"{self._base}/pods/{name}/log", query=query))

    def events(self, name: str) -> list[tuple[str, str]]:
        items = self.sandbox.api.request("GET", f"{self._base}/events")["items"]
        own = [one for one in items if one["involvedObject"]["name"] == name]
        return [(one["reason"], one["message"]) for one in own if one["source"].get("component") == "kubelet"]

    def wait_for_event(self, name: str, reason: str, words: str) -> None:
        wait_for(
            lambda: any(r == reason and words in m for r, m in self.events(name)),
            DEADLINE_S,
            f"event {reason} of {name}",
        )


def state_of(pod: Document, container: str = "main") -> Document:
    statuses = [*pod["status"].get("initContainerStatuses", ()), *pod["status"].get("containerStatuses", ())]
    return next((one["state"] for one in statuses if one["name"] == container), {})


def end_of(pod: Document, container: str = "main") -> Document:
    end: Document = state_of(pod, container)["terminated"]
    return end


def conditions_of(pod: Document) -> dict[str, str]:
    return {one["type"]: one["status"] for one in pod["status"].get("conditions", ())}


@pytest.fixture(scope="module")
def pods(sandbox: Sandbox) -> Iterator[Pods]:
    name = f"agent-{secrets.token_hex(3)}"
    sandbox.api.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
    wait_for(lambda: sandbox.api.exists(account), DEADLINE_S, "the default service account")
    yield Pods(sandbox, name)
    sandbox.api.request("DELETE", f"/api/v1/namespaces/{name}")
    wait_for(lambda: not sandbox.api.exists(f"/api/v1/namespaces/{name}"), 90, f"the end of namespace {name}")


def test_node_counts_its_gpus_carries_label_and_taint_and_renews_its_lease(sandbox: Sandbox) -> None:
    node = sandbox.api.request("GET", "/api/v1/nodes/gpu-1")
    assert node["status"]["allocatable"]["nvidia.com/gpu"] == "1"
    assert node["metadata"]["labels"]["workload"] == "gpu-training"
    assert {"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"} in node["spec"]["taints"]
    lease = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/gpu-1"
    first = sandbox.api.request("GET", lease)["spec"]["renewTime"]
    wait_for(lambda: sandbox.api.request("GET", lease)["spec"]["renewTime"] != first, 15, "a renewed lease")


def test_success_is_told_with_times_image_and_the_container_s_message(pods: Pods) -> None:
    pod = pods.ended(pods.create("echo hello; printf result > /dev/termination-log"))
    end, status = end_of(pod), pod["status"]["containerStatuses"][0]
    assert pod["status"]["phase"] == "Succeeded"
    assert (end["exitCode"], end["reason"], end["message"]) == (0, "Completed", "result")
    assert end["startedAt"] <= end["finishedAt"]
    assert status["imageID"] == ImageStore().image("sandbox-shell").identity
    assert conditions_of(pod)["Initialized"] == "True"
    assert conditions_of(pod)["Ready"] == "False"
    assert pods.log(pod["metadata"]["name"]) == "hello\n"
    told = [reason for reason, _ in pods.events(pod["metadata"]["name"])]
    assert told == ["Pulled", "Created", "Started"]


@pytest.mark.parametrize(
    ("script", "code", "reason"),
    [
        ("exit 3", 3, "Error"),
        ("sh -c 'kill -s SEGV $$$$'; exit $?", 139, "Error"),
        ("exec python3 -c 'import ctypes; ctypes.string_at(0)'", 139, "Error"),
        ("sleep 100 & exit 42", 42, "Error"),
    ],
)
def test_exit_codes_are_the_program_s_own(pods: Pods, script: str, code: int, reason: str) -> None:
    end = end_of(pods.ended(pods.create(script)))
    assert (end["exitCode"], end["reason"]) == (code, reason)


def test_what_a_container_leaves_running_ends_with_it(pods: Pods) -> None:
    mark = secrets.token_hex(8)
    end = end_of(pods.ended(pods.create(f"setsid sh -c 'sleep 300; echo {mark}' & setsid sleep 301 & exit 0")))
    assert end["exitCode"] == 0
    assert not is_running(mark)


def test_command_that_does_not_exist_is_a_start_error_that_began_in_1970(pods: Pods) -> None:
    name = pods.create(container={"command": ["/no/such"]})
    end = end_of(pods.ended(name))
    assert (end["exitCode"], end["reason"], end["startedAt"]) == (128, "StartError", "1970-01-01T00:00:00Z")
    assert "executable file `/no/such` not found in $PATH" in end["message"]
    pods.wait_for_event(name, "Failed", "Error: failed to create containerd task")


def test_sigterm_reaches_a_program_only_where_it_has_a_handler_as_for_any_first_process(pods: Pods) -> None:
    # The first process of a process namespace ignores signals that it has no handler for: measured with a kubelet too.
    name = pods.create("kill -TERM $$$$; exit 9")
    assert end_of(pods.ended(name))["exitCode"] == 9


@pytest.mark.parametrize(
    ("script", "policy", "message"),
    [
        (
            "head -c 5000 /dev/zero | tr '\\0' x > /dev/termination-log; printf END >> /dev/termination-log",
            "File",
            "x" * 4093 + "END",
        ),
        ("printf 'ab\\377\\376cd' > /dev/termination-log", "File", "ab\ufffd\ufffdcd"),
        ("seq 100; exit 1", "FallbackToLogsOnError", "".join(f"{n}\n" for n in range(21, 101))),
        ("seq 100; exit 0", "FallbackToLogsOnError", None),
        ("seq 100; printf mine > /dev/termination-log; exit 1", "FallbackToLogsOnError", "mine"),
    ],
)
def test_termination_message_is_the_tail_of_the_file_or_of_the_log(
    pods: Pods, script: str, policy: str, message: str | None
) -> None:
    end = end_of(pods.ended(pods.create(script, container={"terminationMessagePolicy": policy})))
    assert end.get("message") == message


def test_containers_share_twelve_kib_of_messages(pods: Pods) -> None:
    script = "head -c 4096 /dev/zero | tr '\\0' x > /dev/termination-log"
    names = [f"c{number}" for number in range(4)]
    containers = [{"name": name, "image": "sandbox-shell", "command": ["sh", "-c", script]} for name in names]
    pod = pods.ended(pods.create(containers=containers))
    assert [len(end_of(pod, name)["message"]) for name in names] == [3072] * 4


def test_environment_has_all_that_a_kubelet_gives_and_nothing_of_the_agent(pods: Pods) -> None:
    pods.put("configmaps", "settings", data={"color": "blue", "size": "4"})
    pods.put("secrets", "login", stringData={"user": "flo"})
    env = [
        {"name": "PLAIN", "value": "1"},
        {"name": "MADE", "value": "$(PLAIN)-$(color)-$(NOT_SET)-$$(PLAIN)"},
        {"name": "UID_OF_POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
        {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "USER_NAME", "valueFrom": {"secretKeyRef": {"name": "login", "key": "user"}}},
        {"name": "ABSENT", "valueFrom": {"secretKeyRef": {"name": "login", "key": "no", "optional": True}}},
        {"name": "CPUS", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
    ]
    container = {
        "env": env,
        "envFrom": [{"configMapRef": {"name": "settings"}}, {"secretRef": {"name": "missing", "optional": True}}],
        "resources": {"limits": {"cpu": "1500m", "memory": "64Mi"}},
    }
    pod = pods.ended(pods.create("env", container=container))
    name = pod["metadata"]["name"]
    seen = dict(line.split("=", 1) for line in pods.log(name).splitlines())
    assert seen["MADE"] == "1-blue-$(NOT_SET)-$(PLAIN)"
    assert (seen["color"], seen["size"], seen["USER_NAME"]) == ("blue", "4", "flo")
    assert (seen["UID_OF_POD"], seen["NODE"], seen["IP"]) == (pod["metadata"]["uid"], "gpu-1", pod["status"]["podIP"])
    assert (seen["CPUS"], seen["HOSTNAME"]) == ("2", name)
    assert "KUBERNETES_SERVICE_HOST" in seen
    assert "ABSENT" not in seen
    assert not {"GPU_TRAINING_STATE", "PYTHONPATH", "VIRTUAL_ENV"} & set(seen)
    assert not any("NVIDIA" in key for key in seen)


def test_volumes_are_where_the_pod_wants_them_and_nowhere_else(pods: Pods) -> None:
    pods.put("configmaps", "files", data={"a.txt": "A", "b.txt": "B"})
    pods.put("secrets", "keys", stringData={"key": "K"})
    items = [{"key": "a.txt", "path": "deep/a.txt", "mode": 0o400}]
    labels = {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}
    pod = pods.ended(
        pods.create(
            "cat /configured/deep/a.txt /secret/key /info/labels; echo; stat -L -c %a /configured/deep/a.txt;"
            " touch /configured/no 2>/dev/null || echo read-only; cat /scratch/from-init; ls -A /sub; hostname;"
            " df --output=fstype,size /dev/shm | tail -1;"
            " ls /var/run/secrets/kubernetes.io/serviceaccount | tr '\\n' ' '",
            metadata={"labels": {"team": "a"}},
            volumes=[
                {"name": "scratch", "emptyDir": {}},
                {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
                {"name": "files", "configMap": {"name": "files", "items": items}},
                {"name": "keys", "projected": {"sources": [{"secret": {"name": "keys"}}]}},
                {"name": "info", "downwardAPI": {"items": [labels]}},
            ],
            initContainers=[
                {
                    "name": "prepare",
                    "image": "sandbox-shell",
                    "command": ["sh", "-c", "echo prepared > /scratch/from-init; mkdir /scratch/x; touch /scratch/x/y"],
                    "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
                }
            ],
            container={
                "volumeMounts": [
                    {"name": "scratch", "mountPath": "/scratch"},
                    {"name": "scratch", "mountPath": "/sub", "subPath": "x"},
                    {"name": "shm", "mountPath": "/dev/shm"},  # noqa: S108
                    {"name": "files", "mountPath": "/configured"},
                    {"name": "keys", "mountPath": "/secret"},
                    {"name": "info", "mountPath": "/info"},
                ]
            },
        )
    )
    name = pod["metadata"]["name"]
    lines = [" ".join(line.split()) for line in pods.log(name).split("\n")]
    assert lines == [
        'AKteam="a"',
        "400",
        "read-only",
        "prepared",
        "y",
        name,
        "tmpfs 1024",
        "ca.crt namespace token",
    ]
    assert not any(
        Path(path).exists() for path in ("/configured", "/secret", "/scratch", "/sub", "/dev/termination-log")
    )


def test_init_containers_run_in_order_and_a_failing_one_keeps_the_rest_from_running(pods: Pods) -> None:
    def init(name: str, script: str) -> Document:
        return {"name": name, "image": "sandbox-shell", "command": ["sh", "-c", script]}

    pod = pods.ended(pods.create(initContainers=[init("one", "exit 0"), init("two", "exit 7"), init("three", "true")]))
    assert pod["status"]["phase"] == "Failed"
    assert (end_of(pod, "one")["exitCode"], end_of(pod, "two")["exitCode"]) == (0, 7)
    assert state_of(pod, "three")["waiting"]["reason"] == "PodInitializing"
    assert state_of(pod)["waiting"]["reason"] == "PodInitializing"
    assert conditions_of(pod)["Initialized"] == "False"


def test_failed_container_restarts_at_once_then_after_ten_seconds(pods: Pods) -> None:
    volume = {"name": "v", "emptyDir": {}}
    script = "echo run >> /v/runs; n=$(wc -l < /v/runs); echo this is $n; [ $n -ge 3 ] || exit 1"
    name = pods.create(
        script,
        container={"volumeMounts": [{"name": "v", "mountPath": "/v"}]},
        volumes=[volume],
        restartPolicy="OnFailure",
    )
    message = pods.waiting(name, "CrashLoopBackOff")
    uid = pods.get(name)["metadata"]["uid"]
    assert message == f"back-off 10s restarting failed container=main pod={name}_{pods.namespace}({uid})"
    assert pods.log(name) == "this is 2\n"
    pod = pods.ended(name)
    status = pod["status"]["containerStatuses"][0]
    assert (pod["status"]["phase"], status["restartCount"]) == ("Succeeded", 2)
    assert status["lastState"]["terminated"]["exitCode"] == 1
    assert (pods.log(name, previous="true"), pods.log(name)) == ("this is 2\n", "this is 3\n")


def test_deletion_lets_the_program_finish_within_its_grace_and_then_removes_the_pod(pods: Pods) -> None:
    name = pods.create(
        "trap 'echo saving; sleep 1; exit 85' TERM; echo up; while :; do sleep 0.1; done",
        metadata={"finalizers": ["example.com/watch"]},
    )
    wait_for(lambda: pods.running(name) and pods.log(name) == "up\n", DEADLINE_S, "the program's first line")
    pods.delete(name)
    end = end_of(pods.ended(name))
    assert end["exitCode"] == 85
    # A finalizer keeps the object; the container is gone all the same, and a kubelet answers this with status 200.
    wait_for(lambda: "unable to retrieve container logs for " in pods.log(name), DEADLINE_S, "the log to be gone")
    path = f"/api/v1/namespaces/{pods.namespace}/pods/{name}"
    patch = {"metadata": {"finalizers": None}}
    pods.sandbox.api.request("PATCH", path, patch, content_type="application/merge-patch+json")
    wait_for(lambda: not pods.exists(name), DEADLINE_S, "the pod to be gone")
    assert ("Killing", "Stopping container main") in pods.events(name)


def test_program_that_ignores_sigterm_is_killed_when_its_grace_is_over(pods: Pods) -> None:
    name = pods.create(
        "trap '' TERM; while :; do sleep 0.1; done",
        terminationGracePeriodSeconds=2,
        metadata={"finalizers": ["example.com/watch"]},
    )
    pods.running(name)
    begun = time.monotonic()
    pods.delete(name)
    end = end_of(pods.ended(name))
    assert (end["exitCode"], end["reason"]) == (137, "Error")
    assert 1.5 < time.monotonic() - begun < 5
    path = f"/api/v1/namespaces/{pods.namespace}/pods/{name}"
    patch = {"metadata": {"finalizers": None}}
    pods.sandbox.api.request("PATCH", path, patch, content_type="application/merge-patch+json")


def test_forced_deletion_ends_the_process_too(pods: Pods) -> None:
    mark = secrets.token_hex(8)
    name = pods.create(f"trap '' TERM; : {mark}; while :; do sleep 0.1; done")
    pods.running(name)
    pods.delete(name, gracePeriodSeconds=0)
    wait_for(lambda: not is_running(mark), DEADLINE_S, "the end of the process")


@pytest.mark.parametrize(
    ("script", "grace", "code"),
    [("trap 'exit 7' TERM; while :; do sleep 0.1; done", 10, 7), ("exec sleep 60", 1, 137)],
)
def test_deadline_of_the_pod_fails_it_whatever_its_container_says(
    pods: Pods, script: str, grace: int, code: int
) -> None:
    name = pods.create(script, activeDeadlineSeconds=2, terminationGracePeriodSeconds=grace)
    pod = pods.ended(name)
    assert pod["status"]["reason"] == "DeadlineExceeded"
    assert pod["status"]["message"] == "Pod was active on the node longer than the specified deadline"
    assert end_of(pod)["exitCode"] == code
    assert pods.exists(name)


def test_deadline_counts_waiting_for_a_volume(pods: Pods) -> None:
    volume = {"name": "v", "secret": {"secretName": "never-made"}}
    pod = pods.ended(pods.create(activeDeadlineSeconds=2, volumes=[volume]))
    assert pod["status"]["reason"] == "DeadlineExceeded"
    assert (end_of(pod)["exitCode"], end_of(pod)["reason"]) == (137, "ContainerStatusUnknown")


def test_eviction_marks_the_pod_and_takes_it_away(pods: Pods) -> None:
    name = pods.create("trap 'exit 143' TERM; echo up; while :; do sleep 0.1; done")
    wait_for(lambda: pods.running(name) and pods.log(name), DEADLINE_S, "the program's first line")
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    path = f"/api/v1/namespaces/{pods.namespace}/pods/{name}"
    pods.sandbox.api.request("POST", f"{path}/eviction", eviction)
    wait_for(lambda: not pods.exists(name), DEADLINE_S, "the pod to be gone")


@pytest.mark.parametrize(
    ("spec", "reason", "message"),
    [
        (
            {"container": {"resources": {"limits": {"nvidia.com/gpu": "3"}}}},
            "OutOfnvidia.com/gpu",
            "Node didn't have enough resource: nvidia.com/gpu, requested: 3, used: 0, capacity: 1",
        ),
        (
            {"nodeSelector": {"zone": "nowhere"}},
            "NodeAffinity",
            "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
        ),
    ],
)
def test_node_refuses_what_the_scheduler_was_not_asked_about(
    pods: Pods, spec: Document, reason: str, message: str
) -> None:
    name = pods.create(nodeName="gpu-1", **spec)
    pod = pods.ended(name)
    assert (pod["status"]["reason"], pod["status"]["message"]) == (reason, f"Pod was rejected: {message}")
    assert "containerStatuses" not in pod["status"]
    assert "conditions" not in pod["status"]
    pods.wait_for_event(name, reason, message)


def test_unknown_image_waits_as_a_pull_that_fails(pods: Pods) -> None:
    name = pods.create(container={"image": "registry.example/nope:v1"})
    message = pods.waiting(name, "ErrImagePull")
    assert message.startswith('failed to pull and unpack image "registry.example/nope:v1": failed to resolve reference')
    message = pods.waiting(name, "ImagePullBackOff")
    assert message.startswith('Back-off pulling image "registry.example/nope:v1": ErrImagePull: failed to pull')
    assert pods.get(name)["status"]["phase"] == "Pending"
    with pytest.raises(ApiError, match="trying and failing to pull image"):
        pods.log(name)
    pods.wait_for_event(name, "Failed", "Error: ImagePullBackOff")
    pods.delete(name)
    wait_for(lambda: not pods.exists(name), DEADLINE_S, "the pod to be gone")


@pytest.mark.parametrize(
    ("container", "reason", "words"),
    [
        ({"image": "Bad_Image:::x"}, "InvalidImageName", "repository name (library/Bad_Image) must be lowercase"),
        (
            {"image": "example.com/never:v1", "imagePullPolicy": "Never"},
            "ErrImageNeverPull",
            'Container image "example.com/never:v1" is not present with pull policy of Never',
        ),
        ({"image": f"sandbox-shell@sha256:{'0' * 64}"}, "ErrImagePull", "not found (sandbox-shell is sandbox-shell@"),
        (
            {"livenessProbe": {"exec": {"command": ["true"]}}},
            "CreateContainerConfigError",
            "nodes of kind process have no probes",
        ),
    ],
)
def test_container_that_can_not_be_made_says_why(pods: Pods, container: Document, reason: str, words: str) -> None:
    assert words in pods.waiting(pods.create(container=container), reason)


def test_image_with_its_digest_of_now_is_known(pods: Pods) -> None:
    assert pods.ended(pods.create(container={"image": ImageStore().image("sandbox-shell").identity}))


def test_missing_secret_of_a_variable_is_waited_for(pods: Pods) -> None:
    variable = {"name": "A", "valueFrom": {"secretKeyRef": {"name": "late-env", "key": "a"}}}
    name = pods.create("echo got $A", container={"env": [variable]})
    assert pods.waiting(name, "CreateContainerConfigError") == 'secret "late-env" not found'
    pods.wait_for_event(name, "Failed", 'Error: secret "late-env" not found')
    pods.put("secrets", "late-env", stringData={"a": "it"})
    pods.ended(name)
    assert pods.log(name) == "got it\n"


def test_missing_secret_of_a_volume_is_waited_for(pods: Pods) -> None:
    name = pods.create(
        "cat /v/a",
        container={"volumeMounts": [{"name": "v", "mountPath": "/v"}]},
        volumes=[{"name": "v", "secret": {"secretName": "late-volume"}}],
    )
    pods.wait_for_event(name, "FailedMount", 'MountVolume.SetUp failed for volume "v" : secret "late-volume" not found')
    assert state_of(pods.get(name))["waiting"] == {"reason": "ContainerCreating"}
    pods.put("secrets", "late-volume", stringData={"a": "it"})
    pods.ended(name)
    assert pods.log(name) == "it"


@pytest.mark.parametrize(
    ("volume", "words"),
    [
        ({"hostPath": {"path": "/"}}, "hostPath is not available on nodes of kind process"),
        ({"persistentVolumeClaim": {"claimName": "x"}}, "nothing here provides the storage"),
    ],
)
def test_volume_that_this_node_never_has_is_refused_in_words(pods: Pods, volume: Document, words: str) -> None:
    name = pods.create(volumes=[{"name": "v", **volume}], nodeName="gpu-1")
    assert words in pods.waiting(name, "CreateContainerConfigError")


def test_log_gives_what_is_asked_for(pods: Pods) -> None:
    name = pods.create("printf 'one\\ntwo\\rstill two\\n'; sleep 1.1; printf '\\377\\n'; printf end")
    pods.ended(name)
    assert pods.log(name) == "one\ntwo\rstill two\n\ufffd\nend"
    assert pods.log(name, tailLines="2") == "\ufffd\nend"
    assert pods.log(name, limitBytes="5") == "one\nt"
    stamped = pods.log(name, timestamps="true").split("\n")
    assert [line.split(" ", 1)[1] for line in stamped] == ["one", "two\rstill two", "\ufffd", "end"]
    assert pods.log(name, sinceTime=stamped[2].split(" ")[0]) == "\ufffd\nend"
    assert pods.log(name, sinceSeconds="300") == pods.log(name)


def test_log_follows_a_running_container_to_its_end(pods: Pods) -> None:
    name = pods.create("for n in 1 2 3 4 5; do echo line $n; sleep 0.2; done")
    pods.running(name)
    assert pods.log(name, follow="true") == "".join(f"line {n}\n" for n in range(1, 6))


def test_log_of_a_container_that_waits_is_an_error_in_the_kubelet_s_words(pods: Pods) -> None:
    name = pods.create(volumes=[{"name": "v", "configMap": {"name": "never-made"}}])
    pods.wait(name, state_of)
    with pytest.raises(ApiError, match=f'container "main" in pod "{name}" is waiting to start: ContainerCreating'):
        pods.log(name)
    with pytest.raises(ApiError, match=f'previous terminated container "main" in pod "{name}" not found'):
        pods.log(name, previous="true")


def test_killed_agent_s_successor_finds_the_container_and_its_end(pods: Pods) -> None:
    running = pods.create("for n in 1 2 3 4 5 6; do echo $n; sleep 0.5; done; exit 6")
    ending = pods.create("sleep 1; exit 5")
    pods.running(running)
    pods.running(ending)
    folder = _first_run(pods, ending)
    with no_agent(pods.sandbox):
        wait_for((folder / "exit.json").exists, DEADLINE_S, "the end that no agent sees")
    assert end_of(pods.ended(ending))["exitCode"] == 5
    pod = pods.ended(running)
    assert (end_of(pod)["exitCode"], pod["status"]["containerStatuses"][0]["restartCount"]) == (6, 0)
    assert pods.log(running) == "".join(f"{n}\n" for n in range(1, 7))


def test_agent_s_successor_ends_what_was_removed_meanwhile(pods: Pods) -> None:
    mark = secrets.token_hex(8)
    name = pods.create(f": {mark}; sleep 600")
    pods.running(name)
    folder = _first_run(pods, name)
    with no_agent(pods.sandbox):
        pods.delete(name, gracePeriodSeconds=0)
        assert is_running(mark)
    wait_for(lambda: not is_running(mark), DEADLINE_S, "the end of the process")
    wait_for(lambda: not folder.exists(), DEADLINE_S, "the pod's files to be gone")


def is_running(mark: str) -> bool:
    """Whether a process of this machine has the mark in its command line."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if mark.encode() in path.read_bytes():
                return True
    return False


@contextlib.contextmanager
def no_agent(sandbox: Sandbox) -> Iterator[None]:
    """Kill the node's agent, its containers running on, and start another one afterwards."""
    supervisor = sandbox.supervisor
    supervisor.signal("node-gpu-1", signal.SIGKILL)
    wait_for(lambda: not supervisor.status()["node-gpu-1"].alive, DEADLINE_S, "the agent's end")
    try:
        yield
    finally:
        # Not restart(), which ends what the dead agent left.
        credentials = Credentials(sandbox.folder / "certificates")
        site = Site(folder=sandbox.folder, api_url=sandbox.api_url, credentials=credentials)
        (agent,) = KINDS["process"].processes(NodeRequest(), site)
        supervisor.run(agent)


def _first_run(pods: Pods, name: str) -> Path:
    uid = pods.get(name)["metadata"]["uid"]
    return pods.sandbox.folder / "nodes" / "gpu-1" / "pods" / uid / "containers" / "main" / "0"


def test_end_that_came_while_the_api_server_was_away_is_told_when_it_is_back(pods: Pods) -> None:
    name = pods.create("sleep 1.5; printf late > /dev/termination-log; exit 4")
    pods.running(name)
    folder = _first_run(pods, name)
    pods.sandbox.supervisor.stop("kube-apiserver")
    try:
        wait_for((folder / "exit.json").exists, DEADLINE_S, "the container's end")
    finally:
        pods.sandbox.supervisor.restart("kube-apiserver")
        wait_for(pods.sandbox.api.is_ready, 60, "the API server")
    end = end_of(pods.ended(name))
    assert (end["exitCode"], end["message"]) == (4, "late")


def test_pod_follows_a_label_that_the_node_got_a_moment_ago(pods: Pods) -> None:
    api, zone = pods.sandbox.api, secrets.token_hex(4)
    change = {"metadata": {"labels": {"zone": zone}}}
    api.request("PATCH", "/api/v1/nodes/gpu-1", change, content_type="application/merge-patch+json")
    assert pods.ended(pods.create(nodeSelector={"zone": zone}))["status"]["phase"] == "Succeeded"


def test_patched_gpu_capacity_stays_and_counts(pods: Pods) -> None:
    def patch(count: str) -> None:
        change = {"status": {"capacity": {"nvidia.com/gpu": count}, "allocatable": {"nvidia.com/gpu": count}}}
        path = "/api/v1/nodes/gpu-1/status"
        pods.sandbox.api.request("PATCH", path, change, content_type="application/merge-patch+json")

    patch("2")
    try:
        name = pods.create(container={"resources": {"limits": {"nvidia.com/gpu": "2"}}})
        assert pods.ended(name)["status"]["phase"] == "Succeeded"
    finally:
        patch("1")


def test_log_server_talks_to_the_api_server_alone(sandbox: Sandbox) -> None:
    ready = json.loads((sandbox.folder / "nodes" / "gpu-1" / "ready.json").read_text())
    anyone = ssl.create_default_context(cafile=str(Credentials(sandbox.folder / "certificates").cluster.certificate))
    connection = http.client.HTTPSConnection("127.0.0.1", ready["port"], context=anyone, timeout=10)

    def ask() -> int:
        connection.request("GET", "/healthz")
        return connection.getresponse().status

    with pytest.raises((ssl.SSLError, ConnectionError)):
        ask()


def test_two_nodes_count_their_own_gpus(pods: Pods) -> None:
    pods.sandbox.add_node(NodeRequest(name="gpu-2", gpus=1))
    gpu = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
    try:
        names = [pods.create("sleep 1", container=gpu) for _ in range(3)]
        nodes = [pods.ended(name)["spec"]["nodeName"] for name in names]
        assert set(nodes) == {"gpu-1", "gpu-2"}
    finally:
        pods.sandbox.remove_node("gpu-2")


def test_twenty_pods_at_once_all_end_with_their_own_result(pods: Pods) -> None:
    with ThreadPoolExecutor(4) as pool:
        names = list(pool.map(lambda n: pods.create(f"printf {n} > /dev/termination-log"), range(20)))
    messages = [end_of(pods.ended(name, 60))["message"] for name in names]
    assert messages == [str(n) for n in range(20)]


def test_configmap_volume_shows_binary_data(pods: Pods) -> None:
    pods.put("configmaps", "binary", binaryData={"bytes": base64.b64encode(b"\x00\xff").decode()})
    name = pods.create(
        "od -An -tx1 /v/bytes",
        container={"volumeMounts": [{"name": "v", "mountPath": "/v"}]},
        volumes=[{"name": "v", "configMap": {"name": "binary"}}],
    )
    pods.ended(name)
    assert pods.log(name).split() == ["00", "ff"]
