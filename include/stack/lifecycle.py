"""A whole stack: up, attached to, down. The demo and the tests use it alike."""

from __future__ import annotations

import contextlib
import shutil
import signal
import time
from collections.abc import Sequence
from pathlib import Path

from gpu_training.airflow_client import AirflowClient, NotFoundError
from sandbox.supervisor import Supervisor, SupervisorError, clean_stale
from stack import airflow_services, database, mlflow_server, object_store
from stack.airflow_settings import passwords_file
from stack.assembly import Assembly, airflow_environment, airflow_home, sandbox_folder
from stack.errors import StackError
from stack.heartbeats import USUAL, Heartbeats
from stack.host import POLL_S, Host
from stack.object_store_service import ObjectStoreService
from stack.record import FILE_NAME, StackRecord
from stack.service import Service
from stack.steps import Steps

ADMIN = "admin"

BACKING = (database.PROCESS, object_store.NAME, mlflow_server.NAME)
"""Names of the services that are not Airflow's."""

_ONCE = (airflow_services.MIGRATION, airflow_services.POOLS, object_store.PUBLICATION)
"""Processes that ran to their end while the stack came up."""

_DAG_DEADLINE_S = 120.0
_GRACE_S = 3.0
"""Seconds for all processes to end by themselves. Nothing of a stack outlives it but logs."""


class Stack:
    """A running stack: sandbox, PostgreSQL, S3, MLflow and Airflow, in one state folder.

    Any number run at once, each in a folder of its own. Each part goes by a name, such as `scheduler-1`, by which it
    can be killed, paused and restarted (:meth:`service`).

    :ivar record: its ports and secrets.
    """

    def __init__(self, folder: Path, record: StackRecord, host: Host) -> None:
        self.folder = folder
        self.record = record
        self.host = host

    @classmethod
    def up(cls, folder: Path, steps: Steps, *, owner_pid: int | None, heartbeats: Heartbeats = USUAL) -> Stack:
        """Start a stack in a folder; what an earlier one left there is ended and removed.

        :param owner_pid: everything ends when this process does, in whatever way; None: it runs until `down`.
        :param heartbeats: how soon its Airflow notices what is dead.
        :raises StackError: one runs there already, the folder holds other things, or a part did not come up.
        :raises sandbox.errors.SandboxError: the cluster did not come up.
        """
        folder = folder.resolve()
        _clear(folder)
        folder.mkdir(parents=True, exist_ok=True)
        record = StackRecord.make(owner_pid=owner_pid, heartbeats=heartbeats)
        record.write(folder)
        stack = cls(folder, record, Host(Supervisor.start(folder, owner_pid=owner_pid), folder))
        try:
            Assembly(stack.host, record, steps, owner_pid=owner_pid).run(give_up=stack.down)
        except BaseException:
            stack.down()
            raise
        return stack

    @classmethod
    def attach(cls, folder: Path) -> Stack | None:
        """Give the stack that runs in a folder; None when none does."""
        folder = folder.resolve()
        record, supervisor = StackRecord.read(folder), Supervisor.attach(folder)
        return cls(folder, record, Host(supervisor, folder)) if record and supervisor else None

    @property
    def airflow_url(self) -> str:
        return self.record.airflow_url

    @property
    def mlflow_url(self) -> str:
        return self.record.mlflow.url

    @property
    def kubeconfig(self) -> Path:
        """Of the sandbox's administrator."""
        return sandbox_folder(self.folder) / "kubeconfig"

    @property
    def passwords_file(self) -> Path:
        """JSON of Airflow's users and their passwords."""
        return passwords_file(airflow_home(self.folder))

    def client(self, user: str = ADMIN) -> AirflowClient:
        """Give a client of Airflow that logs in as one of its users."""
        return AirflowClient(self.airflow_url, username=user, password=self.record.passwords[user])

    def await_dag(self, client: AirflowClient, dag_id: str, *, deadline_s: float = _DAG_DEADLINE_S) -> None:
        """Wait until the DAG processor has parsed a DAG.

        :raises StackError: it does not appear, or DAG files fail to parse, which is told at once.
        """
        deadline = time.monotonic() + deadline_s
        while True:
            try:
                client.dag(dag_id)
            except NotFoundError:
                if errors := client.import_errors():
                    texts = "\n".join(f"{file}:\n{trace}" for file, trace in errors.items())
                    raise StackError(f"{dag_id} is not there, and DAG files fail to parse:\n{texts}") from None
                if time.monotonic() > deadline:
                    raise StackError(
                        f"{dag_id} has not appeared after {deadline_s:g} s: is there such a model?"
                    ) from None
                time.sleep(POLL_S)
            else:
                return

    def service(self, name: str) -> Service:
        """Give a part that was started at some time, whether it runs or not.

        :raises StackError: none has this name; the message lists those that have one.
        """
        if name not in self.services:
            raise StackError(f"the stack has no service {name!r}: known are {', '.join(self.services)}")
        kind = ObjectStoreService if name == object_store.NAME else Service
        return kind(name, self.host, self.record)

    @property
    def services(self) -> tuple[str, ...]:
        """Names of all parts, whether they run or not, in the order in which they can be started."""
        started = self.host.supervisor.status()
        return tuple(sorted((name for name in started if name not in _ONCE), key=_rank))

    def start_service(self, name: str) -> Service:
        """Start one more of Airflow's services, such as `scheduler-2`, and give it. It is not waited for.

        :raises StackError: Airflow has no such service.
        """
        airflow_services.start(self.host, name, airflow_environment(self.folder, self.record))
        return self.service(name)

    def down(self) -> None:
        """End everything; returns when all processes are gone. The logs and MLflow's records stay in the folder."""
        self.host.abandoned.set()
        folders = (self.folder, sandbox_folder(self.folder))
        _end_together([supervisor for folder in folders if (supervisor := Supervisor.attach(folder))])
        database.remove(self.folder)


