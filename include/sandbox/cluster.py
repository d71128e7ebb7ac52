"""A cluster on this machine: up, down, and what it is meanwhile."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from functools import partial
from pathlib import Path

from sandbox import manifests
from sandbox.api import Api
from sandbox.binaries import control_plane, find_binaries
from sandbox.control_plane import HOST, Credentials, certificate_user, kubeconfig, write_secret_json
from sandbox.disposal import clean, make_way
from sandbox.errors import SandboxError
from sandbox.lifecycle import USUAL, NodeLifecycle
from sandbox.locks import one_at_a_time
from sandbox.nodes import KINDS, NodeRequest, Site, prepare_nodes
from sandbox.obstacles import check_space, explained
from sandbox.plan import Plan, choose_version, minor_version
from sandbox.progress import Display
from sandbox.startup import PROGRAMS, check_processes, start_control_plane
from sandbox.state import (
    KUBECONFIG_NAME,
    OPERATOR_KUBECONFIG_NAME,
    STATE_FOLDER,
    WAY_OUT,
    ClusterRecord,
    check_folder,
)
from sandbox.status import SandboxStatus, is_node_ready, read_status
from sandbox.supervisor import Supervisor
from sandbox.waiting import wait_for

__all__ = ["DEFAULT_FOLDER", "NodeRequest", "Sandbox", "SandboxStatus", "clean"]

DEFAULT_FOLDER = Path(__file__).resolve().parents[2] / ".state" / "sandbox"
SETTLE_DEADLINE_S = 120.0
NODE_DEADLINE_S = 120.0
NEEDED_BYTES = 256 << 20
"""Twice what a new cluster's folder takes, most of it what etcd sets aside."""


