"""Runs and model versions on a real MLflow server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from tests.mlflow_service import MlflowServer, free_port

from gpu_training.core.errors import RegistryError
from gpu_training.core.registration import TAG_FINGERPRINT, TAG_GENERATION, TrainedModel
from gpu_training.registry.model_registry import ModelRegistry
from gpu_training.registry.tracking_server import TrackingServer

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parent.parent.parent.parent


@pytest.fixture
def server(mlflow_server: MlflowServer) -> TrackingServer:
    return TrackingServer(conn_id="mlflow_tracking", uri=mlflow_server.uri)


@pytest.fixture
def registry(server: TrackingServer) -> ModelRegistry:
    return ModelRegistry(server)


@pytest.fixture
def name() -> str:
    """A name for experiment and registered model that no other test uses."""
    return f"model-{uuid.uuid4().hex[:12]}"


def run_of(registry: ModelRegistry, name: str, *, generation: int = 1, **tags: str) -> str:
    return registry.find_or_create_run(
        experiment=name, run_name="nightly", fingerprint=f"sha256:{name}", generation=generation, tags=tags
    )


def trained(server: TrackingServer, name: str, run_id: str, *, ready: bool = True, **changes: Any) -> TrainedModel:
    """Give the facts of a training whose model is logged as the trainer logs it."""
    with server.client() as client:
        experiment = client.get_experiment_by_name(name).experiment_id
        logged = client.create_logged_model(experiment, "model", source_run_id=run_id)
        if ready:
            client.finalize_logged_model(logged.model_id, "READY")
    facts = TrainedModel(
        registered_model=name,
        model_uri=logged.model_uri,
        mlflow_run_id=run_id,
        fingerprint=f"sha256:{name}",
        generation=1,
        data_version="2013-03-04",
        data_digest=f"sha256:{'0' * 64}",
        image="trainer@sha256:1",
        dag_run="scheduled__2026-01-01",
        job_uid="uid-1",
    )
    return replace(facts, **changes)


def versions(server: TrackingServer, name: str) -> list[Any]:
    with server.client() as client:
        return list(client.search_model_versions(f"name = '{name}'"))


@pytest.mark.case("C106")
def test_a_lineage_has_one_run_however_often_it_is_asked_for(registry: ModelRegistry, name: str) -> None:
    first = run_of(registry, name, attempt="1")
    assert run_of(registry, name, attempt="2") == first
    assert run_of(registry, name, generation=2) != first


@pytest.mark.case("C108")
@pytest.mark.parametrize("killed", [True, False])
def test_a_run_that_is_found_again_is_running_again(
    registry: ModelRegistry, server: TrackingServer, name: str, killed: bool
) -> None:
    run_id = run_of(registry, name, attempt="1")
    registry.close_run(run_id, killed=killed)
    with server.client() as client:
        assert client.get_run(run_id).info.status == ("KILLED" if killed else "FAILED")
    run_of(registry, name, attempt="2")
    with server.client() as client:
        run = client.get_run(run_id)
    assert run.info.status == "RUNNING"
    assert run.data.tags["attempt"] == "2"
    assert run.data.tags[TAG_FINGERPRINT] == f"sha256:{name}"


@pytest.mark.case("C104")
def test_the_job_s_verdict_overrides_what_the_program_said(
    registry: ModelRegistry, server: TrackingServer, name: str
) -> None:
    run_id = run_of(registry, name)
    with server.client() as client:
        client.set_terminated(run_id, "FINISHED")
    registry.close_run(run_id)
    with server.client() as client:
        assert client.get_run(run_id).info.status == "FAILED"


def test_a_run_that_a_version_came_of_stays_finished_when_its_work_is_repeated_and_fails(
    registry: ModelRegistry, server: TrackingServer, name: str
) -> None:
    facts = trained(server, name, run_of(registry, name))
    registry.register(facts, alias="candidate")
    assert run_of(registry, name, attempt="2") == facts.mlflow_run_id
    registry.close_run(facts.mlflow_run_id, killed=True)
    with server.client() as client:
        assert client.get_run(facts.mlflow_run_id).info.status == "FINISHED"


def test_a_deleted_experiment_is_told_and_a_deleted_run_is_not_found(
    registry: ModelRegistry, server: TrackingServer, name: str
) -> None:
    run_id = run_of(registry, name)
    with server.client() as client:
        client.delete_run(run_id)
    assert run_of(registry, name) != run_id
    with server.client() as client:
        client.delete_experiment(client.get_experiment_by_name(name).experiment_id)
    with pytest.raises(RegistryError, match="is deleted: restore it, or name another"):
        run_of(registry, name)


def test_a_training_becomes_one_traceable_version(registry: ModelRegistry, server: TrackingServer, name: str) -> None:
    facts = trained(server, name, run_of(registry, name))
    version = registry.register(facts, alias="candidate")
    assert (version.version, version.reused, version.alias_version) == ("1", False, "1")
    json.dumps(version.to_document())
    with server.client() as client:
        found = client.get_model_version_by_alias(name, "candidate")
        assert client.get_run(facts.mlflow_run_id).info.status == "FINISHED"
    assert found.status == "READY"
    assert found.run_id == facts.mlflow_run_id
    assert found.tags == {
        TAG_FINGERPRINT: facts.fingerprint,
        TAG_GENERATION: "1",
        "gpu_training.data_version": "2013-03-04",
        "gpu_training.data_digest": facts.data_digest,
        "gpu_training.image": "trainer@sha256:1",
        "gpu_training.dag_run": "scheduled__2026-01-01",
        "gpu_training.job_uid": "uid-1",
    }


@pytest.mark.case("C110")
def test_registering_again_gives_the_same_version(registry: ModelRegistry, server: TrackingServer, name: str) -> None:
    facts = trained(server, name, run_of(registry, name))
    first = registry.register(facts, alias="candidate")
    again = registry.register(replace(facts, dag_run="manual__2", job_uid="uid-2"), alias="candidate")
    assert (again.version, again.reused) == (first.version, True)
    (only,) = versions(server, name)
    assert only.tags["gpu_training.job_uid"] == "uid-1"


def test_another_generation_is_another_version(registry: ModelRegistry, server: TrackingServer, name: str) -> None:
    registry.register(trained(server, name, run_of(registry, name)), alias="candidate")
    second = trained(server, name, run_of(registry, name, generation=2), generation=2)
    version = registry.register(second, alias="candidate")
    assert (version.version, version.reused, version.alias_version) == ("2", False, "2")


def test_repeating_an_old_run_does_not_take_the_alias_from_a_newer_training(
    registry: ModelRegistry, server: TrackingServer, name: str
) -> None:
    old = trained(server, name, run_of(registry, name))
    registry.register(old, alias="candidate")
    registry.register(trained(server, name, run_of(registry, name), fingerprint="sha256:new"), alias="candidate")
    again = registry.register(old, alias="candidate")
    assert (again.version, again.reused, again.alias_version) == ("1", True, "2")


def test_an_interrupted_registration_is_completed(registry: ModelRegistry, server: TrackingServer, name: str) -> None:
    facts = trained(server, name, run_of(registry, name))
    with server.client() as client:
        client.create_registered_model(name)
        tags = {TAG_FINGERPRINT: facts.fingerprint, TAG_GENERATION: "1"}
        client.create_model_version(
            name, facts.model_uri, facts.mlflow_run_id, tags=tags, model_id=facts.model_uri.removeprefix("models:/")
        )
    version = registry.register(facts, alias="candidate")
    assert (version.version, version.reused, version.alias_version) == ("1", True, "1")
    (only,) = versions(server, name)
    assert only.tags["gpu_training.data_version"] == "2013-03-04"


@pytest.mark.parametrize("fault", ["unfinished", "of another run", "absent"])
def test_a_model_that_is_not_there_in_full_is_not_registered(
    registry: ModelRegistry, server: TrackingServer, name: str, fault: str
) -> None:
    facts = trained(server, name, run_of(registry, name), ready=fault != "unfinished")
    if fault == "of another run":
        facts = replace(facts, mlflow_run_id=run_of(registry, name, generation=2))
    if fault == "absent":
        facts = replace(facts, model_uri="models:/m-00000000000000000000000000000000")
    with pytest.raises(RegistryError) as caught:
        registry.register(facts, alias="candidate")
    assert not caught.value.transient
    assert "connection 'mlflow_tracking'" in str(caught.value)
    assert versions(server, name) == []


CROWD = """
import json, os, sys
from gpu_training.core.registration import TrainedModel
from gpu_training.registry.model_registry import ModelRegistry
from gpu_training.registry.tracking_server import TrackingServer

