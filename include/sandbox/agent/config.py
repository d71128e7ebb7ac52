"""The agent's configuration: one JSON document, written by whoever runs the node.

The agent sets on its Node itself: `labels` (any outside of the kubernetes.io and k8s.io domains, and of those only what
NodeRestriction lets a kubelet set), and `taints`, which a kubelet may set only when it creates the Node. Every other
label (`node-role.kubernetes.io/...`) is for an administrator to apply afterwards.
https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#noderestriction
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sandbox.agent.quantities import QuantityError, parse_quantity
from sandbox.errors import SandboxError

TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")

_OWN_LABEL = re.compile(
    r"(beta\.)?kubernetes\.io/(arch|os|hostname|instance-type)|node\.kubernetes\.io/.+|kubelet\.kubernetes\.io/.+"
    r"|(topology|failure-domain\.beta)\.kubernetes\.io/(region|zone)"
)
_TAINT = re.compile(r"(?P<key>[^=:]+)(=(?P<value>[^=:]*))?:(?P<effect>[A-Za-z]+)")


class AgentConfigError(SandboxError):
    """A key of the configuration that the agent can not work with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConfig:
    """What one node is.

    :param node_name: name of the Node; the client certificate is for `system:node:<node_name>` of `system:nodes`.
    :param api_url: `https://host:port` of the API server.
    :param ca_file: certificate authority of the API server.
    :param client_cert: client certificate of the node, and `client_key` its key.
    :param serving_cert: certificate of the node's own TLS server (logs), and `serving_key` its key.
    :param client_ca_file: authority whose clients may read logs: that of the API server's kubelet client certificate.
    :param root: folder of this node alone: pods' files, logs, records, `ready.json`.
    :param gpus: how many `nvidia.com/gpu` the Node counts. Counted, never given.
    :param cpu: capacity, a quantity. Nothing enforces it: the scheduler counts it.
    :param memory: capacity, a quantity. Nothing enforces it.
    :param pods: how many pods the Node takes.
    :param labels: labels that the Node gets beside the kubelet's own.
    :param taints: taints that the Node is created with, each `key=value:Effect`.
    :param images: the YAML file that says which images exist.
    :param address: where the node's server listens, and the Node's InternalIP.
    :param port: port of the node's server; 0 takes a free one, written to `<root>/ready.json`.
    :param lease_seconds: how long the node lease lasts; it is renewed four times in that time.
    :param status_seconds: how often the agent looks whether the Node still says what it should.
    """

    node_name: str
    api_url: str
    ca_file: Path
    client_cert: Path
    client_key: Path
    serving_cert: Path
    serving_key: Path
    client_ca_file: Path
    root: Path
    images: Path
    gpus: int = 1
    cpu: str = "4"
    memory: str = "8Gi"
    pods: int = 110
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[str, ...] = ()
    address: str = "127.0.0.1"
    port: int = 0
    lease_seconds: int = 40
    status_seconds: int = 10

    def __post_init__(self) -> None:
        if not self.node_name:
            raise AgentConfigError("node_name is empty; give the Node's name")
        for name, lowest in (("gpus", 0), ("pods", 1), ("port", 0), ("lease_seconds", 1), ("status_seconds", 1)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < lowest:
                raise AgentConfigError(f"{name} is {value!r}; a whole number from {lowest} up is needed")
        for name in ("cpu", "memory"):
            _check_capacity(name, getattr(self, name))
        for label in self.labels:
            if not is_own_label(label):
                raise AgentConfigError(
                    f"labels: a node may not set {label} on itself (NodeRestriction); an administrator has to"
                )
        for taint in self.taints:
            parse_taint(taint)

    @classmethod
    def load(cls, path: Path) -> AgentConfig:
        """Read the configuration.

        :raises AgentConfigError: when a key is missing, unknown or has a value that can not be.
        """
        try:
            document = json.loads(path.read_text())
        except (OSError, ValueError) as error:
            raise AgentConfigError(f"{path} can not be read: {error}") from error
        return cls.from_document(document)

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> AgentConfig:
        """Build the configuration from its JSON form; see :meth:`load`."""
        fields = {f.name: f for f in dataclasses.fields(cls)}
        if unknown := sorted(set(document) - set(fields)):
            raise AgentConfigError(f"unknown key {unknown[0]}; known are {', '.join(sorted(fields))}")
        required = {
            name
            for name, f in fields.items()
            if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
        }
        if missing := sorted(required - set(document)):
            raise AgentConfigError(f"{', '.join(missing)} missing; the agent needs {', '.join(sorted(required))}")
        values: dict[str, Any] = dict(document)
        for name, f in fields.items():
            if f.type == "Path" and name in values:
                values[name] = Path(values[name])
        values["taints"] = tuple(values.get("taints", ()))
        return cls(**values)


def is_own_label(name: str) -> bool:
    """Whether a kubelet may set this label on its own Node."""
    domain = name.rpartition("/")[0]
    restricted = re.fullmatch(r"(.+\.)?(kubernetes\.io|k8s\.io)", domain) is not None
    return not restricted or _OWN_LABEL.fullmatch(name) is not None


def parse_taint(text: str) -> dict[str, str]:
    """Return the taint that `key=value:Effect` or `key:Effect` stands for.

    :raises AgentConfigError: when it is neither.
    """
    match = _TAINT.fullmatch(text)
    if match is None or match["effect"] not in TAINT_EFFECTS:
        raise AgentConfigError(f"taint {text!r}: write key=value:Effect, Effect one of {', '.join(TAINT_EFFECTS)}")
    taint = {"key": match["key"], "effect": match["effect"]}
    return taint | {"value": match["value"]} if match["value"] else taint


def _check_capacity(name: str, value: str) -> None:
    try:
        amount = parse_quantity(value)
    except QuantityError as error:
        raise AgentConfigError(f"{name}: {error}") from error
    if amount <= 0:
        raise AgentConfigError(f"{name} is {value}; a node needs more than nothing")
