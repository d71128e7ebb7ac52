"""A stack that has the DAG `log_exactness`, and a run of it whose log streams break: what its task log says by REST."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlsplit

import httpx
from tests.stack.trainings import wait_until

from sandbox.agent.images import ImageStore
from sandbox.cluster import Sandbox
from sandbox.proxy import FaultyProxy
from sandbox.proxy_script import Action, Rule, Stream
from stack import airflow_services
from stack.assembly import airflow_environment, sandbox_folder
from stack.lifecycle import Stack

DAG_ID: Final = "log_exactness"
DAGS: Final = Path(__file__).resolve().parent / "log_dags"
CUT_EVERY_S: Final = 2.0
_RENEWED: Final = ("scheduler-1", "triggerer-1", "dag-processor")


class LogScene:
    """What a test of task logs needs of a stack."""

    def __init__(self, stack: Stack, folder: Path) -> None:
        self.stack = stack
        self._folder = folder
        self._image = ImageStore().image("sandbox-shell").identity
        login = {"username": "admin", "password": stack.record.passwords["admin"]}
        self._http = httpx.Client(base_url=stack.airflow_url, timeout=60, trust_env=False)
        token = self._http.post("/auth/token", json=login).raise_for_status().json()["access_token"]
        self._http.headers["authorization"] = f"Bearer {token}"

    @classmethod
    @contextmanager
    def on(cls, stack: Stack, folder: Path) -> Iterator[LogScene]:
        """Have Airflow know the DAG for as long as the block runs."""
        bundle = "airflow.dag_processing.bundles.local.LocalDagBundle"
        bundles = [
            {"name": "dags-folder", "classpath": bundle, "kwargs": {}},
            {"name": "logs", "classpath": bundle, "kwargs": {"path": str(DAGS)}},
        ]
        plain = airflow_environment(stack.folder, stack.record)
        renew(stack, {**plain, "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps(bundles)})
        scene = cls(stack, folder)
        try:
            wait_until(scene._has_dag, "the DAG is there")
            scene._http.patch(f"/api/v2/dags/{DAG_ID}", json={"is_paused": False}).raise_for_status()
            yield scene
        finally:
            scene._http.close()
            renew(stack, plain)

    @contextmanager
    def connections(self, **passwords: str) -> Iterator[tuple[dict[str, str], FaultyProxy]]:
        """Give params with connections, to the API server by a proxy that cuts logs and to MLflow, and the proxy.

        :param passwords: of the connections `cluster` and `registry`.
        """
        cluster = Sandbox.attach(sandbox_folder(self.stack.folder))
        assert cluster is not None
        mark = secrets.token_hex(4)
        ids = {"cluster": f"cluster_{mark}", "registry": f"registry_{mark}"}
        mlflow = urlsplit(self.stack.mlflow_url)
        with FaultyProxy(cluster, self._folder) as proxy:
            proxy.follow(Rule(action=Action.CUT, stream=Stream.LOG, after_s=CUT_EVERY_S))
            extra = json.dumps({"kube_config_path": str(proxy.kubeconfig), "namespace": "gpu-training"})
            self._connect(ids["cluster"], conn_type="kubernetes", extra=extra, password=passwords.get("cluster"))
            self._connect(
                ids["registry"],
                conn_type="http",
                schema="http",
                host=mlflow.hostname,
                port=mlflow.port,
                login="trainer",
                password=passwords.get("registry"),
            )
            try:
                yield ids, proxy
            finally:
                for conn_id in ids.values():
                    self._http.delete(f"/api/v2/connections/{conn_id}")

    def begin(self, script: str, params: dict[str, str]) -> LogRun:
        """Start a run of a Python script."""
        path = self._folder / f"says-{secrets.token_hex(4)}.py"
        path.write_text(script)
        body = {"logical_date": None, "conf": {"image": self._image, "script": str(path), **params}}
        answer = self._http.post(f"/api/v2/dags/{DAG_ID}/dagRuns", json=body).raise_for_status()
        return LogRun(self._http, str(answer.json()["dag_run_id"]))

    def _has_dag(self) -> bool:
        answer = self._http.get(f"/api/v2/dags/{DAG_ID}")
        # One of an earlier scene is known, and is not run.
        return answer.is_success and not answer.json()["is_stale"]

    def _connect(self, conn_id: str, **fields: Any) -> None:
        self._http.post("/api/v2/connections", json={"connection_id": conn_id, **fields}).raise_for_status()


class LogRun:
    """One run."""

    def __init__(self, http: httpx.Client, run_id: str) -> None:
        self._http = http
        self._path = f"/api/v2/dags/{DAG_ID}/dagRuns/{quote(run_id, safe='')}"

    @property
    def state(self) -> str:
        return str(self._http.get(self._path).json()["state"])

    @property
    def has_ended(self) -> bool:
        return self.state in ("success", "failed")

    def give_up(self) -> None:
        """Mark it as failed, which ends its training."""
        if not self.has_ended:
            self._http.patch(self._path, json={"state": "failed"}).raise_for_status()
            wait_until(lambda: self.has_ended, "the run has ended")

    def records(self) -> list[dict[str, Any]]:
        """Give the records of the task log, as whoever looks at it in the browser gets them."""
        headers = {"accept": "application/json"}
        answer = self._http.get(f"{self._path}/taskInstances/train/logs/1", headers=headers)
        content = answer.json()["content"] if answer.is_success else []
        return [record for record in content if isinstance(record, dict)]

    def lines(self, about: str) -> list[str]:
        """Give the messages that hold a text."""
        return [str(record["event"]) for record in self.records() if about in str(record["event"])]


def renew(stack: Stack, environment: dict[str, str]) -> None:
    """Start services anew with other settings."""
    for name in _RENEWED:
        stack.service(name).kill()
        airflow_services.start(stack.host, name, environment)
    for name in _RENEWED:
        stack.service(name).await_healthy()
