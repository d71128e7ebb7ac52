"""The node kind `containerd`: its obstacles, its files, its processes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sandbox.binaries import find_binaries
from sandbox.containerd import cgroups, kubelet
from sandbox.containerd.machine import ETC, RECORD
from sandbox.containerd.runtime import SOCKET, write_runtime
from sandbox.containerd.store import Store
from sandbox.control_plane import Credentials, certificate_user, kubeconfig, write_secret_json
from sandbox.errors import SandboxError
from sandbox.ports import free_ports
from sandbox.process_spec import ProcessSpec
from sandbox.status import GPU_RESOURCE

if TYPE_CHECKING:
    from sandbox.nodes import NodeRequest, Site

INCLUDE = Path(__file__).resolve().parents[2]
SEARCH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PROGRAMS = {
    "containerd": "containerd",
    "ctr": "containerd",
    "containerd-shim-runc-v2": "containerd",
    "crun": "crun",
    "debootstrap": "debootstrap",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "mount": "mount",
}
"""What it needs, and the Debian packages that have it."""
OVERLAY = "overlay"
ARCHIVE = "trainer.tar"
PLUGINS = Path("kubelet") / "device-plugins"
PLUGIN = "sandbox.containerd.device_plugin"
IMPORT = ("ctr", "--address", SOCKET, "--namespace", "k8s.io", "images", "import", f"{ETC}/{ARCHIVE}")
MACHINE = ".machine"
DEVICE_PLUGIN = ".device-plugin"
"""How the names of two of its processes end."""
GRACE_S = 5.0
MACHINE_GRACE_S = 20.0


class ContainerdNode:
    """A node that the upstream kubelet makes, with real containers."""

    def obstacle(self) -> str | None:
        """Tell what this machine lacks."""
        if sys.platform != "linux":
            return f"containers are Linux's and this is {sys.platform}: use nodes of kind process, or a Linux machine"
        if os.geteuid() != 0:
            return "only root may make containers: run it as root, or use nodes of kind process"
        missing = [name for name in PROGRAMS if shutil.which(name, path=SEARCH) is None]
        if missing:
            packages = " ".join(sorted({PROGRAMS[name] for name in missing}))
            return f"{', '.join(missing)} is missing: apt-get install {packages}"
        if OVERLAY not in Path("/proc/filesystems").read_text():
            return "the kernel has no overlay file system: modprobe overlay"
        if kubelet.own_address() is None:
            return "the machine has no address but its loopback one, and a Node may not have that: give it a network"
        return cgroups.obstacle()

    def prepare(self, kubernetes: str, progress: Callable[[str], None]) -> None:
        """Make the kubelet of a version of Kubernetes and the images: minutes the first time, then milliseconds."""
        find_binaries(progress, sources=(kubelet.source(kubernetes),))
        Store.prepare(progress)

    def processes(self, request: NodeRequest, site: Site) -> Sequence[ProcessSpec]:
        """Furnish the node's folder and give its machine, containerd, device plugin and kubelet."""
        folder, name = site.node_folder(request.name), site.process_name(request.name)
        _check_overlay(folder)
        binary = find_binaries(_say_nothing, sources=(kubelet.source(site.kubernetes),))["kubelet"]
        self._write_files(request, site)
        python = (sys.executable, "-S", "-m")
        enter = (*python, "sandbox.containerd.entering", str(folder / RECORD))
        commands = {
            f"{name}{MACHINE}": (*python, "sandbox.containerd.machine", str(folder / "settings.json")),
            f"{name}.containerd": (*enter, "containerd", "--config", f"{ETC}/containerd.toml"),
            name: (*enter, *IMPORT, "--then", str(binary), *self._flags(request)),
            f"{name}{DEVICE_PLUGIN}": (sys.executable, "-m", PLUGIN, GPU_RESOURCE, str(request.gpus)),
        }
        return [
            ProcessSpec(
                name=each,
                argv=argv,
                environment={"PATH": SEARCH, "PYTHONPATH": str(INCLUDE), "HOME": str(folder)},
                cwd=folder / PLUGINS if each.endswith(DEVICE_PLUGIN) else None,
                log=site.folder / "logs" / f"{each}.log",
                grace_s=MACHINE_GRACE_S if each.endswith(MACHINE) else GRACE_S,
            )
            for each, argv in commands.items()
        ]

    def _flags(self, request: NodeRequest) -> tuple[str, ...]:
        return (
            f"--config={ETC}/kubelet.json",
            f"--kubeconfig={ETC}/kubeconfig",
            f"--hostname-override={request.name}",
            f"--node-labels={','.join(f'{key}={value}' for key, value in request.labels.items())}",
            "--root-dir=/var/lib/kubelet",
        )

    def _write_files(self, request: NodeRequest, site: Site) -> None:
        folder, credentials = site.node_folder(request.name), site.credentials
        address = kubelet.own_address()
        assert address is not None  # noqa: S101 - else there is an obstacle
        etc = folder / "etc"
        _made(etc)
        _made(folder / PLUGINS)
        settings = {"folder": str(folder), "group": cgroups.group_of(folder)}
        (folder / "settings.json").write_text(json.dumps(settings))
        self._write_identity(request.name, credentials, site.api_url, etc, address)
        write_runtime(etc, address)
        Store.prepare(_say_nothing).furnish(folder / "containerd", etc / ARCHIVE)
        document = kubelet.configuration(
            port=free_ports(1, address)[0],
            address=address,
            lifecycle=site.lifecycle,
            taints=request.taints,
            reserved=kubelet.reserved(cpu=request.cpu, memory=request.memory),
            changes=request.kubelet,
        )
        (etc / "kubelet.json").write_text(json.dumps(document, indent=2))

    def _write_identity(self, name: str, credentials: Credentials, api_url: str, etc: Path, address: str) -> None:
        client = credentials.user(f"node-{name}", f"system:node:{name}", "system:nodes")
        serving = credentials.cluster.issue(
            credentials.pair(f"node-{name}-serving"),
            common_name=f"system:node:{name}",
            organizations=["system:nodes"],
            addresses=[address, name],
            server=True,
        )
        shutil.copy(serving.certificate, etc / "serving.crt")
        shutil.copy(serving.key, etc / "serving.key")
        shutil.copy(credentials.node_client.certificate, etc / "client-ca.crt")
        document = kubeconfig(api_url, credentials.cluster.certificate, certificate_user(client), namespace="default")
        write_secret_json(etc / "kubeconfig", document)


def _check_overlay(folder: Path) -> None:
    """Refuse a folder that can not have the root of a container, as one that is on an overlay itself.

    :raises SandboxError: says what the kernel said.
    """
    with tempfile.TemporaryDirectory(dir=_made(folder)) as scratch:
        parts = {name: _made(Path(scratch, name)) for name in ("lower", "upper", "work", "merged")}
        options = "lowerdir={lower},upperdir={upper},workdir={work}".format(**parts)
        mount = ["mount", "-t", OVERLAY, "-o", options, "node", str(parts["merged"])]
        command = ["unshare", "--mount", "--propagation", "private", "--", *mount]
        tried = subprocess.run(command, capture_output=True, text=True, check=False)
    if tried.returncode:
        raise SandboxError(
            f"nodes of kind containerd can not be in {folder}: {tried.stderr.strip()}: give a state folder on a disk "
            "of its own (ext4, xfs), and run outside of a container that may not mount"
        )


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _say_nothing(_: str) -> None:
    """What the cache has needs no progress."""
