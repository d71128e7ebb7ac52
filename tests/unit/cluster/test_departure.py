"""A task that asks for other work than before waits no more on what it asked for then."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.cluster.object_server import ObjectApi

from gpu_training.cluster.connection import Cluster
from gpu_training.cluster.departure import depart_from_other_work
from gpu_training.cluster.jobs import jobs_path
from gpu_training.cluster.ledger_store import Lineage
from gpu_training.core.naming import (
    ANNOTATION_WAITERS,
    LABEL_DEPLOYMENT,
    LABEL_LINEAGE,
    LABEL_MODEL,
    LABEL_TASK,
    TaskTry,
    task_hash,
)
from gpu_training.core.waiters import to_text

pytestmark = pytest.mark.unit

NOW_WANTED = Lineage(namespace="n", model="m", deployment="airflow", fingerprint="new", key="2" * 16)
NAME = "m-1111111111111111-g1-1"
PATH = jobs_path("n", NAME)


@pytest.fixture
def api(tmp_path: Path) -> Iterator[ObjectApi]:
    api = ObjectApi(tmp_path)
    yield api
    api.stop()


def try_of(task: str, number: int = 1) -> TaskTry:
    return TaskTry(dag_id="d", run_id="r", task_id=task, map_index=-1, try_number=number)


def job(maker: TaskTry, *waiters: TaskTry, lineage: str = "1" * 16) -> dict[str, Any]:
    labels = {
        LABEL_DEPLOYMENT: "airflow",
        LABEL_LINEAGE: lineage,
        LABEL_MODEL: "m",
        LABEL_TASK: task_hash("airflow", maker),
    }
    annotations = {ANNOTATION_WAITERS: to_text(waiters), "gpu-training.io/fingerprint": "old"}
    return {"metadata": {"name": NAME, "namespace": "n", "labels": labels, "annotations": annotations}, "spec": {}}


def departed(api: ObjectApi, waiter: TaskTry) -> list[str]:
    async def nobody_lives(_: TaskTry) -> bool:
        return False

    async def work() -> list[str]:
        async with Cluster(api.address) as cluster:
            return await depart_from_other_work(cluster, NOW_WANTED, waiter, nobody_lives)

    return asyncio.run(work())


@pytest.mark.parametrize("maker", ["mine", "another's"])
def test_a_cleared_task_leaves_the_job_it_waited_on_whoever_made_it(api: ObjectApi, maker: str) -> None:
    api.put(PATH, job(try_of(maker), try_of("mine")))

    assert departed(api, try_of("mine", 2)) == [NAME]
    assert not api.objects


def test_a_job_on_whose_list_the_task_is_not_is_left_alone(api: ObjectApi) -> None:
    api.put(PATH, job(try_of("another's"), try_of("another's")))

    assert departed(api, try_of("mine", 2)) == []
    assert api.count("DELETE") == api.count("PATCH") == 0


def test_a_job_of_the_very_work_is_left_alone(api: ObjectApi) -> None:
    api.put(PATH, job(try_of("mine"), try_of("mine"), lineage=NOW_WANTED.key))

    assert departed(api, try_of("mine", 2)) == []
    assert list(api.objects) == [PATH]
