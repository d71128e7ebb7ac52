"""How a run of a container ended, from what it left in its folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sandbox.agent.logs import read_tail
from sandbox.agent.processes import Exit
from sandbox.agent.states import Terminated, lost_end
from sandbox.agent.termination import FILE_LIMIT_BYTES, LOG_LIMIT_LINES, build_message

Document = Mapping[str, Any]


def read_end(end: Exit, folder: Path, container: Document, *, container_id: str, sharing: int) -> Terminated:
    """Return the end as it is told in the pod's status.

    :param folder: of the run.
    :param sharing: how many containers share the room for termination messages.
    """
    if not end.seen:
        return lost_end(container_id)
    if end.fault is not None:
        # The runtime knows no start of it, and Go's zero time is written as the epoch.
        return Terminated(
            exit_code=128,
            reason="StartError",
            message=end.fault,
            started_ns=0,
            finished_ns=end.finished_ns,
            container_id=container_id,
        )
    message = build_message(
        _tail_of(folder / "termination-log"),
        policy=container.get("terminationMessagePolicy", "File"),
        exit_code=end.exit_code,
        log_tail=read_tail(folder / "log", LOG_LIMIT_LINES),
        containers=sharing,
    )
    return Terminated(
        exit_code=end.exit_code,
        reason="Error" if end.exit_code else "Completed",
        message=message,
        started_ns=end.started_ns,
        finished_ns=end.finished_ns,
        container_id=container_id,
    )


def _tail_of(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - FILE_LIMIT_BYTES))
            return file.read(FILE_LIMIT_BYTES)
    except FileNotFoundError:
        return b""
