"""The kubelet: from which source, with which configuration."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from sandbox.agent.config import parse_taint
from sandbox.agent.quantities import parse_quantity
from sandbox.binaries import Source, kubernetes_sources
from sandbox.containerd.machine import ETC
from sandbox.containerd.runtime import SOCKET
from sandbox.errors import SandboxError
from sandbox.lifecycle import NodeLifecycle

NO_PRESSURE = {"memory.available": "0%", "nodefs.available": "0%", "imagefs.available": "0%", "nodefs.inodesFree": "0%"}
ELSEWHERE = "192.0.2.1"
"""An address of no machine (RFC 5737): asking for the way there sends nothing."""

KUBELETS = kubernetes_sources("kubelet", "kubelet")
"""The kubelet of each minor version of Kubernetes that can be had."""


def source(kubernetes: str) -> Source:
    """Give the kubelet of a minor version of Kubernetes, `1.37`.

    :raises SandboxError: it is not pinned here.
    """
    if kubernetes not in KUBELETS:
        raise SandboxError(
            f"the kubelet of Kubernetes {kubernetes} is not pinned here; known are {', '.join(KUBELETS)}"
        )
    return KUBELETS[kubernetes]


def configuration(
    *,
    port: int,
    address: str,
    lifecycle: NodeLifecycle,
    taints: tuple[str, ...],
    reserved: Mapping[str, str],
    changes: Mapping[str, Any],
) -> dict[str, Any]:
    """Give a KubeletConfiguration.

    :param address: where it listens, an address of this machine.
    :param taints: each `key=value:Effect`.
    :param reserved: what of the machine's resources no pod may have.
    :param changes: fields to be otherwise.
    """
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": address,
        "port": port,
        "healthzPort": 0,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": False},
            "x509": {"clientCAFile": f"{ETC}/client-ca.crt"},
        },
        # Whom that authority vouches for is the API server, and nobody else.
        "authorization": {"mode": "AlwaysAllow"},
        "tlsCertFile": f"{ETC}/serving.crt",
        "tlsPrivateKeyFile": f"{ETC}/serving.key",
        "containerRuntimeEndpoint": f"unix://{SOCKET}",
        "podLogsDir": "/var/log/pods",
        "cgroupDriver": "cgroupfs",
        "enforceNodeAllocatable": [],
        "failCgroupV1": False,
        "failSwapOn": False,
        "registerWithTaints": [parse_taint(each) for each in taints],
        "systemReserved": dict(reserved),
        "evictionHard": NO_PRESSURE,
        # The images are the cache's, and nothing is won by their removal.
        "imageGCHighThresholdPercent": 100,
        "nodeLeaseDurationSeconds": lifecycle.lease_s,
        "nodeStatusUpdateFrequency": f"{lifecycle.status_s}s",
        "volumePluginDir": "/var/lib/kubelet/volume-plugins",
        **changes,
    }


def reserved(*, cpu: str, memory: str) -> dict[str, str]:
    """Give what no pod may have, so that pods may have these quantities, or all there is where that is less."""
    processors = parse_quantity(os.cpu_count() or 1)
    total = re.search(r"^MemTotal: +(\d+) kB$", Path("/proc/meminfo").read_text(), re.M)
    assert total is not None  # noqa: S101 - proc_meminfo(5)
    left = {"cpu": processors - parse_quantity(cpu), "memory": 1024 * int(total[1]) - parse_quantity(memory)}
    units = {"cpu": Fraction(1, 1000), "memory": Fraction(1)}
    return {
        name: f"{int(amount / units[name])}{'m' if name == 'cpu' else ''}"
        for name, amount in left.items()
        if amount > 0
    }


def own_address() -> str | None:
    """Give an address of this machine that is no loopback: a Node may have no other. None where there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((ELSEWHERE, 9))
        except OSError:
            return None
        address: str = probe.getsockname()[0]
    return None if address.startswith("127.") else address
