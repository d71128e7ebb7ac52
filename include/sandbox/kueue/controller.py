"""Kueue's controller as a process of a sandbox."""

from __future__ import annotations

import http.client
import json
import os
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

from sandbox.api import ApiError, Document
from sandbox.binaries import Source, find_binaries
from sandbox.building import Edit
from sandbox.bulk import Request, send_all
from sandbox.certificates import KeyPair
from sandbox.cluster import Sandbox
from sandbox.control_plane import certificate_user, kubeconfig, write_secret_json
from sandbox.errors import SandboxError
from sandbox.kueue import installation
from sandbox.kueue.installation import NAMESPACE, VISIBILITY, VISIBILITY_GROUP, VISIBILITY_VERSIONS, Address
from sandbox.kueue.queues import VERSION, Flavor
from sandbox.ports import HOST, free_ports
from sandbox.progress import Display
from sandbox.startup import check_processes
from sandbox.supervisor import ProcessSpec
from sandbox.toolchain import SOURCES
from sandbox.waiting import wait_for

PROCESS = "kueue"
CERTIFICATES = "certificates"
KUEUE = Source(
    name="kueue",
    folder=SOURCES / "kueue",
    module="sigs.k8s.io/kueue",
    programs=(("kueue", "sigs.k8s.io/kueue/cmd/kueue"),),
    files=(installation.CRDS, installation.WEBHOOKS),
    # It looks for two of its certificates in folders that only root may make, and that all sandboxes would share.
    edits=(
        Edit(file="cmd/kueue/main.go", old='"/etc/kueue/metrics/certs"', new=f'"{CERTIFICATES}"'),
        Edit(file="pkg/visibility/server.go", old='"/visibility"', new=f'"{CERTIFICATES}"'),
    ),
)
KINDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
PORTS = ("webhook", "visibility", "health", "metrics")
READY_DEADLINE_S = 180.0
STARTING = (
    0,
    # Its API server takes everybody for a stranger until it has read who may ask for others.
    http.client.FORBIDDEN,
    http.client.NOT_FOUND,
    http.client.INTERNAL_SERVER_ERROR,
    http.client.SERVICE_UNAVAILABLE,
)
"""Answers while the controller comes up."""
GRACE_S = 5.0


def install(sandbox: Sandbox, progress: Callable[[str], None] | None = None) -> None:
    """Have Kueue run, built first where the cache has none; returns when queues can be made and Jobs queued.

    Jobs without a queue are none of its business. A controller that ended is started again.

    :param progress: told how the build goes; None: it is shown on standard error.
    :raises SandboxError: it can not be had, or it ended; the message has the end of its log.
    """
    status = sandbox.supervisor.status().get(PROCESS)
    if status is not None and status.alive:
        _await_ready(sandbox)
        return
    with closing(Display()) as display:
        program = find_binaries(progress or display, sources=(KUEUE,))[PROCESS]
    folder = sandbox.folder / "kueue"
    ports = _ports(folder)
    address = Address(
        webhook_port=ports["webhook"],
        visibility_port=ports["visibility"],
        authority=sandbox.site.credentials.cluster.certificate,
    )
    sandbox.api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    kinds = list(installation.kinds(program.parent, address))
    # Created, not applied: to merge the schema of Workload anew takes the API server many seconds.
    send_all(
        sandbox.api,
        [Request(method="POST", target=KINDS, body=kind) for kind in kinds],
        allowed=(http.client.CONFLICT,),
        timeout_s=READY_DEADLINE_S,
    )
    for document in installation.visibility(address):
        sandbox.api.apply(document)
    # One that it does not find at its start it gives up for.
    wait_for(lambda: _are_served(sandbox, kinds), READY_DEADLINE_S, "Kueue's kinds to be served")
    sandbox.supervisor.run(_process(sandbox, folder, program, address, ports))
    for document in installation.webhooks(program.parent, address):
        sandbox.api.apply(document)
    _await_ready(sandbox)


def _ports(folder: Path) -> dict[str, int]:
    """Give the ports of an earlier controller, which webhooks and services name, else free ones."""
    file = folder / "ports.json"
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(dict(zip(PORTS, free_ports(len(PORTS)), strict=True))))
    ports: dict[str, int] = json.loads(file.read_text())
    return ports


def _process(sandbox: Sandbox, folder: Path, program: Path, address: Address, ports: dict[str, int]) -> ProcessSpec:
    credentials = sandbox.site.credentials
    certificates = folder / CERTIFICATES
    credentials.cluster.issue(
        KeyPair(certificate=certificates / "tls.crt", key=certificates / "tls.key"),
        common_name="kueue",
        addresses=[HOST, f"{VISIBILITY}.{NAMESPACE}.svc"],
        server=True,
    )
    user = certificate_user(credentials.user("kueue", "sandbox-kueue", "system:masters"))
    access = kubeconfig(sandbox.api_url, credentials.cluster.certificate, user, namespace=NAMESPACE)
    write_secret_json(folder / "kubeconfig", access)
    configuration = folder / "kueue.yaml"
    configuration.write_text(
        installation.configuration(
            address, certificates=certificates, health_port=ports["health"], metrics_port=ports["metrics"]
        )
    )
    return ProcessSpec(
        name=PROCESS,
        argv=(str(program), f"--kubeconfig={folder / 'kubeconfig'}", f"--config={configuration}"),
        environment={"PATH": os.defpath, "HOME": str(folder)},
        log=sandbox.folder / "logs" / "kueue.log",
        cwd=folder,
        grace_s=GRACE_S,
    )


def _are_served(sandbox: Sandbox, kinds: Sequence[Document]) -> bool:
    served = set()
    if sandbox.api.exists(f"/apis/{VERSION}"):
        served = {resource["name"] for resource in sandbox.api.request("GET", f"/apis/{VERSION}")["resources"]}
    return served.issuperset(kind["spec"]["names"]["plural"] for kind in kinds)


def _await_ready(sandbox: Sandbox) -> None:
    wait_for(lambda: _is_ready(sandbox), READY_DEADLINE_S, "Kueue, whose log is logs/kueue.log in the state folder")


def _is_ready(sandbox: Sandbox) -> bool:
    """Tell whether a webhook answers and the API server leads to that of the controller."""
    check_processes(sandbox.folder, sandbox.supervisor, (PROCESS,))
    flavor = Flavor(name="is-kueue-ready").document()
    try:
        for path, query in (
            (f"/apis/{VERSION}/resourceflavors", {"dryRun": "All"}),
            *((f"/apis/{VISIBILITY_GROUP}/{version}", None) for version in VISIBILITY_VERSIONS),
        ):
            sandbox.api.request("POST" if query else "GET", path, flavor if query else None, query=query)
    except ApiError as error:
        if error.status in STARTING:
            return False
        raise SandboxError(f"Kueue does not take queues: {error}") from error
    return True