def _rank(name: str) -> tuple[bool, int, str]:
    """Order services so that each comes after what it cannot do without."""
    first = (*BACKING, airflow_services.API_SERVER)
    return (name not in first, first.index(name) if name in first else 0, name)


def _end_together(supervisors: Sequence[Supervisor]) -> None:
    """End all processes at once. One after the other, which is what a shutdown does, each may take its whole grace."""
    for supervisor in supervisors:
        for name in _running(supervisor):
            with contextlib.suppress(SupervisorError):
                supervisor.signal(name, signal.SIGTERM)
    deadline = time.monotonic() + _GRACE_S
    while time.monotonic() < deadline and any(_running(supervisor) for supervisor in supervisors):
        time.sleep(POLL_S)
    for supervisor in supervisors:
        for name in _running(supervisor):
            with contextlib.suppress(SupervisorError):
                supervisor.stop(name, grace_s=0)
        with contextlib.suppress(SupervisorError):
            supervisor.shutdown()


def _running(supervisor: Supervisor) -> list[str]:
    """Give what runs, but for PostgreSQL, which waits for its clients: the shutdown comes to it when they are gone."""
    try:
        return [name for name, status in supervisor.status().items() if status.alive and name != database.PROCESS]
    except SupervisorError:
        return []


def _clear(folder: Path) -> None:
    """Make room in a state folder.

    :raises StackError: a stack runs in it, or it is not one of ours.
    """
    if not folder.exists() or not any(folder.iterdir()):
        return
    record = StackRecord.read(folder)
    if record is None and not (folder / FILE_NAME).exists():
        raise StackError(f"state folder {folder} holds other things than a stack's: give an empty or new folder")
    if Supervisor.attach(folder) and record and record.has_owner:
        raise StackError(
            f"a stack runs in {folder} (Airflow is at {record.airflow_url}): end it, or give another folder"
        )
    for each in (folder, sandbox_folder(folder)):
        if each.exists():
            if supervisor := Supervisor.attach(each):
                supervisor.shutdown()
            clean_stale(each)
    database.remove(folder)
    shutil.rmtree(folder)
