"""The end of a sandbox, be it up, half up or killed: no process and no file stays."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from sandbox.containerd.cgroups import group_of, remove_group
from sandbox.locks import one_at_a_time
from sandbox.obstacles import explained
from sandbox.progress import Display
from sandbox.state import STATE_FOLDER, check_folder, remove_entries
from sandbox.supervisor import Supervisor, clean_stale


def clean(folder: Path) -> None:
    """End what runs of a folder's cluster, be it up, half up or killed, and remove all of it from the folder.

    :raises SandboxError: the folder holds something else or is another user's, or a process can not be ended.
    """
    folder = folder.resolve()
    with explained(STATE_FOLDER, folder, "act as the user whose it is"):
        check_folder(folder)
        if not folder.exists():
            return
        with closing(Display()) as display, one_at_a_time(folder / "up", display) as lock:
            end_everything(folder)
            lock.unlink()
        folder.rmdir()


def make_way(folder: Path, progress: Callable[[str], None]) -> None:
    """End and remove what an earlier cluster, killed or not, left in a folder that is to have a new one."""
    if ended := end_everything(folder):
        progress(f"sandbox: ended {len(ended)} processes that a killed one left behind")


def end_everything(folder: Path) -> list[int]:
    """End all processes of a folder and remove its entries but for the lock; give the pids that had been left over."""
    if supervisor := Supervisor.attach(folder):
        supervisor.shutdown()
    ended = clean_stale(folder)
    for node in (folder / "nodes").glob("*"):
        remove_group(group_of(node))
    remove_entries(folder)
    return ended
