"""Which ledgers are deleted, and which are kept."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.cluster.object_server import ObjectApi
from tests.unit.core.ledgers import ended_job, ledger_job, ledger_of

from gpu_training.cluster.connection import Cluster
from gpu_training.cluster.pruning import KEEP_DAYS, prune
from gpu_training.core.ledger import Ledger
from gpu_training.core.ledger_document import to_text
from gpu_training.core.naming import LABEL_DEPLOYMENT, LABEL_LEDGER, LEDGER_KEY

pytestmark = pytest.mark.unit

MAPS = "/api/v1/namespaces/n/configmaps"
LABELS = {LABEL_LEDGER: "true", LABEL_DEPLOYMENT: "airflow"}
NOW = 2e9
OLD = NOW - (KEEP_DAYS + 1) * 86400
ENDED = ledger_of(ended_job(1), updated_at=OLD)
ANNOUNCED = ledger_of(ended_job(1), ledger_job(2, uid=None), updated_at=OLD)
LIVES = ledger_of(ledger_job(1), updated_at=OLD)


@pytest.fixture
def api(tmp_path: Path) -> Iterator[ObjectApi]:
    api = ObjectApi(tmp_path)
    yield api
    api.stop()


def pruned(api: ObjectApi, text: str) -> list[str]:
    api.put(f"{MAPS}/x", {"metadata": {"name": "x", "labels": LABELS}, "data": {LEDGER_KEY: text}})

    async def work() -> list[str]:
        async with Cluster(api.address) as cluster:
            return await prune(cluster, "n", "airflow", now=NOW)

    return asyncio.run(work())


@pytest.mark.parametrize("ledger", [ENDED, ANNOUNCED])
def test_a_ledger_is_deleted_when_nothing_has_happened_in_it_for_long(api: ObjectApi, ledger: Ledger) -> None:
    assert pruned(api, to_text(ledger)) == ["x"]
    assert not api.objects


@pytest.mark.parametrize(
    "text",
    [to_text(LIVES), to_text(replace(ENDED, updated_at=NOW - 86400)), to_text(replace(ENDED, updated_at=0.0)), "{"],
    ids=["a living Job", "used yesterday", "never written", "damaged"],
)
def test_a_ledger_that_may_be_needed_is_kept(api: ObjectApi, text: str) -> None:
    assert pruned(api, text) == []
    assert list(api.objects) == [f"{MAPS}/x"]


def test_an_account_that_may_not_list_ledgers_prunes_none(api: ObjectApi) -> None:
    api.refusals["GET", "/configmaps"] = (403, "configmaps is forbidden")
    assert pruned(api, to_text(ENDED)) == []
