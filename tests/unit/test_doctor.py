"""`gpu-training doctor` beside servers of this process, and without a cluster: what it refuses, and what it tells."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.fake_mlflow import FakeMlflow
from tests.unit.fake_airflow import DAG_ID, FakeAirflow, serve

from gpu_training.cli import main
from gpu_training.commands.airflow_options import TOKEN_VARIABLE
from gpu_training.commands.exits import Exit
from gpu_training.core.check_airflow import SERVICES

pytestmark = pytest.mark.unit

MODEL = DAG_ID.removeprefix("train_on_demand__")
HEALTHY = dict.fromkeys(["metadatabase", *SERVICES], "healthy")
POOLS = {
    "gpu_nightly": {"slots": 32, "include_deferred": True},
    "gpu_backfill": {"slots": 4, "include_deferred": True},
}


@dataclass
class Place:
    """A folder with models, and a kubeconfig that leads nowhere."""

    folder: Path
    capsys: pytest.CaptureFixture[str]

    def write_model(self, name: str = MODEL, **training: Any) -> None:
        document = {
            "model": name,
            "owner": "tests",
            "description": "A model.",
            "schedule": {"cron": "0 1 * * *", "timezone": "UTC"},
            "data": {"source": "object_store_manifest", "uri": f"file://{self.folder / 'versions'}"},
            "training": {
                "image": "trainer:1",
                "entrypoint": ["train"],
                "resources": {"limits": {"nvidia.com/gpu": 1, "memory": "1Gi"}},
                "deadline_seconds": 60,
                "backoff_limit": 0,
                "ttl_seconds_after_finished": 60,
                **training,
            },
        }
        (self.folder / f"{name.replace('-', '_')}.yaml").write_text(yaml.safe_dump(document))

    def run(self, *options: str) -> tuple[int, dict[str, dict[str, str]], str]:
        """Give exit code, checks by name, and what stands on standard error."""
        kubeconfig = str(self.folder / "kubeconfig")
        exit_code = main(["doctor", "--models", str(self.folder), "--kubeconfig", kubeconfig, "--json", *options])
        said = self.capsys.readouterr()
        checks = json.loads(said.out)["checks"] if said.out else []
        return exit_code, {check["name"]: check for check in checks}, said.err


@pytest.fixture
def place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Place:
    config = {
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:9"}}],
        "users": [{"name": "u", "user": {"token": "sesame-open"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    (tmp_path / "kubeconfig").write_text(json.dumps(config))
    place = Place(tmp_path, capsys)
    place.write_model()
    return place


@pytest.fixture
def airflow(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeAirflow]:
    with serve(FakeAirflow(healthy=HEALTHY, pools=POOLS)) as server:
        monkeypatch.setenv(TOKEN_VARIABLE, server.valid_token)
        yield server


def test_an_airflow_is_asked_for_services_pools_and_dags(place: Place, airflow: FakeAirflow) -> None:
    _, checks, _ = place.run("--airflow-url", airflow.url)
    told = {name.removeprefix("airflow/"): check["state"] for name, check in checks.items() if "airflow/" in name}
    assert told == {
        "scheduler": "ok",
        "dag_processor": "ok",
        "triggerer": "ok",
        "pool/gpu_nightly": "ok",
        "pool/gpu_backfill": "ok",
        f"dag/nightly_retraining__{MODEL}": "broken",
        f"dag/{DAG_ID}": "ok",
    }


def test_a_pool_that_is_missing_a_dag_that_is_broken_and_a_triggerer_that_is_away_are_told(
    place: Place, airflow: FakeAirflow
) -> None:
    airflow.pools = {"gpu_backfill": {"slots": 4, "include_deferred": False}}
    airflow.healthy = {**HEALTHY, "triggerer": None}
    airflow.paused = True
    airflow.import_errors = [{"filename": "nightly.py", "stack_trace": "Traceback …\nKeyError: 'x'\n"}]

    exit_code, checks, _ = place.run("--airflow-url", airflow.url)

    assert exit_code == Exit.FAILED
    assert checks["airflow/triggerer"]["state"] == "broken"
    assert "airflow pools import" in checks["airflow/pool/gpu_nightly"]["remedy"]
    assert checks["airflow/pool/gpu_backfill"]["state"] == "warning"
    assert checks[f"airflow/dag/{DAG_ID}"]["state"] == "warning"
    assert "nightly.py: KeyError: 'x'" in checks[f"airflow/dag/nightly_retraining__{MODEL}"]["said"]


def test_a_login_that_is_refused_hides_pools_and_dags_and_is_told(
    place: Place, airflow: FakeAirflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, "stolen-token")
    exit_code, checks, _ = place.run("--airflow-url", airflow.url)
    assert exit_code == Exit.FAILED
    assert checks["airflow/scheduler"]["state"] == "ok"
    assert "401" in checks["airflow/pools"]["said"]
    assert "correct the login" in checks["airflow/dags"]["remedy"]
    assert "stolen-token" not in json.dumps(checks)


def test_an_airflow_that_is_away_is_one_line(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, "token")
    _, checks, _ = place.run("--airflow-url", "http://127.0.0.1:9")
    assert [name for name in checks if name.startswith("airflow")] == ["airflow/health"]
    assert checks["airflow/health"]["state"] == "broken"


def test_without_an_address_airflow_is_unknown(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GPU_TRAINING_AIRFLOW_URL", raising=False)
    _, checks, _ = place.run()
    assert (checks["airflow"]["state"], checks["airflow"]["said"]) == (
        "unknown",
        "it was not looked at: its address was not given",
    )


def test_a_cluster_that_is_away_is_told_without_its_credentials_and_the_stores_are_looked_at_all_the_same(
    place: Place,
) -> None:
    server = FakeMlflow()
    exit_code, checks, _ = place.run("--mlflow-url", server.uri)
    server.stop()
    assert exit_code == Exit.FAILED
    assert "127.0.0.1:9" in checks["api-server"]["said"]
    assert checks["mlflow"]["state"] == "ok"
    assert "not found" in checks[f"data/{MODEL}"]["said"]
    assert "sesame-open" not in json.dumps(checks)


def test_connections_that_are_missing_are_named(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_MLFLOW_TRACKING", raising=False)
    _, checks, _ = place.run()
    assert checks["mlflow"]["state"] == "broken"
    assert "AIRFLOW_CONN_MLFLOW_TRACKING" in checks["mlflow"]["remedy"]


def test_a_password_in_a_connections_host_is_not_shown(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = {"conn_type": "http", "host": "http://me:sesame-open@mlflow.example"}
    monkeypatch.setenv("AIRFLOW_CONN_MLFLOW_TRACKING", json.dumps(connection))
    _, checks, _ = place.run()
    assert "…@mlflow.example" in checks["mlflow"]["said"]
    assert "sesame-open" not in json.dumps(checks)


def test_a_template_is_rendered_with_its_written_default_or_the_variable_of_this_process(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.write_model(deadline_seconds="{{ var.value.get('deadline', '5') }}")
    _, checks, _ = place.run()
    assert "deadline_seconds='5'" in checks[f"file/{MODEL}"]["said"]
    monkeypatch.setenv("AIRFLOW_VAR_DEADLINE", "60")
    _, checks, _ = place.run()
    assert checks[f"file/{MODEL}"]["state"] == "ok"


@pytest.mark.parametrize(
    ("training", "said"),
    [
        ({"image": "{{ var.value.trainer }}"}, "training.image: what they mean is not checked"),
        ({"arguments": {"day": "{{ ds }}"}}, "training.arguments.day: what they mean is not checked"),
        ({"queue": "{{ var.value.queue }}"}, "training.queue: the training's checks of the cluster are left out"),
    ],
)
def test_a_template_that_airflow_alone_can_render_is_unknown(place: Place, training: dict[str, Any], said: str) -> None:
    place.write_model(**training)
    _, checks, _ = place.run()
    assert checks[f"file/{MODEL}"]["state"] == "unknown"
    assert said in checks[f"file/{MODEL}"]["said"]


def test_all_models_are_checked_or_the_one_that_is_named(place: Place) -> None:
    place.write_model("air-time")
    _, checks, _ = place.run()
    assert {"file/air-time", f"file/{MODEL}"} <= set(checks)
    _, checks, _ = place.run("air-time")
    assert [name for name in checks if name.startswith("file/")] == ["file/air-time"]


def test_a_model_file_that_is_broken_is_told_beside_the_others(place: Place) -> None:
    (place.folder / "air_time.yaml").write_text("model: air-time\n")
    exit_code, checks, _ = place.run()
    assert exit_code == Exit.FAILED
    assert checks["file/air_time"]["state"] == "broken"
    assert checks[f"file/{MODEL}"]["state"] == "ok"
    _, checks, _ = place.run("air-time")
    assert checks["file/air_time"]["state"] == "broken"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["fligth-delay"], "did you mean 'flight-delay'?"),
        (["--models", "/nowhere"], "name it with --models"),
        (["--mlflow-url", "mlflow"], "begins with http://"),
        (["--mlflow-url", "http://me:sesame@mlflow"], "MLFLOW_TRACKING_PASSWORD"),
        (["--kubeconfig", "/nowhere"], "no such file"),
        (["--airflow-url", "http://127.0.0.1:9", "--username", "me"], "password-file is absent"),
    ],
)
def test_what_can_not_be_checked_is_refused(place: Place, options: list[str], said: str) -> None:
    exit_code, checks, error = place.run(*options)
    assert (exit_code, checks) == (Exit.REFUSED, {})
    assert said in error
    assert "sesame" not in error
