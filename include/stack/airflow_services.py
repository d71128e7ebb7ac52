"""Airflow's services as processes, each startable, stoppable and restartable by its name."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import json
import platform
import re
from collections.abc import Mapping
from pathlib import Path

from gpu_training.airflow_client import AirflowClient, AirflowError
from stack.airflow_settings import passwords_file
from stack.checkout import ROOT, airflow_python, cache_folder
from stack.database import PROCESS, Database, save_template
from stack.errors import StackError
from stack.host import Host

MIGRATION, POOLS = "db-migrate", "pools-import"
API_SERVER, DAG_PROCESSOR = "api-server", "dag-processor"
SERVICES = (API_SERVER, "scheduler-1", DAG_PROCESSOR, "triggerer-1")
"""Names of the four services. A second scheduler or triggerer is `scheduler-2` or `triggerer-2`."""

REPLICAS = ("scheduler-2", "triggerer-2")
"""What makes the two kinds that can be there more than once two of a kind."""

_POOLS_FILE = ROOT / "include" / "pools.json"
_NAME = re.compile(rf"{API_SERVER}|{DAG_PROCESSOR}|(?:scheduler|triggerer)-[1-9][0-9]*")

_MIGRATE_DEADLINE_S = 300.0
_START_DEADLINE_S = 300.0
_GRACE_S = 10.0


def template_folder(postgresql_version: str) -> Path:
    """Give where a cluster with Airflow's tables is kept: making them takes ten seconds of processor time every time.

    The name changes with whatever the tables, or the files of the cluster, depend on.
    """
    airflow = importlib.metadata.version("apache-airflow-core")
    key = json.dumps(["2", postgresql_version, airflow, platform.machine(), _POOLS_FILE.read_text()])
    return cache_folder() / "airflow-database" / hashlib.sha256(key.encode()).hexdigest()[:16]


def migrate(host: Host, environment: Mapping[str, str]) -> None:
    """Make Airflow's tables in a database that runs, and the project's pools in them.

    :raises StackError: a command failed.
    """
    for name, command in (
        (MIGRATION, _command("db", "migrate")),
        (POOLS, _command("pools", "import", str(_POOLS_FILE))),
    ):
        host.run_to_end(name, command, environment, deadline_s=_MIGRATE_DEADLINE_S)


def keep_template(host: Host, database: Database, log: Path) -> None:
    """Keep the tables of a database that runs for the next time; it is stopped meanwhile."""
    host.supervisor.stop(PROCESS)
    save_template(database, template_folder(database.binaries.version))
    host.supervisor.run(database.spec(log))


def write_passwords(home: Path, passwords: Mapping[str, str]) -> None:
    """Write the users' passwords where the simple auth manager reads them."""
    home.mkdir(parents=True, exist_ok=True)
    file = passwords_file(home)
    file.touch(mode=0o600)
    file.write_text(json.dumps(dict(passwords)))


def start(host: Host, name: str, environment: Mapping[str, str]) -> None:
    """Start the service of this name; the word before its number says which it is.

    :raises StackError: no service can have that name.
    """
    if not _NAME.fullmatch(name):
        raise StackError(
            f"Airflow has no service {name!r}: give {API_SERVER}, {DAG_PROCESSOR}, or scheduler-N or triggerer-N with "
            "a number N"
        )
    service, _, number = name.rpartition("-")
    arguments = [service, "--skip-serve-logs"] if number.isdigit() else [name]
    # Airflow writes down, for each process and each task, which user it runs as: by this variable (`getpass.getuser`).
    # So its job table tells by name whose heartbeat a row is; a host name that nobody can resolve would cost seconds.
    host.start(name, _command(*arguments), {**environment, "LOGNAME": name}, grace_s=_GRACE_S)


def wait_until_healthy(host: Host, url: str) -> None:
    """Wait until all services say that they are healthy.

    :raises StackError: one of them ended, or it took too long.
    """
    # The first request makes the server build the API that tasks use, five seconds of work; here they pass unnoticed.
    host.wait_until_answers(API_SERVER, f"{url}/execution/health", deadline_s=_START_DEADLINE_S)
    with AirflowClient(url, timeout_s=5) as client:
        for name in SERVICES:
            host.wait_until(name, functools.partial(_is_healthy, client, name), deadline_s=_START_DEADLINE_S)


def _is_healthy(client: AirflowClient, name: str) -> bool:
    try:
        health = client.health()
    except AirflowError:
        return False
    kind = name.removesuffix("-1").replace("-", "_")
    return name == API_SERVER or health.get(kind) == "healthy"


def _command(*arguments: str) -> list[str]:
    return [airflow_python(), "-m", "airflow", *arguments]
