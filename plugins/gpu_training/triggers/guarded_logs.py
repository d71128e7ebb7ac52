"""A training's logs as its wait uses them: whatever goes wrong with them costs lines, and never the training.

Disks of task logs run full, documents are edited, and our own code has faults. What ends a training's wait is what its
Job and pods say; here, every other exception of its logs becomes a warning.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import TYPE_CHECKING

from gpu_training.task_log import TaskLog

if TYPE_CHECKING:
    from gpu_training.cluster.connection import Document
    from gpu_training.triggers.followed_logs import FollowedLogs


class GuardedLogs:
    """Logs that are followed as far as they can be.

    :ivar followed: what they are followed by; None where that could not begin.
    """

    def __init__(self, log: TaskLog) -> None:
        self.followed: FollowedLogs | None = None
        self._log = log
        self._is_said = False

    @property
    def is_caught_up(self) -> bool:
        """Whether what each training container that runs has said so far is heard; False where nobody can tell."""
        try:
            return self.followed is not None and self.followed.is_caught_up
        except Exception as error:
            self.warn(error)
            return False

    def update(self, pods: Mapping[str, Document], gone_pods: Mapping[str, Document]) -> None:
        """Follow what is new in these pods: :meth:`FollowedLogs.update`."""
        try:
            if self.followed is not None:
                self.followed.update(pods, gone_pods)
        except Exception as error:
            self.warn(error)

    async def drain(self) -> None:
        """Tell what the pods have said to their ends, and write down that it is told, as far as that can be done."""
        if self.followed is None:
            return
        try:
            await self.followed.drain()
        except Exception as error:
            self.warn(error)
            # What was kept back until then, such as a traceback, is told all the same.
            for last in (self.followed.teller.end, self.followed.notes.write):
                with suppress(Exception):
                    await last()

    def warn(self, error: Exception) -> None:
        """Say, once, that lines are missing."""
        if self._is_said:
            return
        self._is_said = True
        # Whatever it is may be the task log's own.
        with suppress(Exception):
            self._log.warning(
                "What the pods say can not be told to its end: %s: %s. Lines are missing here, the last ones perhaps; "
                "while the pods are there, kubectl logs has them. The training goes on and ends as its Job does",
                type(error).__name__,
                error,
            )


@asynccontextmanager
async def guarded(following: AbstractAsyncContextManager[FollowedLogs], log: TaskLog) -> AsyncIterator[GuardedLogs]:
    """Follow logs until the block is left. What is raised in the block is raised, and nothing else but cancellations.

    :param following: has not begun; learns how the block was left.
    """
    logs = GuardedLogs(log)
    try:
        logs.followed = await following.__aenter__()
    except Exception as error:
        logs.warn(error)
    try:
        yield logs
    except BaseException as error:
        await _leave(following, logs, error)
        raise
    await _leave(following, logs, None)


async def _leave(
    following: AbstractAsyncContextManager[FollowedLogs], logs: GuardedLogs, raised: BaseException | None
) -> None:
    if logs.followed is None:
        return
    try:
        await following.__aexit__(type(raised) if raised else None, raised, raised.__traceback__ if raised else None)
    except Exception as error:
        if error is not raised:
            logs.warn(error)
