"""How the parts come up: in four chains at once, each part as soon as what it needs is there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sandbox.agent.images import ImageStore
from sandbox.cluster import Sandbox
from sandbox.manifests import NAMESPACE
from sandbox.state import OPERATOR_KUBECONFIG_NAME
from stack import airflow_services, mlflow_server, object_store
from stack.airflow_settings import Connections, connections, settings
from stack.checkout import ROOT, SERVICES, base_environment
from stack.database import PROCESS, Database, prepare
from stack.host import Host
from stack.postgresql_binaries import find_binaries
from stack.record import StackRecord
from stack.steps import Steps, run_together

SECRET_NAME = "flights-data-credentials"  # noqa: S105 - the name of a Kubernetes Secret
TRAINER_IMAGE = "xgboost-trainer"
WEEKS = 3
_DATABASE_DEADLINE_S = 60.0


class Assembly:
    """The parts of one stack while it comes up.

    :param owner_pid: the process with which the sandbox ends; None: it runs until it is taken down.
    """

    def __init__(self, host: Host, record: StackRecord, steps: Steps, *, owner_pid: int | None) -> None:
        self.host = host
        self.record = record
        self._steps = steps
        self._owner_pid = owner_pid
        self._home = home_folder(host.folder)
        self._home.mkdir()

    def run(self, *, give_up: Callable[[], None]) -> None:
        """Bring all parts up.

        :param give_up: ends what runs, when a part failed.
        :raises StackError: a part did not come up.
        :raises sandbox.errors.SandboxError: the cluster did not.
        """
        chains = (self._run_airflow, self._run_sandbox, self._run_mlflow, self._run_object_store)
        run_together(chains, give_up=give_up)

    def _run_sandbox(self) -> None:
        with self._steps.step("sandbox") as tell:
            folder = sandbox_folder(self.host.folder)

            def progress(text: str) -> None:
                tell(text.removeprefix("sandbox: "))

            sandbox = Sandbox.up(folder, owner_pid=self._owner_pid, progress=progress)
            secret = {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": SECRET_NAME, "namespace": NAMESPACE},
                "stringData": self.record.store.environment,
            }
            sandbox.api.apply(secret)

    def _run_object_store(self) -> None:
        with self._steps.step("object_store"):
            object_store.start(self.host, self.record.store, self._home)
        with self._steps.step("data"):
            object_store.publish_flights(self.host, self.record.store, self._home, weeks=WEEKS)

    def _run_mlflow(self) -> None:
        with self._steps.step("mlflow"):
            mlflow_server.start(self.host, self.record.mlflow, self.record.store, self._home)

    def _run_airflow(self) -> None:
        with self._steps.step("database") as tell:
            environment = airflow_environment(self.host.folder, self.record)
            self._run_database(tell)
        with self._steps.step("airflow"):
            airflow_services.write_passwords(airflow_home(self.host.folder), self.record.passwords)
            for name in airflow_services.SERVICES:
                airflow_services.start(self.host, name, environment)
            airflow_services.wait_until_healthy(self.host, self.record.airflow_url)

    def _run_database(self, tell: Callable[[str], None]) -> None:
        binaries = find_binaries(SERVICES)
        template = airflow_services.template_folder(binaries.version)
        has_tables = template.exists()
        database = prepare(
            self.host.folder,
            binaries,
            port=self.record.database_port,
            password=self.record.database_password,
            template=template if has_tables else None,
        )
        log = self.host.log(PROCESS)
        self.host.supervisor.run(database.spec(log))
        self._await_database(database)
        if has_tables:
            return
        tell("making Airflow's tables, once for this version")
        airflow_services.migrate(self.host, airflow_environment(self.host.folder, self.record))
        airflow_services.keep_template(self.host, database, log)
        self._await_database(database)

    def _await_database(self, database: Database) -> None:
        self.host.wait_until(PROCESS, database.is_ready, deadline_s=_DATABASE_DEADLINE_S)


def home_folder(state: Path) -> Path:
    """Give what takes the place of the user's home folder."""
    return state / "home"


def airflow_home(state: Path) -> Path:
    return state / "airflow"


def sandbox_folder(state: Path) -> Path:
    return state / "sandbox"


def airflow_environment(state: Path, record: StackRecord) -> dict[str, str]:
    """Give the environment of Airflow's services."""
    home = airflow_home(state)
    given = Connections(
        kubeconfig=sandbox_folder(state) / OPERATOR_KUBECONFIG_NAME,
        store=record.store.environment,
        mlflow_url=record.mlflow.url,
    )
    return {
        **base_environment(home_folder(state)),
        **settings(
            root=ROOT,
            home=home,
            port=record.airflow_port,
            database_url=record.database_url,
            secrets=record.airflow_secrets,
            heartbeats=record.heartbeats,
        ),
        **connections(given),
        "AIRFLOW_VAR_XGBOOST_TRAINER_IMAGE": ImageStore().image(TRAINER_IMAGE).identity,
    }
