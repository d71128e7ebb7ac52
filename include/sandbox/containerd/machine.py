"""What is a machine to a node's programs: a mount namespace in which their usual places are folders of the node.

`python -S -m sandbox.containerd.machine FILE` makes it, in a namespace that is its own already, says so in
`machine.json` and holds it; at SIGTERM it ends what is left in the node's control groups and removes them. Every path
below is short there, as sockets want it, and goes with the last process in it. Standard library only.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from sandbox.containerd.cgroups import UNIFIED, remove_group
from sandbox.processes import read_process

RECORD = "machine.json"
ETC = "/run/node"
"""Where the node's own configuration is to be found by its programs."""

PLACES: Mapping[str, Mapping[str, str]] = {
    "/var/lib": {"kubelet": "kubelet", "containerd": "containerd"},
    "/var/log": {"pods": "logs/pods", "containers": "logs/containers"},
    "/run": {"containerd": "run/containerd", "crun": "run/crun", "node": "etc"},
}
"""Folders of the node by where its programs find them; their neighbours stay as they are, and writable by nobody."""


def main() -> None:
    """Make the machine of a file with keys `folder` and `group`, and hold it until SIGTERM."""
    settings = json.loads(Path(sys.argv[1]).read_text())
    folder = Path(settings["folder"])
    signals = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    # What one that was killed left.
    remove_group(settings["group"])
    _leave_the_unified_hierarchy()
    cover(folder)
    own = read_process(os.getpid())
    assert own is not None  # noqa: S101 - it is us
    draft = folder / f"{RECORD}.new"
    draft.write_text(json.dumps({"pid": own.pid, "start": own.start}))
    draft.replace(folder / RECORD)
    signal.sigwait(signals)
    (folder / RECORD).unlink(missing_ok=True)
    remove_group(settings["group"])


def cover(folder: Path) -> None:
    """Put the node's folders at their places."""
    work = folder / "mounts"
    work.mkdir(exist_ok=True)
    _mount("-t", "tmpfs", "-o", "size=16m,mode=755", "node", work)
    for place, folders in PLACES.items():
        name = place.strip("/").replace("/", "-")
        upper, scratch, merged = (work / f"{name}-{part}" for part in ("upper", "scratch", "merged"))
        for each in (upper, scratch, merged):
            each.mkdir()
        _mount("-t", "overlay", "-o", f"lowerdir={place},upperdir={upper},workdir={scratch}", "node", merged)
        for target, source in folders.items():
            (folder / source).mkdir(parents=True, exist_ok=True)
            (merged / target).mkdir(parents=True, exist_ok=True)
            _mount("--rbind", folder / source, merged / target)
    for place in PLACES:
        _mount("--rbind", work / f"{place.strip('/').replace('/', '-')}-merged", place)


def _leave_the_unified_hierarchy() -> None:
    # crun takes a hybrid machine for one of version 2 and finds no controllers: only version 1 is to be seen.
    if os.path.ismount(UNIFIED):
        subprocess.run(["umount", "--lazy", UNIFIED], check=True)


def _mount(*arguments: str | Path) -> None:
    subprocess.run(["mount", *arguments], check=True)


if __name__ == "__main__":
    main()