facts, uri, crowd = TrainedModel(**json.loads(sys.argv[1])), sys.argv[2], int(sys.argv[3])
import mlflow
registry = ModelRegistry(TrackingServer(conn_id="mlflow_tracking", uri=uri))
read_gate, write_gate = os.pipe()
read_end, write_end = os.pipe()
children = []
for _ in range(crowd):
    child = os.fork()
    if child == 0:
        os.close(write_gate)
        os.read(read_gate, 1)  # released when the parent closes its end
        version = registry.register(facts, alias="candidate")
        os.write(write_end, (json.dumps(version.to_document()) + "\\n").encode())
        os._exit(0)
    children.append(child)
os.close(write_gate)
codes = [os.waitpid(child, 0)[1] for child in children]
os.close(write_end)
sys.stdout.write(os.fdopen(read_end).read())
sys.exit(any(codes))
"""


@pytest.mark.case("C110")
def test_twenty_at_the_same_moment_make_one_version(registry: ModelRegistry, server: TrackingServer, name: str) -> None:
    facts = trained(server, name, run_of(registry, name))
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "plugins")}
    argv = [sys.executable, "-c", CROWD, json.dumps(asdict(facts)), server.uri, "20"]
    ended = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    answers = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("{")]
    assert len(answers) == 20
    (only,) = versions(server, name)
    assert {answer["model_version"] for answer in answers} == {str(only.version)}
    assert [answer["reused"] for answer in answers].count(False) == 1
    with server.client() as client:
        assert client.get_model_version_by_alias(name, "candidate").version == only.version


@pytest.mark.parametrize("host", ["127.0.0.1", "nowhere.invalid"])
def test_a_server_that_is_away_is_told_at_once_with_the_connection(host: str) -> None:
    registry = ModelRegistry(TrackingServer(conn_id="mlflow_tracking", uri=f"http://{host}:{free_port()}"))
    started = time.monotonic()
    with pytest.raises(RegistryError, match=r"connection 'mlflow_tracking'\) can not be reached.*Check that") as caught:
        run_of(registry, "any")
    assert caught.value.transient
    assert time.monotonic() - started < 15


def test_a_link_is_no_reason_to_fail(registry: ModelRegistry, server: TrackingServer, name: str) -> None:
    run_id = run_of(registry, name)
    assert registry.run_url(run_id).startswith(f"{server.uri}/#/experiments/")
    away = f"http://127.0.0.1:{free_port()}"
    assert ModelRegistry(TrackingServer(conn_id="mlflow_tracking", uri=away)).run_url(run_id) == away


@pytest.mark.case("C114")
def test_a_training_is_registered_once_the_server_that_was_away_is_back(
    mlflow_server: MlflowServer, registry: ModelRegistry, server: TrackingServer, name: str
) -> None:
    run_id = run_of(registry, name)
    facts = trained(server, name, run_id)
    mlflow_server.stop()
    with pytest.raises(RegistryError) as caught:
        registry.register(facts, alias="candidate")
    assert caught.value.transient
    mlflow_server.start()
    assert run_of(registry, name) == run_id
    assert registry.register(facts, alias="candidate").version == "1"
