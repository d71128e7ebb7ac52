"""Volumes on disk, in the layout of a kubelet: programs that follow `..data` for changes find it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from sandbox.agent.volumes import VolumeFile

_CURRENT = "..data"


def make_folder(folder: Path, *, mode: int = 0o777) -> None:
    """Make the folder of a volume, writable for every container whatever its user, as emptyDir is."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(mode)


def write_files(folder: Path, files: Mapping[str, VolumeFile]) -> bool:
    """Make the folder hold exactly these files; whoever reads sees all of the old or all of the new ones.

    :return: whether anything changed.
    """
    make_folder(folder, mode=0o755)
    current = folder / _CURRENT
    if current.exists() and _read(current) == files:
        return False
    fresh = Path(tempfile.mkdtemp(prefix="..20", dir=folder))
    fresh.chmod(0o755)
    for path, file in files.items():
        target = fresh / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(file.content)
        target.chmod(file.mode)
    old = folder / os.readlink(current) if current.is_symlink() else None
    pending = folder / "..data_tmp"
    pending.unlink(missing_ok=True)
    pending.symlink_to(fresh.name)
    pending.rename(current)
    _link_names(folder, {path.split("/")[0] for path in files})
    if old is not None:
        shutil.rmtree(old)
    return True


def _read(current: Path) -> dict[str, VolumeFile]:
    found = {}
    for folder, _, names in os.walk(current):
        for name in names:
            file = Path(folder, name)
            mode = file.stat().st_mode & 0o7777
            found[file.relative_to(current).as_posix()] = VolumeFile(content=file.read_bytes(), mode=mode)
    return found


def _link_names(folder: Path, names: set[str]) -> None:
    """Have each name of the volume lead through `..data`, and nothing else be there."""
    for entry in folder.iterdir():
        if not entry.name.startswith("..") and entry.name not in names:
            entry.unlink()
    for name in names:
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(f"{_CURRENT}/{name}")
