"""From a pod's container to what is started: image, environment, command, mounts."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sandbox.agent import environment
from sandbox.agent.context import PodContext
from sandbox.agent.environment import ContainerConfigError, expand
from sandbox.agent.images import Image
from sandbox.agent.namespaces import REMEDY
from sandbox.agent.objects import ObjectUnavailableError
from sandbox.agent.probes import ProbeKind
from sandbox.agent.processes import LaunchSpec

Document = Mapping[str, Any]

_NOT_HERE = {
    "lifecycle": "hooks",
    "volumeDevices": "block volumes",
    "restartPolicy": "restart policy of a container, and so no sidecars",
}
"""What would silently not happen, so a container that asks for it is refused."""


async def build_launch(
    pod: PodContext, container: Document, image: Image, folder: Path, record: Document
) -> LaunchSpec:
    """Return what the container is started from; its folder gets the files that are mounted.

    :raises ContainerConfigError: when something it refers to is missing, or this node can not give it.
    """
    if refusal := find_unsupported(container):
        raise ContainerConfigError(refusal)
    try:
        sources = await pod.objects.read(sorted(environment.referenced_sources(container)))
    except ObjectUnavailableError as error:
        raise ContainerConfigError(str(error)) from error
    node = pod.node
    given = environment.build_environment(
        _with_addresses(pod),
        container,
        sources=sources,
        services=environment.service_variables(pod.document, node.services()),
        allocatable=node.allocatable,
    )
    home = folder / "home"
    home.mkdir(exist_ok=True)
    host = pod.host_name
    # What a container runtime adds where nothing else says otherwise. HOME is a folder of the container's own: in the
    # user's home it would find credentials that no image has.
    added = {"HOSTNAME": host or os.uname().nodename, "HOME": str(home)}
    variables = {**added, **image.environment, **given}
    return LaunchSpec(
        command=environment.build_command(container, image.command, given),
        environment=variables,
        working_directory=container.get("workingDir") or image.working_directory,
        private=node.namespace_fault is None,
        mounts=_mounts(pod, container, folder, given),
        host_name=host,
        record=record,
    )


def find_unsupported(container: Document) -> str | None:
    """Return why this kind of node can not run the container, or None. Pure."""
    for key, what in _NOT_HERE.items():
        if container.get(key):
            return f"{key}: nodes of kind process have no {what}; drop it, or use another node kind"
    for kind in ProbeKind:
        if "grpc" in (container.get(kind.key) or {}):
            return f"{kind.key}: nodes of kind process ask no gRPC service; use exec, httpGet or tcpSocket"
    return None


def _with_addresses(pod: PodContext) -> Document:
    address = pod.node.config.address
    status = {"hostIP": address, "hostIPs": [{"ip": address}], "podIP": address, "podIPs": [{"ip": address}]}
    return {**pod.document, "status": {**(pod.document.get("status") or {}), **status}}


def _mounts(pod: PodContext, container: Document, folder: Path, variables: Mapping[str, str]) -> list[dict[str, Any]]:
    mounts = [_volume_mount(pod, one, variables) for one in container.get("volumeMounts") or ()]
    message = folder / "termination-log"
    message.touch()
    message.chmod(0o666)
    mounts.append({"source": str(message), "target": container.get("terminationMessagePath") or "/dev/termination-log"})
    if pod.node.namespace_fault is not None:
        raise ContainerConfigError(
            f"{mounts[0]['target']} needs a mount of the container's own, and this machine allows none "
            f"({pod.node.namespace_fault}): {REMEDY}"
        )
    if pod.host_name and not any(one["target"] == "/etc/hosts" for one in mounts) and Path("/etc/hosts").exists():
        hosts = folder / "hosts"
        hosts.write_text(f"{Path('/etc/hosts').read_text()}\n{_host_lines(pod)}")
        mounts.append({"source": str(hosts), "target": "/etc/hosts"})
    return mounts


def _host_lines(pod: PodContext) -> str:
    own = {"ip": pod.node.config.address, "hostnames": [pod.host_name]}
    aliases = [own, *(pod.document["spec"].get("hostAliases") or ())]
    return "".join(f"{one['ip']}\t{' '.join(one.get('hostnames') or ())}\n" for one in aliases)


def _volume_mount(pod: PodContext, mount: Document, variables: Mapping[str, str]) -> dict[str, Any]:
    volume = next(one for one in pod.document["spec"]["volumes"] if one["name"] == mount["name"])
    source = pod.volume_folder(mount["name"])
    below = mount.get("subPath") or expand(mount.get("subPathExpr") or "", variables)
    if posixpath.isabs(below) or ".." in below.split("/"):
        raise ContainerConfigError(f'volumeMount "{mount["name"]}": subPath {below!r} leads out of the volume')
    written_by_node = "emptyDir" not in volume
    return {
        "source": str(source / below),
        "target": mount["mountPath"],
        "read_only": bool(mount.get("readOnly")) or written_by_node,
    }
