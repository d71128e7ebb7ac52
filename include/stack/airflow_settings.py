"""Airflow's configuration for one machine, as environment variables: nothing of it is read from an airflow.cfg."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from stack.heartbeats import Heartbeats

USERS = ("admin", "op", "viewer")
"""Users of the simple auth manager; each has the role of its name."""

_NO_LOG_SERVER_PORT = "1"


@dataclass(frozen=True, slots=True, kw_only=True)
class AirflowSecrets:
    """What must be secret and the same in all services.

    :param fernet_key: 32 random bytes, URL-safe base64.
    :param passwords: by user.
    """

    fernet_key: str
    jwt_secret: str
    api_secret: str
    passwords: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Connections:
    """What the DAGs connect to.

    :param kubeconfig: of the operator's service account.
    :param store: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_ENDPOINT_URL.
    """

    kubeconfig: Path
    store: Mapping[str, str]
    mlflow_url: str


def settings(
    *, root: Path, home: Path, port: int, database_url: str, secrets: AirflowSecrets, heartbeats: Heartbeats
) -> dict[str, str]:
    """Give the configuration of all services.

    :param root: the checkout, with the folders `dags` and `plugins`.
    :param home: AIRFLOW_HOME, with the passwords file (:func:`passwords_file`).
    """
    url = f"http://127.0.0.1:{port}"
    options: dict[str, dict[str, object]] = {
        "core": {
            "dags_folder": root / "dags",
            "plugins_folder": root / "plugins",
            "load_examples": False,
            "executor": "LocalExecutor",
            "parallelism": 4,
            "fernet_key": secrets.fernet_key,
            "execution_api_server_url": f"{url}/execution/",
            "simple_auth_manager_users": ",".join(f"{user}:{user}" for user in USERS),
            "simple_auth_manager_passwords_file": passwords_file(home),
            # The default asks the network for a full name, which takes seconds where no name server answers.
            "hostname_callable": "socket.gethostname",
        },
        "database": {"sql_alchemy_conn": database_url},
        "logging": {
            "base_log_folder": home / "logs",
            "dag_processor_child_process_log_directory": home / "logs" / "dag_processor",
            "colored_console_log": False,
            # All services read one folder, so none serves its logs; the port is one where nobody answers, at once.
            "worker_log_server_port": _NO_LOG_SERVER_PORT,
            "trigger_log_server_port": _NO_LOG_SERVER_PORT,
            # Each look at the log of a running task would write a traceback of the refused connection.
            "namespace_levels": "airflow.utils.log.file_task_handler=critical",
        },
        "api": {
            "host": "127.0.0.1",
            "port": port,
            "base_url": url,
            "workers": 1,
            "secret_key": secrets.api_secret,
            "log_fetch_timeout_sec": 2,
        },
        "api_auth": {"jwt_secret": secrets.jwt_secret},
        "scheduler": {
            "scheduler_idle_sleep_time": 0.5,
            "trigger_timeout_check_interval": 1,
        },
        # The first trigger that is killed has its triggerer build the API that tells it why, five seconds of work.
        "triggerer": {"on_kill_timeout": 300},
        "dag_processor": {
            "refresh_interval": 30,
            "min_file_process_interval": 30,
            "bundle_refresh_check_interval": 1,
            "parsing_processes": 2,
            "disable_bundle_versioning": True,
        },
    }
    return {
        "AIRFLOW_HOME": str(home),
        **{
            f"AIRFLOW__{section.upper()}__{name.upper()}": str(value)
            for part in (options, heartbeats.options())
            for section, values in part.items()
            for name, value in values.items()
        },
    }


def connections(given: Connections) -> dict[str, str]:
    """Give the connections that the DAGs name."""
    store = given.store
    kubernetes = {"kube_config_path": str(given.kubeconfig), "namespace": "gpu-training"}
    flights = {
        "conn_type": "aws",
        "login": store["AWS_ACCESS_KEY_ID"],
        "password": store["AWS_SECRET_ACCESS_KEY"],
        "extra": {"endpoint_url": store["AWS_ENDPOINT_URL"], "region_name": "us-east-1"},
    }
    return {
        "AIRFLOW_CONN_KUBERNETES_GPU": json.dumps({"conn_type": "kubernetes", "extra": kubernetes}),
        "AIRFLOW_CONN_FLIGHTS_DATA": json.dumps(flights),
        "AIRFLOW_CONN_MLFLOW_TRACKING": given.mlflow_url,
    }


def passwords_file(home: Path) -> Path:
    """Give the file of which the simple auth manager reads its users' passwords: JSON, user to password."""
    return home / "passwords.json"
