"""The stall clock over a wait: what the log told before somebody began to watch counts, and a log unread does not."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.cluster.log_server import LogServer
from tests.unit.cluster.object_server import ObjectApi
from tests.unit.core.kubernetes_documents import NAMESPACE, container, job, pod, running
from tests.unit.core.ledgers import ALLOWANCE, BUDGET
from tests.unit.triggers.one_job import JOB, LINEAGE, RECORD, REFERENCE, Log, keep

from gpu_training.cluster import log_reader
from gpu_training.cluster.connection import Cluster
from gpu_training.cluster.jobs import pods_path
from gpu_training.cluster.ledger_store import LedgerStore
from gpu_training.cluster.logs import LogFollower
from gpu_training.cluster.lookout import Lookout
from gpu_training.cluster.subscription import Subscription
from gpu_training.core.clocks import Clocks
from gpu_training.core.decide import OutcomeKind, Policy
from gpu_training.core.hearing import Hearing
from gpu_training.core.terms import Terms
from gpu_training.core.verdict import Action, Category, Verdict
from gpu_training.rule_table import built_in_rules
from gpu_training.triggers.bookkeeper import Bookkeeper
from gpu_training.triggers.exit import Exit
from gpu_training.triggers.log_teller import LogTeller
from gpu_training.triggers.vigil import Vigil
from gpu_training.triggers.voice import Voice
from gpu_training.triggers.watchman import Watchman

pytestmark = pytest.mark.unit

PROGRESS = 'GPU_TRAINING_PROGRESS {"v":1,"step":1,"total":10}'
CLOCKS = Clocks(stall_seconds=300)
POD = pod("Running", container(running()), name="a", scheduled=1)


@pytest.fixture
def api(tmp_path: Path) -> Iterator[ObjectApi]:
    api = ObjectApi(tmp_path)
    keep(api, replace(RECORD, allowance=replace(ALLOWANCE, wall_seconds=1e9)))
    api.put(JOB, job(spec={"activeDeadlineSeconds": None, "backoffLimit": 9}))
    # As a list gives it, which tells before anybody gives up.
    api.put(pods_path(NAMESPACE, "a"), POD)
    yield api
    api.stop()


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LogServer]:
    monkeypatch.setattr(log_reader, "CATCH_UP_S", 0.5)
    server = LogServer(tmp_path)
    yield server
    server.stop()


def watch(api: ObjectApi, server: LogServer, *, limit: float) -> Verdict | None:
    """Give why a new watcher gives a training up that has run for long; None when it has not within a time."""
    policy, log = Policy(rules=built_in_rules()), Log()
    lookout = Lookout(api.address, NAMESPACE, {}.get)
    subscription = Subscription(REFERENCE, lookout)
    subscription.document, subscription.pods = api.objects[JOB], {POD["metadata"]["uid"]: POD}
    hearing = Hearing(policy.rules)

    async def run() -> Verdict | None:
        async with Cluster(api.address) as cluster, Cluster(server.address) as kubelet:
            store = LedgerStore(cluster, LINEAGE)
            terms = Terms(budget=BUDGET, has_fallback=False, memory_cap="8Gi", clocks=CLOCKS)
            follower = LogFollower(kubelet, NAMESPACE, LogTeller(log, hearing).take, log)
            vigil = Vigil(
                subscription,
                cluster,
                Bookkeeper(cluster, store, REFERENCE, 1, policy=policy, terms=terms, mlflow_run_id="r", log=log),
                Voice(log),
                hearing,
                follower,
                Watchman(subscription, cluster, log),
                Exit(cluster, store, REFERENCE, 1, None, policy=policy, mlflow_conn_id="", mlflow_run_id="r", log=log),
                policy=policy,
                clocks=CLOCKS,
                log=log,
            )
            try:
                async with asyncio.timeout(limit):
                    _, outcome = await vigil.until_ended(contact_limit=1e9)
            except TimeoutError:
                return None
            finally:
                await follower.stop()
                await lookout.close()
            assert outcome.kind is OutcomeKind.TIMED_OUT
            return outcome.verdict

    return asyncio.run(run())


def test_a_new_watcher_gives_up_on_a_training_that_hung_before_it_came(api: ObjectApi, server: LogServer) -> None:
    server.say(PROGRESS, ago=600)
    given_up = watch(api, server, limit=20.0)
    assert given_up is not None
    assert (given_up.category, given_up.action) == (Category.STALLED, Action.RETRY)
    assert "within 300 s (training.clocks.stall_seconds)" in given_up.summary


def test_one_that_never_reported_progress_has_stalled_since_it_began(api: ObjectApi, server: LogServer) -> None:
    server.say("it loads its data", ago=5)
    given_up = watch(api, server, limit=20.0)
    assert given_up is not None
    assert given_up.category is Category.STALLED


def test_a_new_watcher_waits_on_for_a_training_that_goes_on(api: ObjectApi, server: LogServer) -> None:
    server.say(PROGRESS, ago=250)
    assert watch(api, server, limit=4.0) is None


def test_a_log_that_can_not_be_read_ends_no_training(api: ObjectApi, server: LogServer) -> None:
    server.refused = True
    assert watch(api, server, limit=4.0) is None