class Sandbox:
    """A running cluster. Each has a folder and ports of its own; any number run at once.

    A cluster begins empty: what an earlier one in the same folder held is gone.

    :ivar kubeconfig: whoever has it may do everything.
    :ivar operator_kubeconfig: the service account `airflow` of namespace `gpu-training`, with the Role of
        `include/manifests` and no more.
    """

    def __init__(self, folder: Path, supervisor: Supervisor, record: ClusterRecord) -> None:
        self.folder = folder
        self.kubeconfig = folder / KUBECONFIG_NAME
        self.operator_kubeconfig = folder / OPERATOR_KUBECONFIG_NAME
        self.api_url = record.api_url
        self.supervisor = supervisor
        self._record = record
        credentials = Credentials(folder / "certificates")
        self.api = Api(record.api_url, credentials.cluster.certificate, credentials.pair("admin"))
        times = NodeLifecycle(**record.lifecycle)
        self.site = Site(
            folder=folder,
            api_url=record.api_url,
            credentials=credentials,
            lifecycle=times,
            kubernetes=minor_version(record.versions["kubernetes"]),
        )

    @classmethod
    def up(
        cls,
        folder: Path = DEFAULT_FOLDER,
        *,
        nodes: Sequence[NodeRequest] = (NodeRequest(),),
        lifecycle: NodeLifecycle = USUAL,
        kubernetes: str | None = None,
        owner_pid: int | None = None,
        progress: Callable[[str], None] | None = None,
    ) -> Sandbox:
        """Give the folder's cluster, started if none runs, with at least these nodes, which are Ready.

        Up means: the API server serves, the controllers are at work, `include/manifests` are applied. What a killed
        sandbox left in the folder is ended first. On failure nothing is left running, and the logs stay in the folder.

        :param lifecycle: how fast lost nodes are noticed, in a cluster started here; default: as Kubernetes has it.
        :param kubernetes: minor version, `1.34`; None: `$K8S_VERSION`, else a running cluster's own, else the newest.
        :param owner_pid: a cluster started here ends when this process does, in whatever way; None: it runs until
            `down`.
        :param progress: told `subject: state` texts; None: they are shown on standard error.
        :raises SandboxError: it can not be had; the message says why, with the end of the log of what failed.
        """
        folder = folder.resolve()
        with closing(Display()) as display, explained(STATE_FOLDER, folder, WAY_OUT):
            check_folder(folder)
            running = cls.attach(folder)
            version = choose_version(kubernetes, running._record.versions["kubernetes"] if running else None, folder)
            plan = Plan(nodes=nodes, lifecycle=lifecycle, sources=control_plane(version))
            return cls._up(folder, plan, owner_pid, progress or display)

    @classmethod
    def _up(cls, folder: Path, plan: Plan, owner_pid: int | None, progress: Callable[[str], None]) -> Sandbox:
        prepare_nodes(plan.nodes, minor_version(plan.versions["kubernetes"]), progress)
        binaries = find_binaries(progress, sources=plan.sources)
        started = time.monotonic()
        with one_at_a_time(folder / "up", progress):
            running = cls.attach(folder)
            if running is not None and running.api.is_ready():
                for node in plan.nodes:
                    running.add_node(node)
                return running
            fresh = cls._start(folder, binaries, owner_pid, plan, progress)
        progress(f"sandbox: up in {time.monotonic() - started:.1f} s")
        return fresh

    @classmethod
    def _start(
        cls,
        folder: Path,
        binaries: Mapping[str, Path],
        owner_pid: int | None,
        plan: Plan,
        progress: Callable[[str], None],
    ) -> Sandbox:
        make_way(folder, progress)
        check_space(STATE_FOLDER, folder, NEEDED_BYTES, WAY_OUT)
        credentials = Credentials(folder / "certificates")
        credentials.create()
        # Killed half way, it has an owner who is gone, whoever it was to belong to.
        supervisor = Supervisor.start(folder, owner_pid=os.getpid() if owner_pid is None else owner_pid)
        try:
            progress("sandbox: starting the control plane")
            ports = start_control_plane(folder, binaries, supervisor, credentials, lifecycle=plan.lifecycle)
            record = ClusterRecord(
                api_url=f"https://{HOST}:{ports.api}",
                ports={"api": ports.api, "etcd": ports.etcd},
                versions=plan.versions,
                started=time.time(),
                lifecycle=asdict(plan.lifecycle),
            )
            sandbox = cls(folder, supervisor, record)
            sandbox._settle(plan.nodes, progress)
            record.write(folder)
            if owner_pid is None:
                supervisor.release()
        except BaseException:
            supervisor.shutdown()
            raise
        return sandbox

    @classmethod
    def attach(cls, folder: Path = DEFAULT_FOLDER) -> Sandbox | None:
        """Give the folder's cluster; None when none is up."""
        folder = folder.resolve()
        record = ClusterRecord.read(folder)
        supervisor = Supervisor.attach(folder) if record else None
        return cls(folder, supervisor, record) if supervisor and record else None

    def add_node(self, node: NodeRequest) -> None:
        """Add a node and wait until it is Ready; one of that name that runs is left as it is.

        :raises SandboxError: it ended or did not become Ready in time.
        """
        with closing(Display()) as display, explained(STATE_FOLDER, self.folder, WAY_OUT):
            prepare_nodes([node], self.site.kubernetes, display)
            self._launch(node)
        self._await_nodes([node.name])

    def remove_node(self, name: str) -> None:
        """End a node's processes, its pods with them, and delete it from the cluster.

        :raises SandboxError: there is no such node.
        """
        processes = self.processes_of(name)
        if not processes:
            raise SandboxError(f"no node is named {name!r}: `python -m sandbox status` lists those that are")
        for process in reversed(processes):
            self.supervisor.remove(process)
        for pod in self.api.request("GET", "/api/v1/pods", query={"fieldSelector": f"spec.nodeName={name}"})["items"]:
            # Nobody is left who could confirm their end, so they are not waited for.
            options = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}
            path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
            self.api.request("DELETE", path, options)
        if self.api.exists(f"/api/v1/nodes/{name}"):
            self.api.request("DELETE", f"/api/v1/nodes/{name}")

    def status(self) -> SandboxStatus:
        """Look at processes, nodes and pods."""
        return read_status(self.folder, self._record, self.supervisor, self.api)

    def down(self) -> None:
        """End every process and remove everything from the folder; returns when all is gone."""
        clean(self.folder)

    def _settle(self, nodes: Sequence[NodeRequest], progress: Callable[[str], None]) -> None:
        for node in nodes:
            self._launch(node)
        manifests.apply(self.api)
        self._write_kubeconfigs()
        progress("sandbox: waiting for controllers and nodes")
        self._wait(PROGRAMS, SETTLE_DEADLINE_S, "the default service accounts", lambda: manifests.is_settled(self.api))
        self._await_nodes(node.name for node in nodes)

    def _write_kubeconfigs(self) -> None:
        authority = self.site.credentials.cluster.certificate
        admin = certificate_user(self.site.credentials.pair("admin"))
        operator = {"token": manifests.operator_token(self.api)}
        for path, user, namespace in (
            (self.kubeconfig, admin, "default"),
            (self.operator_kubeconfig, operator, manifests.NAMESPACE),
        ):
            write_secret_json(path, kubeconfig(self.api_url, authority, user, namespace=namespace))

    def _launch(self, node: NodeRequest) -> None:
        status = self.supervisor.status().get(self.site.process_name(node.name))
        if status is not None and status.alive:
            return
        for spec in KINDS[node.kind].processes(node, self.site):
            self.supervisor.run(spec)

    def _await_nodes(self, names: Iterable[str]) -> None:
        for name in names:
            log = self.folder / "logs" / f"{self.site.process_name(name)}.log"
            what = f"node {name} to be Ready, whose log is {log}"
            self._wait(self.processes_of(name), NODE_DEADLINE_S, what, partial(self._is_node_ready, name))

    def processes_of(self, node: str) -> list[str]:
        """Give the names of a node's own processes, in the order in which they were started; none: no such node."""
        first = self.site.process_name(node)
        return [name for name in self.supervisor.status() if name == first or name.startswith(f"{first}.")]

    def _is_node_ready(self, name: str) -> bool:
        path = f"/api/v1/nodes/{name}"
        return self.api.exists(path) and is_node_ready(self.api.request("GET", path))

    def _wait(self, processes: Collection[str], deadline_s: float, what: str, condition: Callable[[], object]) -> None:
        """Wait for a condition while none of these processes may end."""

        def is_met() -> object:
            check_processes(self.folder, self.supervisor, processes)
            return condition()

        wait_for(is_met, deadline_s, what)
