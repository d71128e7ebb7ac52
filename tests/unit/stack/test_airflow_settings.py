"""Airflow's configuration and connections as environment variables."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stack.airflow_settings import USERS, AirflowSecrets, Connections, connections, settings
from stack.checkout import base_environment
from stack.heartbeats import SHORT, USUAL, Heartbeats

pytestmark = pytest.mark.unit

SECRETS = AirflowSecrets(fernet_key="f", jwt_secret="j", api_secret="s", passwords={user: user for user in USERS})
SETTINGS = settings(
    root=Path("/p"),
    home=Path("/s/airflow"),
    port=1234,
    database_url="postgresql://d",
    secrets=SECRETS,
    heartbeats=SHORT,
)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("AIRFLOW_HOME", "/s/airflow"),
        ("AIRFLOW__CORE__DAGS_FOLDER", "/p/dags"),
        ("AIRFLOW__CORE__PLUGINS_FOLDER", "/p/plugins"),
        ("AIRFLOW__CORE__LOAD_EXAMPLES", "False"),
        ("AIRFLOW__CORE__EXECUTION_API_SERVER_URL", "http://127.0.0.1:1234/execution/"),
        ("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS", "admin:admin,op:op,viewer:viewer"),
        ("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "postgresql://d"),
        ("AIRFLOW__API__HOST", "127.0.0.1"),
        ("AIRFLOW__API__SECRET_KEY", "s"),
        ("AIRFLOW__API_AUTH__JWT_SECRET", "j"),
        ("AIRFLOW__CORE__FERNET_KEY", "f"),
        ("AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD", "20"),
        ("AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD", "10"),
    ],
)
def test_the_services_share_one_configuration(variable: str, value: str) -> None:
    assert SETTINGS[variable] == value


def test_every_option_is_one_that_airflow_knows() -> None:
    from airflow.configuration import conf

    for variable in SETTINGS:
        section, _, option = variable.removeprefix("AIRFLOW__").lower().partition("__")
        assert variable == "AIRFLOW_HOME" or conf.configuration_description[section]["options"][option]


@pytest.mark.parametrize("heartbeats", [USUAL, SHORT], ids=["usual", "short"])
def test_a_service_has_many_heartbeats_before_it_is_taken_for_dead(heartbeats: Heartbeats) -> None:
    assert min(heartbeats.scheduler_silence_s, heartbeats.triggerer_silence_s) >= 6 * heartbeats.every_s
    # A task says every five seconds that it lives ([workers] min_heartbeat_interval).
    assert heartbeats.task_silence_s >= 4 * 5


def test_connections_are_those_that_the_model_files_name() -> None:
    store = {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "x", "AWS_ENDPOINT_URL": "http://127.0.0.1:9"}
    given = connections(Connections(kubeconfig=Path("/s/kc"), store=store, mlflow_url="http://127.0.0.1:5"))
    assert json.loads(given["AIRFLOW_CONN_KUBERNETES_GPU"])["extra"]["kube_config_path"] == "/s/kc"
    flights = json.loads(given["AIRFLOW_CONN_FLIGHTS_DATA"])
    assert (flights["conn_type"], flights["login"], flights["password"]) == ("aws", "k", "x")
    assert flights["extra"]["endpoint_url"] == "http://127.0.0.1:9"
    assert given["AIRFLOW_CONN_MLFLOW_TRACKING"] == "http://127.0.0.1:5"


def test_nothing_of_the_callers_environment_reaches_a_service(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("HTTP_PROXY", "AWS_PROFILE", "AIRFLOW__CORE__EXECUTOR", "PYTHONPATH", "KUBECONFIG"):
        monkeypatch.setenv(name, "mine")
    assert "mine" not in base_environment(tmp_path).values()
    assert base_environment(tmp_path)["HOME"] == str(tmp_path)
