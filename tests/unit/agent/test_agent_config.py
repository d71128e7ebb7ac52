"""The agent's configuration is refused in words that name the key, before anything happens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sandbox.agent.config import AgentConfig, AgentConfigError, is_own_label, parse_taint

pytestmark = pytest.mark.unit

DOCUMENT: dict[str, Any] = {
    "node_name": "gpu-1",
    "api_url": "https://127.0.0.1:6443",
    "ca_file": "/c/ca.crt",
    "client_cert": "/c/node.crt",
    "client_key": "/c/node.key",
    "serving_cert": "/c/serving.crt",
    "serving_key": "/c/serving.key",
    "client_ca_file": "/c/client-ca.crt",
    "root": "/n/gpu-1",
    "images": "/i/images.yaml",
}


def test_document_becomes_paths_numbers_and_defaults(tmp_path: Path) -> None:
    file = tmp_path / "agent.json"
    file.write_text(json.dumps({**DOCUMENT, "gpus": 2, "taints": ["a=b:NoSchedule"]}))
    config = AgentConfig.load(file)
    assert (config.gpus, config.cpu, config.port) == (2, "4", 0)
    assert config.root == Path("/n/gpu-1")
    assert config.taints == ("a=b:NoSchedule",)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"gpu": 1}, "unknown key gpu; known are .*gpus"),
        ({"gpus": -1}, "gpus is -1"),
        ({"gpus": 0.5}, "gpus is 0.5"),
        ({"gpus": True}, "gpus is True"),
        ({"cpu": "four"}, "cpu: 'four' is not a quantity"),
        ({"memory": "0"}, "memory is 0"),
        ({"node_name": ""}, "node_name is empty"),
        ({"labels": {"node-role.kubernetes.io/gpu": ""}}, "a node may not set node-role.kubernetes.io/gpu on itself"),
        ({"taints": ["gpu"]}, "taint 'gpu': write key=value:Effect"),
        ({"taints": ["a=b:Never"]}, "one of NoSchedule"),
    ],
)
def test_what_can_not_be_is_named(change: dict[str, Any], words: str) -> None:
    with pytest.raises(AgentConfigError, match=words):
        AgentConfig.from_document({**DOCUMENT, **change})


def test_missing_keys_are_all_named() -> None:
    with pytest.raises(AgentConfigError, match="api_url, root missing"):
        AgentConfig.from_document({key: value for key, value in DOCUMENT.items() if key not in ("root", "api_url")})


@pytest.mark.parametrize("content", ["", "{", None])
def test_file_that_can_not_be_read_is_named(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "agent.json"
    if content is not None:
        file.write_text(content)
    with pytest.raises(AgentConfigError, match=r"agent\.json can not be read"):
        AgentConfig.load(file)


@pytest.mark.parametrize(
    ("label", "allowed"),
    [
        ("workload", True),
        ("nvidia.com/gpu.product", True),
        ("topology.kubernetes.io/zone", True),
        ("node.kubernetes.io/instance-type", True),
        ("node-role.kubernetes.io/gpu", False),
        ("node-restriction.kubernetes.io/team", False),
        ("x.k8s.io/y", False),
        ("notkubernetes.io/y", True),
    ],
)
def test_labels_of_kubernetes_domains_are_an_administrator_s(label: str, allowed: bool) -> None:
    assert is_own_label(label) is allowed


@pytest.mark.parametrize(
    ("text", "taint"),
    [
        ("nvidia.com/gpu=true:NoSchedule", {"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}),
        ("spot:NoExecute", {"key": "spot", "effect": "NoExecute"}),
        ("spot=:PreferNoSchedule", {"key": "spot", "effect": "PreferNoSchedule"}),
    ],
)
def test_taints_are_written_as_kubectl_takes_them(text: str, taint: dict[str, str]) -> None:
    assert parse_taint(text) == taint
