"""`gpu-training doctor` on a real control plane: a sound one, and each fault made for real."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.cluster.trainings import jobs_of, pods_of, spec
from tests.fake_mlflow import FakeMlflow

from gpu_training.cli import main
from gpu_training.commands.exits import Exit
from gpu_training.contract import Manifest, ManifestFile, render_manifest
from sandbox.cluster import Sandbox
from sandbox.faults.access import fill_quota
from sandbox.faults.nodes import cordon_node, drop_gpus, restore_gpus, uncordon_node

pytestmark = pytest.mark.cluster

NODE = "gpu-1"
SELECTOR = {"workload": "gpu-training"}


@dataclass
class Report:
    """What the command said and how it ended.

    :param lines: of the text form.
    """

    exit_code: int
    document: dict[str, Any]
    lines: list[str] = field(default_factory=list)

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
        training = spec(self.namespace, "exit 0", node_selector=SELECTOR, **changes)
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
        arguments = ["doctor", "shell", "--models", str(self.folder / "models"), *options]
        if "--conn-id" not in options:
            arguments += ["--kubeconfig", str(self.kubeconfig)]
        self.capsys.readouterr()
        exit_code = main([*arguments, "--json"])
        return Report(exit_code, json.loads(self.capsys.readouterr().out))


@pytest.fixture
def doctor(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Doctor:
    """Give a doctor with the operator's own rights, a model and data that are sound."""
    doctor = Doctor(tmp_path, namespace, sandbox.operator_kubeconfig, capsys)
    doctor.write_model()
    doctor.publish()
    return doctor


def test_a_sound_cluster_has_nothing_broken_and_nothing_is_created(
    sandbox: Sandbox, namespace: str, doctor: Doctor
) -> None:
    before = sandbox.api.request("GET", f"/api/v1/namespaces/{namespace}/events")["items"]
    report = doctor.run()
    print(json.dumps(report.document, indent=1))
    assert report.exit_code == Exit.DONE
