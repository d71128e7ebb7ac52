"""Runs `gpu-training doctor` on one model in the sandbox, and makes the faults that no other test makes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.cluster.pod_documents import SECURITY
from tests.cluster.trainings import spec

from gpu_training.cli import main
from gpu_training.commands.exits import Exit
from gpu_training.contract import Manifest, ManifestFile, render_manifest
from sandbox.cluster import Sandbox
from sandbox.waiting import wait_for

NODE = "gpu-1"
SELECTOR = {"workload": "gpu-training"}


@dataclass
class Report:
    """What the command said and how it ended."""

    exit_code: int
    document: dict[str, Any]

    def check(self, name: str) -> dict[str, str]:
        """Give the one check of a name."""
        (found,) = [each for each in self.document["checks"] if each["name"] == name]
        return dict(found)

    def named(self, state: str) -> list[str]:
        return [each["name"] for each in self.document["checks"] if each["state"] == state]


@dataclass
class Doctor:
    """Runs the command on one model, in one namespace."""

    folder: Path
    namespace: str
    kubeconfig: Path
    capsys: pytest.CaptureFixture[str]

    def write_model(self, **changes: Any) -> None:
        namespace = changes.pop("namespace", self.namespace)
        training = spec(namespace, "exit 0", **{"node_selector": SELECTOR, **changes})
        del training["model"]
        model = {
            "model": "shell",
            "owner": "tests",
            "description": "A training that ends at once.",
            "schedule": {"cron": "0 1 * * *", "timezone": "UTC"},
            "data": {"source": "object_store_manifest", "uri": f"file://{self.folder / 'versions'}"},
            "training": training,
        }
        (self.folder / "models").mkdir(exist_ok=True)
        (self.folder / "models" / "shell.yaml").write_text(yaml.safe_dump(model))

    def publish(self) -> None:
        content = b"1,2\n"
        version = self.folder / "versions" / "2013-w01"
        version.mkdir(parents=True)
        (version / "part.csv").write_bytes(content)
        entry = ManifestFile(path="part.csv", size=len(content), sha256=hashlib.sha256(content).hexdigest())
        manifest = Manifest(id="2013-w01", created_at="2013-01-08T00:00:00+00:00", files=(entry,))
        (version / "manifest.json").write_text(render_manifest(manifest))

    def run(self, *options: str) -> Report:
        """Give what the command says with --json."""
        exit_code = self._main(*options, "--json")
        return Report(exit_code, json.loads(self.capsys.readouterr().out))

    def lines(self) -> list[str]:
        """Give what the command says to a person."""
        self._main()
        return self.capsys.readouterr().out.splitlines()

    def _main(self, *options: str) -> int:
        arguments = ["doctor", "shell", "--models", str(self.folder / "models"), *options]
        if "--conn-id" not in options:
            arguments += ["--kubeconfig", str(self.kubeconfig)]
        self.capsys.readouterr()
        return main(arguments)


def broken(report: Report, name: str, said: str, remedy: str) -> None:
    """Check that a check is broken, what it says, what it advises, and that the command fails for it."""
    check = report.check(name)
    assert check["state"] == "broken", check
    assert said in check["said"]
    assert remedy in check["remedy"]
    assert check["remedy"]
    assert report.exit_code == Exit.FAILED


def gpus(count: int) -> dict[str, Any]:
    return {
        "requests": {"cpu": "100m", "memory": "64Mi"},
        "limits": {"memory": "64Mi", "nvidia.com/gpu": count},
    }


def hold_a_gpu(sandbox: Sandbox, namespace: str) -> None:
    """Have a pod that no node gets count against the quota."""
    container = {
        "name": "c",
        "image": "whatever:1",
        "resources": {"limits": {"nvidia.com/gpu": "1"}},
        "securityContext": SECURITY,
    }
    body = {"schedulingGates": [{"name": "tests/held"}], "containers": [container]}
    pods = f"/api/v1/namespaces/{namespace}/pods"
    sandbox.api.request("POST", pods, {"metadata": {"name": "holder"}, "spec": body})
    quota = f"/api/v1/namespaces/{namespace}/resourcequotas/sandbox-fault"
    wait_for(
        lambda: sandbox.api.request("GET", quota)["status"]["used"].get("requests.nvidia.com/gpu") == "1",
        30,
        "the quota to count the pod",
    )


@contextmanager
def role_without(sandbox: Sandbox, namespace: str, resource: str, *verbs: str) -> Iterator[None]:
    """Take verbs on a kind of object from the operator's Role, all of them where none is named."""
    path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/roles/gpu-training-operator"
    rules = sandbox.api.request("GET", path)["rules"]
    fewer = [
        {**rule, "verbs": [verb for verb in rule["verbs"] if verbs and verb not in verbs]}
        if rule["resources"] == [resource]
        else rule
        for rule in rules
    ]
    assert fewer != rules

    def put(given: list[dict[str, Any]]) -> None:
        change = {"rules": [rule for rule in given if rule["verbs"]]}
        sandbox.api.request("PATCH", path, change, content_type="application/merge-patch+json")

    put(fewer)
    try:
        yield
    finally:
        put(rules)


@contextmanager
def tainted(sandbox: Sandbox, taint: dict[str, str]) -> Iterator[None]:
    path = f"/api/v1/nodes/{NODE}"
    before = sandbox.api.request("GET", path)["spec"].get("taints") or []

    def put(taints: list[dict[str, str]]) -> None:
        change = {"spec": {"taints": taints}}
        sandbox.api.request("PATCH", path, change, content_type="application/merge-patch+json")

    put([*before, taint])
    try:
        yield
    finally:
        put(before)


ADMISSION = "admissionregistration.k8s.io/v1"
NEW_PODS = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}


@contextmanager
def pods_on_the_nodes_network(sandbox: Sandbox, namespace: str) -> Iterator[None]:
    """Have the cluster put new pods of a namespace on their node's own network, as an injector may; soon after it has
    begun."""
    expression = '[JSONPatch{op: "add", path: "/spec/hostNetwork", value: true}]'
    policy = {
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "matchConstraints": {"resourceRules": [NEW_PODS]},
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}],
    }
    with _policy(sandbox, namespace, "MutatingAdmissionPolicy", policy, {}):
        yield


@contextmanager
def pods_warned_of(sandbox: Sandbox, namespace: str, message: str) -> Iterator[None]:
    """Have the server warn of every new pod of a namespace; soon after it has begun."""
    policy = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [NEW_PODS]},
        "validations": [{"expression": "false", "message": message}],
    }
    with _policy(sandbox, namespace, "ValidatingAdmissionPolicy", policy, {"validationActions": ["Warn"]}):
        yield


@contextmanager
def _policy(
    sandbox: Sandbox, namespace: str, kind: str, policy: dict[str, Any], binding: dict[str, Any]
) -> Iterator[None]:
    metadata = {"name": f"doctor-{namespace}"}
    where = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}
    documents: list[dict[str, Any]] = [
        {"apiVersion": ADMISSION, "kind": kind, "metadata": metadata, "spec": policy},
        {
            "apiVersion": ADMISSION,
            "kind": f"{kind}Binding",
            "metadata": metadata,
            "spec": {**binding, "policyName": metadata["name"], "matchResources": where},
        },
    ]
    for document in documents:
        sandbox.api.apply(document)
    try:
        yield
    finally:
        for document in documents:
            sandbox.api.request("DELETE", sandbox.api.path_of(document))
