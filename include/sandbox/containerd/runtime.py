"""The container runtime's own files: containerd's configuration, its way to no registry, the pods' network."""

from __future__ import annotations

import json
from pathlib import Path

from sandbox.containerd.images import PAUSE, REGISTRY
from sandbox.containerd.machine import ETC

SOCKET = "/run/containerd/containerd.sock"
CONTAINERD = f"""\
version = 2
root = "/var/lib/containerd"
state = "/run/containerd"

[grpc]
  address = "{SOCKET}"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{REGISTRY}{PAUSE}:1"
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{ETC}/network"
    conf_dir = "{ETC}/network"
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "{ETC}/registries"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      BinaryName = "crun"
"""

NETWORK = """\
#!/bin/sh
# Gives a pod the machine's own network: the sandbox's services listen on 127.0.0.1, and there a pod has to reach them.
# The name of the namespace that containerd made for the pod is made to mean the machine's.
set -eu
machine=/proc/self/ns/net
is_the_machines() { [ "$(stat -L -c %i "$CNI_NETNS")" = "$(stat -L -c %i $machine)" ]; }
case "$CNI_COMMAND" in
ADD)
    is_the_machines || mount --bind $machine "$CNI_NETNS"
    cat <<'END'
@RESULT@
END
    ;;
DEL)
    if [ -n "${CNI_NETNS:-}" ] && [ -e "$CNI_NETNS" ] && is_the_machines; then umount "$CNI_NETNS"; fi
    ;;
VERSION)
    echo '{"cniVersion": "1.0.0", "supportedVersions": ["0.3.1", "0.4.0", "1.0.0"]}'
    ;;
esac
"""

LOOPBACK = """\
#!/bin/sh
# The machine's loopback interface is up. The usual plugin would take it down at a pod's end.
case "$CNI_COMMAND" in
ADD) echo '{"cniVersion": "0.3.1", "interfaces": [], "ips": []}' ;;
VERSION) echo '{"cniVersion": "1.0.0", "supportedVersions": ["0.3.1", "0.4.0", "1.0.0"]}' ;;
esac
"""
PLUGIN = "machine-network"


def write_runtime(folder: Path, address: str) -> None:
    """Write all of it into the node's folder that its programs see as :data:`ETC`.

    :param address: what pods are told is theirs.
    """
    (folder / "containerd.toml").write_text(CONTAINERD)
    network = folder / "network"
    network.mkdir(exist_ok=True)
    result = {
        "cniVersion": "1.0.0",
        "interfaces": [{"name": "eth0", "sandbox": ""}],
        "ips": [{"address": f"{address}/32", "interface": 0}],
    }
    plugins = {PLUGIN: NETWORK.replace("@RESULT@", json.dumps(result)), "loopback": LOOPBACK}
    for name, script in plugins.items():
        (network / name).write_text(script)
        (network / name).chmod(0o755)
    configuration = {"cniVersion": "1.0.0", "name": "machine", "plugins": [{"type": PLUGIN}]}
    (network / "10-machine.conflist").write_text(json.dumps(configuration))
