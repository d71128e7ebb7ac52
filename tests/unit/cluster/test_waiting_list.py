"""Who waits on a Job, where the API server takes no more of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.cluster.object_server import ObjectApi
from tests.unit.core.kubernetes_documents import JOB_NAME, NAMESPACE, job

from gpu_training.cluster.connection import Cluster
from gpu_training.cluster.jobs import jobs_path
from gpu_training.cluster.waiting_list import join
from gpu_training.core.errors import ClusterRejected
from gpu_training.core.naming import TaskTry

pytestmark = pytest.mark.unit

TOO_LONG = 'Job.batch "j" is invalid: metadata.annotations: Too long: may not be more than 262144 bytes'


@pytest.fixture
def api(tmp_path: Path) -> Iterator[ObjectApi]:
    api = ObjectApi(tmp_path)
    yield api
    api.stop()


def test_a_list_that_is_full_is_told_of_at_once_with_what_to_do(api: ObjectApi) -> None:
    api.refusals["PATCH", "/jobs/"] = (422, TOO_LONG)
    document = api.put(jobs_path(NAMESPACE, JOB_NAME), job())
    waiter = TaskTry(dag_id="d", run_id="r", task_id="t", map_index=-1, try_number=1)

    async def work() -> None:
        async with Cluster(api.address) as cluster:
            await join(cluster, document, waiter)

    with pytest.raises(
        ClusterRejected, match=r"1 task tries can not wait on Job .*262144 bytes.*max_active_tis_per_dag"
    ):
        asyncio.run(work())
    assert api.count("PATCH") == 1
