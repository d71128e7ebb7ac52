"""Airflow in the test's own process: whole DAGs run by `dag.test`, with no service of Airflow running.

A test asks for the fixture `light_airflow`. What it gets:

- An Airflow of the session's own: a fresh AIRFLOW_HOME with a SQLite database and the project's pools, nothing of the
  caller's AIRFLOW_… variables, the project's plugins. `tests/conftest.py` makes it before any test file can import
  Airflow, which reads its settings then.
- A DAG folder of the test's own: :meth:`LightAirflow.write_dag` puts a DAG into it,
  :meth:`LightAirflow.take_project` the project's own DAGs and models.
- The connections `kubernetes_gpu`, to the session's sandbox with the operator's rights and no more, and
  `mlflow_tracking`, to the server in memory of the fixture `mlflow`. The `connect_…` methods lead them elsewhere.

The database is the session's: results are asked of the run that :meth:`LightAirflow.run` gives, never of all runs.

`dag.test` runs tasks and triggers in this process, one after the other, and waits each retry's delay for real. It never
calls a trigger's `on_kill`; it knows no mark-as-failed, no clear, no trigger timeout; and it forgets the `kwargs` of a
deferral (airflow/sdk/definitions/dag.py, `_run_task`). For those, and for what dies and comes back, there is the whole
stack: `include/stack/testing.py`. For one operator or trigger without a DAG: `tests/cluster/trainings.py`.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from tests.fake_mlflow import FakeMlflow

if TYPE_CHECKING:
    from sandbox.cluster import Sandbox

ROOT = Path(__file__).resolve().parent.parent
BUNDLE = "dags-folder"


def prepare() -> Path | None:
    """Make the home and point Airflow to it; None where Airflow is not installed."""
    if importlib.util.find_spec("airflow") is None:
        return None
    home = Path(tempfile.mkdtemp(prefix="airflow-home-"))
    for name in [name for name in os.environ if name.startswith("AIRFLOW_")]:
        del os.environ[name]
    os.environ |= {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "plugins"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__FERNET_KEY": "",
        "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": "120",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db",
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
    }
    return home


def remove(home: Path) -> None:
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="session")
def airflow_database() -> None:
    """Make Airflow's tables and the project's pools, once a session."""
    from airflow.cli.commands.pool_command import pool_import_helper
    from airflow.utils.db import initdb

    initdb()
    pool_import_helper(ROOT / "include" / "pools.json")


def connect_cluster(patch: pytest.MonkeyPatch, kubeconfig: Path, conn_id: str = "kubernetes_gpu") -> None:
    extra = {"kube_config_path": str(kubeconfig)}
    patch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps({"conn_type": "kubernetes", "extra": extra}))


def connect_mlflow(patch: pytest.MonkeyPatch, uri: str) -> None:
    address = urlsplit(uri)
    connection = {"conn_type": "http", "schema": "http", "host": address.hostname, "port": address.port}
    patch.setenv("AIRFLOW_CONN_MLFLOW_TRACKING", json.dumps(connection))


@pytest.fixture
def mlflow() -> Iterator[FakeMlflow]:
    """Give a tracking server that has no runs yet."""
    server = FakeMlflow()
    yield server
    server.stop()


@pytest.fixture
def connected(sandbox: Sandbox, mlflow: FakeMlflow, monkeypatch: pytest.MonkeyPatch) -> FakeMlflow:
    """Set the connections `kubernetes_gpu`, with the operator's own rights and no more, and `mlflow_tracking`."""
    connect_cluster(monkeypatch, sandbox.operator_kubeconfig)
    connect_mlflow(monkeypatch, mlflow.uri)
    return mlflow


@dataclass(frozen=True)
class Run:
    """A DAG run that ended."""

    dag_run: Any

    @property
    def state(self) -> str:
        return str(self.dag_run.state)

    @property
    def states(self) -> dict[str, str]:
        """Give the state of each task."""
        return {instance.task_id: str(instance.state) for instance in self.dag_run.get_task_instances()}

    def result(self, task_id: str) -> Any:
        """Give what a task returned; it has to have."""
        from airflow.models.xcom import XComModel
        from airflow.utils.session import create_session

        with create_session() as session:
            query = XComModel.get_many(
                key="return_value", run_id=self.dag_run.run_id, task_ids=task_id, dag_ids=self.dag_run.dag_id
            )
            (found,) = session.scalars(query).all()
            return XComModel.deserialize_value(found)


@dataclass(frozen=True)
class LightAirflow:
    """An Airflow of which only the database exists; the module says what it guarantees.

    :param folder: holds the DAG folder `dags`.
    """

    folder: Path
    patch: pytest.MonkeyPatch

    @property
    def dags(self) -> Path:
        return self.folder / "dags"

    def write_dag(self, name: str, source: str) -> None:
        """Put a DAG file of this name into the folder."""
        (self.dags / f"{name}.py").write_text(source)

    def take_project(self) -> Path:
        """Put the project's own DAG files into the folder, and give the folder of their model files, to be edited."""
        shutil.copytree(ROOT / "dags", self.dags, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
        models = self.folder / "include" / "models"
        shutil.copytree(ROOT / "include" / "models", models)
        return models

    def connect_cluster(self, kubeconfig: Path) -> None:
        """Lead `kubernetes_gpu` to another API server, or with other rights."""
        connect_cluster(self.patch, kubeconfig)

    def connect_mlflow(self, uri: str) -> None:
        """Lead `mlflow_tracking` to another server."""
        connect_mlflow(self.patch, uri)

    def connect(self, conn_id: str, **fields: Any) -> None:
        """Set any other connection, by the fields of its JSON form."""
        self.patch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps(fields))

    def run(self, dag_id: str, **conf: Any) -> Run:
        """Run a DAG to its end, as the REST API starts it when somebody triggers it: without a logical date.

        :param conf: its params.
        """
        from airflow.dag_processing.dagbag import DagBag

        bag = DagBag(dag_folder=self.dags, bundle_name=BUNDLE)
        assert bag.import_errors == {}
        return Run(bag.dags[dag_id].test(run_conf=conf, logical_date=None))


@pytest.fixture
def light_airflow(
    tmp_path: Path, airflow_database: None, connected: FakeMlflow, monkeypatch: pytest.MonkeyPatch
) -> LightAirflow:
    """Give an Airflow in this process, with an empty DAG folder, connected to the sandbox."""
    airflow = LightAirflow(tmp_path / "airflow", monkeypatch)
    airflow.dags.mkdir(parents=True)
    bundle = {
        "name": BUNDLE,
        "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle",
        "kwargs": {"path": str(airflow.dags)},
    }
    monkeypatch.setenv("AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST", json.dumps([bundle]))
    return airflow
