"""What is a machine to a node's programs: a mount namespace in which their usual places are folders of the node.

`python -S -m sandbox.containerd.machine FILE` makes it, says so in `machine.json` and holds it; at SIGTERM it ends what
is left in the node's control groups and removes them. Every path below is short there, as sockets want it, and what is
mounted there goes with the last process in it. Standard library only.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from sandbox.child import die_with_the_parent
from sandbox.containerd.cgroups import remove_group, take_for_all, unshare
from sandbox.containerd.registry import EmptyRegistry
from sandbox.processes import read_process

CLONE_NEWNS = 0x00020000
RECORD = "machine.json"
ETC = "/run/node"
"""Where the node's own configuration is to be found by its programs."""

PLACES: Mapping[str, Mapping[str, str]] = {
    "/var/lib": {"kubelet": "kubelet", "containerd": "containerd"},
    "/var/log": {"pods": "logs/pods", "containers": "logs/containers"},
    "/run": {"containerd": "run/containerd", "crun": "run/crun", "node": "etc"},
}
"""Folders of the node by where its programs find them; their neighbours are seen, what is written to them is lost."""


def main() -> None:
    """Make the machine of a file with keys `folder` and `group`, and hold it until SIGTERM."""
    settings = json.loads(Path(sys.argv[1]).read_text())
    folder, group = Path(settings["folder"]), settings["group"]
    # What one that was killed left; and what is below /run is gone after a power cut.
    remove_group(group)
    shutil.rmtree(folder / "run", ignore_errors=True)
    signals = {signal.SIGTERM, signal.SIGINT, signal.SIGCHLD}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    die = die_with_the_parent()
    inside = os.fork()
    if not inside:
        die()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)
        hold(folder, group)
    ended = signal.sigwait(signals) == signal.SIGCHLD
    (folder / RECORD).unlink(missing_ok=True)
    remove_group(group)
    sys.exit(1 if ended else 0)


def hold(folder: Path, group: str) -> None:
    """Enter the machine, furnish it, say so, and stay."""
    unshare(CLONE_NEWNS)
    _mount("--make-rprivate", "/")
    take_for_all(group)
    registry = EmptyRegistry()
    registry.configure(folder / "etc" / "registries")
    cover(folder)
    own = read_process(os.getpid())
    assert own is not None  # noqa: S101 - it is us
    draft = folder / f"{RECORD}.new"
    draft.write_text(json.dumps({"pid": own.pid, "start": own.start, "group": group}))
    draft.replace(folder / RECORD)
    registry.serve_forever()


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


def _mount(*arguments: str | Path) -> None:
    subprocess.run(["mount", *arguments], check=True)


if __name__ == "__main__":
    main()
