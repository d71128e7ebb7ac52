"""What a sandbox leaves in its folder: what it is made of, so that others find it, and what may be removed again."""

from __future__ import annotations

import json
import os
import shutil
import stat
from dataclasses import asdict, dataclass, field
from pathlib import Path

from sandbox.errors import SandboxError
from sandbox.process_spec import RECORD_NAME, SOCKET_NAME
from sandbox.supervisor import LOG_NAME

CLUSTER_NAME = "cluster.json"
KUBECONFIG_NAME = "kubeconfig"
OPERATOR_KUBECONFIG_NAME = "operator.kubeconfig"
LOCK_NAME = "up.lock"
ENTRIES = (
    "certificates",
    "etcd",
    "kueue",
    "kwok",
    "logs",
    "nodes",
    "proxy",
    CLUSTER_NAME,
    KUBECONFIG_NAME,
    OPERATOR_KUBECONFIG_NAME,
    LOG_NAME,
    RECORD_NAME,
    SOCKET_NAME,
)
"""All that a sandbox makes in its folder, besides the lock and drafts, whose names end with `.new`."""
DRAFTS = tuple(f"{name}.new" for name in ENTRIES)
STATE_FOLDER = "state folder"
WAY_OUT = "give another folder (--state DIR)"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRecord:
    """A cluster that came up.

    :param started: seconds since the epoch.
    :param lifecycle: the fields of its :class:`sandbox.lifecycle.NodeLifecycle`.
    """

    api_url: str
    ports: dict[str, int]
    versions: dict[str, str]
    started: float
    lifecycle: dict[str, int] = field(default_factory=dict)

    def write(self, folder: Path) -> None:
        """Write it in one step, so that a reader sees a whole cluster or none."""
        draft = folder / f"{CLUSTER_NAME}.new"
        draft.write_text(json.dumps(asdict(self), indent=2))
        draft.replace(folder / CLUSTER_NAME)

    @classmethod
    def read(cls, folder: Path) -> ClusterRecord | None:
        """Give the record; None where no cluster came up."""
        try:
            return cls(**json.loads((folder / CLUSTER_NAME).read_text()))
        except (OSError, ValueError, TypeError):
            return None


def check_folder(folder: Path) -> None:
    """Refuse a folder with other things in it, since a sandbox removes its entries without asking.

    :raises SandboxError: there are other things in it.
    """
    if folder.exists() and not folder.is_dir():
        raise SandboxError(f"state folder {folder} is no folder: give another one")
    found = {entry.name for entry in folder.iterdir()} if folder.exists() else set()
    foreign = sorted(found - {*ENTRIES, *DRAFTS, LOCK_NAME})
    if foreign:
        raise SandboxError(
            f"state folder {folder} holds {foreign[0]}, which is no sandbox's: give an empty or new folder"
        )


def remove_entries(folder: Path) -> None:
    """Remove all that a sandbox left in its folder, besides the lock."""
    for name in (*ENTRIES, *DRAFTS):
        path = folder / name
        if path.is_dir():
            _remove_tree(path)
        else:
            path.unlink(missing_ok=True)


def _remove_tree(path: Path) -> None:
    try:
        shutil.rmtree(path)
    except PermissionError:
        # What a container wrote may be closed even to its owner.
        for folder, _, _ in os.walk(path):
            os.chmod(folder, stat.S_IRWXU)
        shutil.rmtree(path)
