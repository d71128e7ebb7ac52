"""What a container gets of its pod: variables, volumes, tokens, images; and what is told while one is missing."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from tests.contract.pods import Document, Pods, conditions_of, state_of

from sandbox.api import ApiError

_MOUNT = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
_UNKNOWN = "127.0.0.1:1/nope:v1"


def env_of(source: str, name: str, key: str = "a") -> Document:
    return {"env": [{"name": "A", "valueFrom": {source: {"name": name, "key": key}}}]}


@pytest.fixture(scope="module", autouse=True)
def waiting(pods: Pods) -> dict[str, str]:
    """Give the names of pods that something is missing for; they wait while the other tests run."""
    pods.put("secrets", "without", stringData={"b": "no"})
    volumes = {
        kind: [{"name": "v", kind: source}]
        for kind, source in (("secret", {"secretName": "late-volume"}), ("configMap", {"name": "never-made"}))
    }
    return {
        "late variable": pods.create("echo got $A", container=env_of("secretKeyRef", "late-env")),
        "no such key": pods.create(container=env_of("secretKeyRef", "without")),
        "no such settings": pods.create(container={"envFrom": [{"configMapRef": {"name": "never-made"}}]}),
        "late volume": pods.create("cat /v/a", container=_MOUNT, volumes=volumes["secret"]),
        "no such volume": pods.create(container=_MOUNT, volumes=volumes["configMap"]),
        "unknown image": pods.create(container={"image": _UNKNOWN}),
        "invalid image": pods.create(container={"image": "Bad_Image:::x"}),
        "never pulled": pods.create(container={"image": "example.com/never:v1", "imagePullPolicy": "Never"}),
    }


def test_missing_object_is_told_of_a_variable_and_of_a_volume(waiting: dict[str, str], pods: Pods) -> None:
    late, settings = waiting["late variable"], waiting["no such settings"]
    assert pods.waiting(late, "CreateContainerConfigError") == 'secret "late-env" not found'
    assert pods.wait_for_event(late, "Failed", 'Error: secret "late-env" not found')["type"] == "Warning"
    assert pods.waiting(settings, "CreateContainerConfigError") == 'configmap "never-made" not found'
    words = f"couldn't find key a in Secret {pods.namespace}/without"
    assert pods.waiting(waiting["no such key"], "CreateContainerConfigError") == words
    failed = 'MountVolume.SetUp failed for volume "v" : '
    pods.wait_for_event(waiting["late volume"], "FailedMount", f'{failed}secret "late-volume" not found')
    pods.wait_for_event(waiting["no such volume"], "FailedMount", f'{failed}configmap "never-made" not found')
    pod = pods.get(waiting["late volume"])
    assert pod["status"]["phase"] == "Pending"
    assert state_of(pod) == {"waiting": {"reason": "ContainerCreating"}}
    assert conditions_of(pod) == [
        ("PodReadyToStartContainers", "False", "PodSandboxNotReady"),
        ("Initialized", "True", ""),
        ("Ready", "False", "ContainersNotReady"),
        ("ContainersReady", "False", "ContainersNotReady"),
        ("PodScheduled", "True", ""),
    ]
    # Here they are; the last test sees what came of it.
    pods.put("secrets", "late-env", stringData={"a": "it"})
    pods.put("secrets", "late-volume", stringData={"a": "it"})


def test_image_that_is_pulled_and_not_there_is_told_as_it_comes(waiting: dict[str, str], pods: Pods) -> None:
    unknown = waiting["unknown image"]
    message = pods.waiting(unknown, "ErrImagePull")
    failure = f'failed to pull and unpack image "{_UNKNOWN}": failed to resolve reference "{_UNKNOWN}"'
    assert message.startswith(f"rpc error: code = NotFound desc = {failure}: {_UNKNOWN}: not found")
    with pytest.raises(ApiError, match="is waiting to start: image can't be pulled"):
        pods.log(unknown)
    told = pods.waiting(unknown, "ImagePullBackOff")
    assert told == f'Back-off pulling image "{_UNKNOWN}": ErrImagePull: {message}'
    with pytest.raises(ApiError, match="is waiting to start: trying and failing to pull image"):
        pods.log(unknown)
    assert pods.get(unknown)["status"]["phase"] == "Pending"
    for reason, words in (
        ("Pulling", f'Pulling image "{_UNKNOWN}"'),
        ("Failed", f'Failed to pull image "{_UNKNOWN}": '),
        ("Failed", "Error: ErrImagePull"),
        ("BackOff", f'Back-off pulling image "{_UNKNOWN}"'),
        ("Failed", "Error: ImagePullBackOff"),
    ):
        pods.wait_for_event(unknown, reason, words)
    pods.delete(unknown)
    pods.gone(unknown)


def test_image_that_can_not_be_asked_for_is_told_by_what_is_wrong_with_it(waiting: dict[str, str], pods: Pods) -> None:
    invalid, never = waiting["invalid image"], waiting["never pulled"]
    message = pods.waiting(invalid, "InvalidImageName")
    assert message.startswith('Failed to apply default image tag "Bad_Image:::x": couldn\'t parse image name')
    pods.wait_for_event(invalid, "InspectFailed", message)
    pods.wait_for_event(invalid, "Failed", "Error: InvalidImageName")
    words = 'Container image "example.com/never:v1" is not present with pull policy of Never'
    assert pods.waiting(never, "ErrImageNeverPull") == words
    pods.wait_for_event(never, "ErrImageNeverPull", words)
    pods.wait_for_event(never, "Failed", "Error: ErrImageNeverPull")


def test_environment_has_all_that_a_kubelet_gives_and_nothing_of_the_node(pods: Pods) -> None:
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
    assert (seen["UID_OF_POD"], seen["NODE"]) == (pod["metadata"]["uid"], pods.node.name)
    assert seen["IP"] == pod["status"]["podIP"]
    assert (seen["CPUS"], seen["HOSTNAME"]) == ("2", name)
    assert "KUBERNETES_SERVICE_HOST" in seen
    assert not {"ABSENT", "GPU_TRAINING_STATE", "PYTHONPATH", "VIRTUAL_ENV"} & set(seen)
    assert not any("NVIDIA" in key for key in seen)


def test_volumes_are_where_the_pod_wants_them_and_nowhere_else(pods: Pods) -> None:
    pods.put("configmaps", "files", data={"a.txt": "A", "b.txt": "B"}, binaryData={"c": _base64(b"\x00\xff")})
    pods.put("secrets", "keys", stringData={"key": "K"})
    items = [{"key": "a.txt", "path": "deep/a.txt", "mode": 0o444}, {"key": "c", "path": "c"}]
    labels = {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}
    scratch = {"name": "scratch", "mountPath": "/scratch"}
    prepare = "echo prepared > /scratch/from-init; mkdir /scratch/x; touch /scratch/x/y"
    name = pods.create(
        "cat /configured/deep/a.txt /secret/key /info/labels; echo; stat -L -c %a /configured/deep/a.txt;"
        " od -An -tx1 /configured/c; touch /configured/no 2>/dev/null || echo read-only; cat /scratch/from-init;"
        " ls -A /sub; hostname; df --output=fstype,size /dev/shm | tail -1;"
        " ls /var/run/secrets/kubernetes.io/serviceaccount | tr '\\n' ' '",
        metadata={"labels": {"team": "a"}},
        volumes=[
            {"name": "scratch", "emptyDir": {}},
            {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
            {"name": "files", "configMap": {"name": "files", "items": items}},
            {"name": "keys", "projected": {"sources": [{"secret": {"name": "keys"}}]}},
            {"name": "info", "downwardAPI": {"items": [labels]}},
        ],
        initContainers=[pods.container("prepare", prepare, volumeMounts=[scratch])],
        container={
            "volumeMounts": [
                scratch,
                {"name": "scratch", "mountPath": "/sub", "subPath": "x"},
                {"name": "shm", "mountPath": "/dev/shm"},  # noqa: S108
                {"name": "files", "mountPath": "/configured"},
                {"name": "keys", "mountPath": "/secret"},
                {"name": "info", "mountPath": "/info"},
            ]
        },
    )
    pods.ended(name)
    lines = [" ".join(line.split()) for line in pods.log(name).split("\n")]
    expected = [
        'AKteam="a"',
        "444",
        "00 ff",
        "read-only",
        "prepared",
        "y",
        name,
        "tmpfs 1024",
        "ca.crt namespace token",
    ]
    assert lines == expected
    assert not any(
        Path(path).exists() for path in ("/configured", "/secret", "/scratch", "/sub", "/dev/termination-log")
    )


def test_projected_token_is_the_pod_s_own_for_its_audience_and_time(pods: Pods) -> None:
    token = {"audience": "registry.example", "expirationSeconds": 900, "path": "token"}
    pod = pods.ended(
        pods.create(
            "cat /token/token",
            volumes=[{"name": "t", "projected": {"sources": [{"serviceAccountToken": token}]}}],
            container={"volumeMounts": [{"name": "t", "mountPath": "/token"}]},
        )
    )
    text = pods.log(pod["metadata"]["name"])
    review = {"spec": {"token": text, "audiences": ["registry.example"]}}
    answer = pods.api.request("POST", "/apis/authentication.k8s.io/v1/tokenreviews", review)["status"]
    claims = json.loads(base64.urlsafe_b64decode(text.split(".")[1] + "=="))
    assert answer["user"]["username"] == f"system:serviceaccount:{pods.namespace}:default"
    assert claims["exp"] - claims["iat"] == 900
    assert claims["kubernetes.io"]["pod"] == {key: pod["metadata"][key] for key in ("name", "uid")}


def test_object_that_came_late_is_used(waiting: dict[str, str], pods: Pods) -> None:
    for case, text in (("late variable", "got it\n"), ("late volume", "it")):
        pods.ended(waiting[case])
        assert pods.log(waiting[case]) == text


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
