"""A training that waits and looks around, by the shared watch, as the trigger has it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from time import monotonic
from typing import Any

from gpu_training.cluster.connection import ClusterAddress
from gpu_training.cluster.subscription import Subscription
from gpu_training.cluster.watch import SharedWatch
from gpu_training.core.events import JobReference

DEPLOYMENT = "lookout"
DEADLINE_S = 60.0


def play(scene: Coroutine[Any, Any, None]) -> None:
    async def within_time() -> None:
        async with asyncio.timeout(DEADLINE_S * 2):
            await scene

    asyncio.run(within_time())


@asynccontextmanager
async def waiting(kubeconfig: Path, job: JobReference) -> AsyncIterator[Subscription]:
    """Give the subscription of a training that waits and has seen everything around it."""
    address = ClusterAddress(conn_id=None, config_file=str(kubeconfig))
    async with SharedWatch.subscribe(address, job=job, deployment=DEPLOYMENT) as (subscription, _):
        subscription.look_around(waits=True)
        await told(subscription, lambda: subscription.lookout.is_settled, "everything was looked at")
        yield subscription


async def told(subscription: Subscription, holds: Callable[[], object], what: str, limit: float = DEADLINE_S) -> None:
    """Wait until something holds, looking only when the subscription wakes."""
    deadline = monotonic() + limit
    while not holds():
        left = deadline - monotonic()
        assert left > 0, f"not told within {limit} s: {what}"
        await subscription.changed(left)
