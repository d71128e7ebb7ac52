"""The kwok controller as a process of a sandbox: it keeps the nodes' leases and plays the lives of their pods."""

from __future__ import annotations

import http.client
import json
import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import yaml

from sandbox.api import Document
from sandbox.binaries import Source, find_binaries
from sandbox.bulk import Request, send_all
from sandbox.certificates import KeyPair
from sandbox.cluster import Sandbox
from sandbox.control_plane import certificate_user, kubeconfig, write_secret_json
from sandbox.lifecycle import NodeLifecycle
from sandbox.ports import HOST, free_ports
from sandbox.progress import Display
from sandbox.supervisor import ProcessSpec
from sandbox.toolchain import SOURCES

PROCESS = "kwok"
KIND_LABEL = "gpu-training.io/node-kind"
KIND = "kwok"
LOST = "kwok-lost"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
LIST_TIMEOUT_S = 60.0
KWOK = Source(
    name="kwok",
    folder=SOURCES / "kwok",
    module="sigs.k8s.io/kwok",
    programs=(("kwok", "sigs.k8s.io/kwok/cmd/kwok"),),
)
STAGES = Path(__file__).with_name("stages.yaml")
PARALLELISM = 16
GRACE_S = 3.0


def start_controller(sandbox: Sandbox, progress: Callable[[str], None] | None = None) -> int:
    """Have the controller run, built first where the cache has none.

    :returns: the port on which it serves its pods' logs, which are empty.
    :raises SandboxError: it can not be had.
    """
    folder = sandbox.folder / "kwok"
    known = folder / "port"
    status = sandbox.supervisor.status().get(PROCESS)
    if status is not None and status.alive:
        return int(known.read_text())
    with closing(Display()) as display:
        program = find_binaries(progress or display, sources=(KWOK,))["kwok"]
    folder.mkdir(parents=True, exist_ok=True)
    # Nodes that exist already name the port of an earlier controller.
    port = int(known.read_text()) if known.exists() else free_ports(1)[0]
    _free_leases(sandbox)
    sandbox.supervisor.run(_process(sandbox, folder, program, port))
    known.write_text(str(port))
    return port


def lease_seconds(lifecycle: NodeLifecycle) -> int:
    """Give how long a lease lasts: a node renews it four times in it, and thousands of nodes can not do so too often.

    A node is lost after `monitor_grace_s` without a renewal, so one comes in well under that.
    """
    return max(1, int(4 * 0.6 * lifecycle.monitor_grace_s))


def list_nodes(sandbox: Sandbox) -> list[Document]:
    """Give the Node objects of kind kwok, lost ones included."""
    path = f"/api/v1/nodes?labelSelector={KIND_LABEL}%20in%20({KIND},{LOST})"
    nodes: list[Document] = sandbox.api.request("GET", path, timeout_s=LIST_TIMEOUT_S)["items"]
    return nodes


def _free_leases(sandbox: Sandbox) -> None:
    """Let a new controller have the nodes of an ended one; else it waits until their leases have run out."""
    leases = [f"{LEASES}/{node['metadata']['name']}" for node in list_nodes(sandbox)]
    requests = [Request(method="DELETE", target=lease) for lease in leases]
    send_all(sandbox.api, requests, allowed=(http.client.NOT_FOUND,))


def _process(sandbox: Sandbox, folder: Path, program: Path, port: int) -> ProcessSpec:
    credentials, site = sandbox.site.credentials, sandbox.site
    user = certificate_user(credentials.user("kwok", "sandbox-kwok", "system:masters"))
    access = kubeconfig(site.api_url, credentials.cluster.certificate, user, namespace="default")
    serving = credentials.cluster.issue(
        credentials.pair("kwok-serving"), common_name="kwok", addresses=[HOST], server=True
    )
    write_secret_json(folder / "kubeconfig", access)
    (folder / "pod.log").touch()
    configuration = folder / "kwok.yaml"
    documents = [_configuration(site.lifecycle, serving, port), _logs(folder), *yaml.safe_load(STAGES.read_text())]
    configuration.write_text("\n---\n".join(map(json.dumps, documents)))
    flags = (f"--kubeconfig={folder / 'kubeconfig'}", f"--config={configuration}", "--v=WARN")
    return ProcessSpec(
        name=PROCESS,
        argv=(str(program), *flags),
        environment={"PATH": os.defpath, "HOME": str(folder)},
        log=sandbox.folder / "logs" / "kwok.log",
        grace_s=GRACE_S,
    )


def _configuration(lifecycle: NodeLifecycle, serving: KeyPair, port: int) -> dict[str, object]:
    options = {
        "manageNodesWithLabelSelector": f"{KIND_LABEL}={KIND}",
        "nodeLeaseDurationSeconds": lease_seconds(lifecycle),
        "nodeLeaseParallelism": PARALLELISM,
        "podPlayStageParallelism": PARALLELISM,
        "nodePlayStageParallelism": PARALLELISM,
        "nodeIP": HOST,
        # Without these its server answers no request for logs.
        "enableDebuggingHandlers": True,
        "serverAddress": f"{HOST}:{port}",
        "tlsCertFile": str(serving.certificate),
        "tlsPrivateKeyFile": str(serving.key),
    }
    return {"apiVersion": "config.kwok.x-k8s.io/v1alpha1", "kind": "KwokConfiguration", "options": options}


def _logs(folder: Path) -> dict[str, object]:
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "ClusterLogs",
        "metadata": {"name": "empty"},
        "spec": {"logs": [{"logsFile": str(folder / "pod.log")}]},
    }
