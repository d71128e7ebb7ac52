"""The end of a wait for logs: containers that end while others are read to their ends are read to theirs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from time import monotonic

import pytest
from tests.unit.cluster.log_scripts import ScriptedLogs
from tests.unit.core.kubernetes_documents import NAMESPACE, container, pod, running, terminated
from tests.unit.triggers.one_job import REFERENCE, Log

from gpu_training.cluster.connection import Cluster
from gpu_training.cluster.logs import LogFollower
from gpu_training.cluster.lookout import Lookout
from gpu_training.cluster.subscription import Subscription
from gpu_training.core.hearing import Hearing
from gpu_training.triggers.followed_logs import FollowedLogs
from gpu_training.triggers.job_notes import JobNotes
from gpu_training.triggers.log_teller import LogTeller

pytestmark = pytest.mark.unit

DEADLINE_S = 20.0


async def asked(server: ScriptedLogs) -> None:
    deadline = monotonic() + DEADLINE_S
    while not server.asked:
        assert monotonic() < deadline
        await asyncio.sleep(0.01)


def test_a_container_that_ends_while_logs_are_read_to_their_ends_is_waited_for_no_longer(tmp_path: Path) -> None:
    server, log, hearing = ScriptedLogs(tmp_path), Log(), Hearing(())
    alive = pod("Running", container(running()), name="a", scheduled=1)

    async def run() -> None:
        lookout = Lookout(server.address, NAMESPACE, {}.get)
        subscription = Subscription(REFERENCE, lookout)
        subscription.pods = {"a": alive}
        async with Cluster(server.address) as cluster:
            teller = LogTeller(log, hearing)
            follower = LogFollower(cluster, NAMESPACE, teller.take, log)
            notes = JobNotes(
                cluster, subscription, hearing, teller, follower, waiter=None, deployment="d", log_id="l", log=log
            )
            masking = asyncio.create_task(asyncio.sleep(0))
            logs = FollowedLogs(
                subscription=subscription, teller=teller, follower=follower, notes=notes, masking=masking
            )
            draining = asyncio.create_task(logs.drain())
            async with asyncio.timeout(DEADLINE_S):
                await asked(server)
                subscription.pods = {"a": pod("Failed", container(terminated(1)), name="a", scheduled=1)}
                subscription.notify()
                await draining
        await lookout.close()

    try:
        asyncio.run(run())
    finally:
        server.stop()
    assert log.warnings == []
    assert server.queries("a")[-1]["follow"] == "false"
