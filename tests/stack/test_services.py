"""A stack that stays up: its users, and its services by their names."""

from __future__ import annotations

import httpx
import pytest

from gpu_training.airflow_client import AirflowError
from gpu_training.commands.run import DAG_PREFIX
from gpu_training.core.precedence import BACKFILL_POOL, NIGHTLY_POOL
from sandbox.processes import read_process
from stack import object_store, process_tree
from stack.airflow_services import SERVICES
from stack.errors import StackError
from stack.lifecycle import BACKING, Stack
from stack.restoring import restore

pytestmark = [pytest.mark.stack, pytest.mark.timeout(900)]

# A model whose DAG no other test switches on.
DAG_ID = f"{DAG_PREFIX}air-time"


def test_another_program_finds_the_stack_by_its_folder(stack: Stack) -> None:
    found = Stack.attach(stack.folder)
    assert found is not None
    assert (found.airflow_url, found.mlflow_url) == (stack.airflow_url, stack.mlflow_url)
    with found.client() as client:
        assert set(client.health().values()) == {"healthy"}


def test_each_user_has_a_login_and_only_the_rights_of_its_role(stack: Stack) -> None:
    with stack.client("admin") as admin:
        stack.await_dag(admin, DAG_ID)
    with stack.client("viewer") as viewer:
        assert viewer.dag(DAG_ID).is_paused
        with pytest.raises(AirflowError, match="403"):
            viewer.unpause(DAG_ID)
    with stack.client("op") as operator:
        operator.unpause(DAG_ID)
        assert not operator.dag(DAG_ID).is_paused


@pytest.mark.parametrize("pool", [NIGHTLY_POOL, BACKFILL_POOL])
def test_the_project_s_pools_are_there_and_count_deferred_tasks(stack: Stack, pool: str) -> None:
    with stack.client() as client:
        assert client.pool(pool).include_deferred


def test_a_service_by_a_name_that_none_has_is_refused_with_the_names_there_are(stack: Stack) -> None:
    with pytest.raises(StackError, match=r"no service 'scheduler': known are postgresql, .*, scheduler-1, triggerer-1"):
        stack.service("scheduler")
    with pytest.raises(StackError, match=r"no service 'worker-1': give api-server, .* or scheduler-N"):
        stack.start_service("worker-1")


def test_a_frozen_service_is_not_healthy_and_is_again_when_it_goes_on(stack: Stack) -> None:
    for name in ("api-server", "postgresql", "dag-processor"):
        service = stack.service(name)
        service.pause()
        assert (service.is_running, service.is_paused, service.is_healthy()) == (True, True, False)
        service.resume()
        service.await_healthy()


def test_a_killed_service_leaves_no_process_and_its_successor_is_another(stack: Stack) -> None:
    service = stack.service("api-server")
    family = process_tree.members(service.pid)
    service.kill()
    assert not [process for process in family if read_process(process.pid) == process]
    assert not service.is_healthy()
    service.restart()
    service.await_healthy()
    with stack.client() as client:
        assert client.dag_ids(DAG_PREFIX)


def test_what_is_killed_beside_airflow_comes_back_with_what_it_held(stack: Stack) -> None:
    manifest = f"{object_store.FLIGHTS}/versions/2013-03-18/manifest.json"
    before = object_store.get(stack.record.store, manifest)
    experiments = f"{stack.mlflow_url}/api/2.0/mlflow/experiments/create"
    httpx.post(experiments, json={"name": "kept"}, timeout=60, trust_env=False).raise_for_status()
    for name in BACKING:
        stack.service(name).kill()
        assert not stack.service(name).is_healthy()
        stack.service(name).restart()
        stack.service(name).await_healthy()
    assert object_store.get(stack.record.store, manifest) == before
    again = httpx.post(experiments, json={"name": "kept"}, timeout=60, trust_env=False)
    assert again.json()["error_code"] == "RESOURCE_ALREADY_EXISTS"
    # Whichever of Airflow's services the loss of the database ended is started again.
    restore(stack, SERVICES)
    with stack.client() as client:
        assert set(client.health().values()) == {"healthy"}
        assert client.dag_ids(DAG_PREFIX)
