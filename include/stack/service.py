"""One part of a stack by its name: ended, frozen, brought back; and whether it is healthy."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING

import httpx
import psycopg2

from stack import process_tree

if TYPE_CHECKING:
    from stack.host import Host
    from stack.record import StackRecord

HEALTHY_DEADLINE_S = 180.0
_END_DEADLINE_S = 30.0
_CONNECT_S = 2
_ANSWER_S = 5.0
_JOB_TYPES = {"scheduler": "SchedulerJob", "triggerer": "TriggererJob", "dag-processor": "DagProcessorJob"}


class Service:
    """A part of a stack: `api-server`, `scheduler-1`, `dag-processor`, `triggerer-1`, `postgresql`, `mlflow`, ….

    What is done to it is done to all of its processes: a scheduler's executor and the tasks that this runs, the
    process of a triggerer in which the triggers run, PostgreSQL's backends.

    :raises sandbox.processes.ProcessError: from every method, when the stack itself has ended.
    """

    def __init__(self, name: str, host: Host, record: StackRecord) -> None:
        self.name = name
        self._host = host
        self._record = record

    def kill(self, *, alone: bool = False) -> None:
        """End it with SIGKILL; returns when it is dead. Nothing starts it again but :meth:`restart`.

        :param alone: kill the first process only, as `kill -9` and a lack of memory do. What it started lives on: the
            tasks of a scheduler's LocalExecutor run to their end, and nobody takes down how they ended. Without, all
            dies at once, as with its machine or its container; tasks under another executor would live on.
        """
        if alone:
            self._host.supervisor.signal(self.name, signal.SIGKILL)
        else:
            process_tree.kill(self.pid)
        self._host.wait_for_end(self.name, deadline_s=_END_DEADLINE_S)

    def pause(self) -> None:
        """Freeze it with SIGSTOP: it keeps what it holds, connections and locks, and does nothing."""
        process_tree.freeze(self.pid)

    def resume(self) -> None:
        """Let it go on after :meth:`pause`; it does not know that time has passed."""
        process_tree.thaw(self.pid)

    def stop(self) -> None:
        """End it in order: SIGTERM, and SIGKILL when its grace is over; returns when all of it is gone."""
        self.resume()
        self._host.supervisor.stop(self.name)

    def restart(self) -> None:
        """Start it anew with the settings that it had; if it runs it is ended in order first.

        What a killed one left running ends, too. Returns when it is started: see :meth:`await_healthy`.
        """
        self.resume()
        self._host.supervisor.restart(self.name)

    @property
    def pid(self) -> int:
        """Of its first process, which may have ended."""
        return self._host.supervisor.status()[self.name].pid

    @property
    def is_running(self) -> bool:
        """Whether its first process lives, paused or not."""
        return self._host.supervisor.status()[self.name].alive

    @property
    def is_paused(self) -> bool:
        return self.is_running and process_tree.is_frozen(self.pid)

    def is_healthy(self, *, since: float = 0.0) -> bool:
        """Tell whether it does its work.

        Schedulers, triggerers and the DAG processor: by the heartbeat in Airflow's job table, of this very process and
        not of a predecessor, which for Airflow lives on for a while. The others: they answer.

        :param since: a heartbeat before this moment does not count; seconds since 1970.
        """
        if not self.is_running or self.is_paused:
            return False
        kind = self.name.rstrip("0123456789").rstrip("-")
        if kind in _JOB_TYPES:
            return self._has_heartbeat(_JOB_TYPES[kind], since)
        checks: dict[str, Callable[[], bool]] = {
            "api-server": lambda: _answers(f"{self._record.airflow_url}/execution/health"),
            "mlflow": lambda: _answers(f"{self._record.mlflow.url}/health"),
            "object-store": lambda: _answers(f"{self._record.store.url}/moto-api/"),
            "postgresql": lambda: self._ask("SELECT 1", {}) is not None,
        }
        return checks[self.name]()

    def await_healthy(self, *, since: float = 0.0, deadline_s: float = HEALTHY_DEADLINE_S) -> None:
        """Wait until it is healthy.

        :param since: as for :meth:`is_healthy`.
        :raises StackError: it ended, or is not healthy in time; with the end of its log.
        """
        self._host.wait_until(self.name, lambda: self.is_healthy(since=since), deadline_s=deadline_s)

    def _has_heartbeat(self, job_type: str, since: float) -> bool:
        heartbeats = self._record.heartbeats
        silence = max(heartbeats.scheduler_silence_s, heartbeats.triggerer_silence_s)
        query = """SELECT 1 FROM job WHERE job_type = %(type)s AND unixname = %(name)s AND end_date IS NULL
            AND start_date >= to_timestamp(%(started)s) AND latest_heartbeat >= to_timestamp(%(since)s)"""
        values = {
            "type": job_type,
            "name": self.name,
            "started": process_tree.started_at(self.pid),
            "since": max(since, time.time() - silence),
        }
        return bool(self._ask(query, values))

    def _ask(self, query: str, values: dict[str, object]) -> list[tuple[object, ...]] | None:
        """Ask the database; None when it does not answer, as while it is paused or starts."""
        url = self._record.database_url.replace("+psycopg2", "")
        try:
            with (
                closing(psycopg2.connect(url, connect_timeout=_CONNECT_S)) as connection,
                connection.cursor() as cursor,
            ):
                cursor.execute(query, values)
                return list(cursor.fetchall())
        except psycopg2.Error:
            return None


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=_ANSWER_S, trust_env=False).is_success
    except httpx.HTTPError:
        return False
