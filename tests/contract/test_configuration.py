"""What a container gets of its pod: variables, volumes, tokens, images; and what is told while one is missing."""

from __future__ import annotations

import base64
import json
from pathlib import Path

from tests.contract.pods import Document, Pods, conditions_of, state_of


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


def test_missing_object_of_a_variable_is_waited_for(pods: Pods) -> None:
    secret = {"name": "A", "valueFrom": {"secretKeyRef": {"name": "late-env", "key": "a"}}}
    other = {"name": "A", "valueFrom": {"secretKeyRef": {"name": "without", "key": "a"}}}
    pods.put("secrets", "without", stringData={"b": "no"})
    name = pods.create("echo got $A", container={"env": [secret]})
    without = pods.create(container={"env": [other]})
    settings = pods.create(container={"envFrom": [{"configMapRef": {"name": "never-made"}}]})
    assert pods.waiting(name, "CreateContainerConfigError") == 'secret "late-env" not found'
    assert pods.wait_for_event(name, "Failed", 'Error: secret "late-env" not found')["type"] == "Warning"
    assert pods.waiting(settings, "CreateContainerConfigError") == 'configmap "never-made" not found'
    words = f"couldn't find key a in Secret {pods.namespace}/without"
    assert pods.waiting(without, "CreateContainerConfigError") == words
    pods.put("secrets", "late-env", stringData={"a": "it"})
    pods.ended(name)
    assert pods.log(name) == "got it\n"


def test_missing_object_of_a_volume_is_waited_for(pods: Pods) -> None:
    def showing(**source: Document) -> dict[str, object]:
        mount = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
        return {"container": mount, "volumes": [{"name": "v", **source}]}

    name = pods.create("cat /v/a", **showing(secret={"secretName": "late-volume"}))  # type: ignore[arg-type]
    settings = pods.create(**showing(configMap={"name": "never-made"}))  # type: ignore[arg-type]
    failed = 'MountVolume.SetUp failed for volume "v" : '
    pods.wait_for_event(name, "FailedMount", f'{failed}secret "late-volume" not found')
    pods.wait_for_event(settings, "FailedMount", f'{failed}configmap "never-made" not found')
    pod = pods.get(name)
    assert pod["status"]["phase"] == "Pending"
    assert state_of(pod) == {"waiting": {"reason": "ContainerCreating"}}
    assert conditions_of(pod) == [
        ("PodReadyToStartContainers", "False", "PodSandboxNotReady"),
        ("Initialized", "True", ""),
        ("Ready", "False", "ContainersNotReady"),
        ("ContainersReady", "False", "ContainersNotReady"),
        ("PodScheduled", "True", ""),
    ]
    pods.put("secrets", "late-volume", stringData={"a": "it"})
    pods.ended(name)
    assert pods.log(name) == "it"


def test_image_that_can_not_be_had_is_told_by_what_is_wrong_with_it(pods: Pods) -> None:
    unknown = pods.create(container={"image": "127.0.0.1:1/nope:v1"})
    invalid = pods.create(container={"image": "Bad_Image:::x"})
    never = pods.create(container={"image": "example.com/never:v1", "imagePullPolicy": "Never"})
    message = pods.waiting(unknown, "ErrImagePull")
    failure = 'failed to pull and unpack image "127.0.0.1:1/nope:v1": failed to resolve reference "127.0.0.1:1/nope:v1"'
    assert message.startswith(f"rpc error: code = NotFound desc = {failure}: 127.0.0.1:1/nope:v1: not found")
    told = pods.waiting(unknown, "ImagePullBackOff")
    assert told == f'Back-off pulling image "127.0.0.1:1/nope:v1": ErrImagePull: {message}'
    assert pods.get(unknown)["status"]["phase"] == "Pending"
    for reason, words in (
        ("Pulling", 'Pulling image "127.0.0.1:1/nope:v1"'),
        ("Failed", 'Failed to pull image "127.0.0.1:1/nope:v1": '),
        ("Failed", "Error: ErrImagePull"),
        ("BackOff", 'Back-off pulling image "127.0.0.1:1/nope:v1"'),
        ("Failed", "Error: ImagePullBackOff"),
    ):
        pods.wait_for_event(unknown, reason, words)
    message = pods.waiting(invalid, "InvalidImageName")
    assert message.startswith('Failed to apply default image tag "Bad_Image:::x": couldn\'t parse image name')
    pods.wait_for_event(invalid, "InspectFailed", message)
    pods.wait_for_event(invalid, "Failed", "Error: InvalidImageName")
    words = 'Container image "example.com/never:v1" is not present with pull policy of Never'
    assert pods.waiting(never, "ErrImageNeverPull") == words
    pods.wait_for_event(never, "ErrImageNeverPull", words)
    pods.wait_for_event(never, "Failed", "Error: ErrImageNeverPull")
    pods.delete(unknown)
    pods.gone(unknown)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
