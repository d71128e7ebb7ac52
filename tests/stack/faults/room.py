"""Where the matrix runs: a stack that has the DAG `faults`, a node with GPUs for it, a meter, and who evicts pods."""

from __future__ import annotations

import json
import secrets
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.stack.faults.gate import Gate, Hold
from tests.stack.faults.gpu_meter import Document, GpuMeter
from tests.stack.faults.pipeline_run import Airflow, PipelineRun

from sandbox.agent.images import ImageStore
from sandbox.cluster import Sandbox
from sandbox.control_plane import HOST
from sandbox.errors import SandboxError
from sandbox.faults.pods import fail_pod
from sandbox.nodes import NodeRequest
from sandbox.state import OPERATOR_KUBECONFIG_NAME
from sandbox.waiting import wait_for
from stack import airflow_services
from stack.assembly import airflow_environment, sandbox_folder
from stack.lifecycle import Stack

FOLDER = Path(__file__).resolve().parent
NAMESPACE = "gpu-training"
NODE = "faults-1"
GPUS = 16
WORKLOAD = "faults"
AT_ONCE = 16
"""Tasks that Airflow runs at the same moment: one that is held up must not keep others from beginning."""

_DAG_DEADLINE_S = 120.0
_POLL_S = 0.1


class Room:
    """A stack in which runs of the matrix can be had, until :meth:`close`."""

    def __init__(self, stack: Stack, folder: Path) -> None:
        cluster = Sandbox.attach(sandbox_folder(stack.folder))
        if cluster is None:
            raise SandboxError(f"no sandbox runs in {sandbox_folder(stack.folder)}: bring the stack up first")
        self.stack = stack
        self.cluster = cluster
        self.folder = folder
        self.airflow = Airflow(stack)
        self.meter = GpuMeter(cluster.api, NAMESPACE, self._key_of)
        self._mark = secrets.token_hex(4)
        self._evicting = threading.Event()
        self._image = ImageStore().image("sandbox-shell").identity

    def open(self) -> None:
        """Have Airflow know the DAG, and the cluster the node."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for name in ("scheduler-1", "triggerer-1", "dag-processor"):
            self.stack.service(name).kill()
            airflow_services.start(self.stack.host, name, self._environment())
        self.cluster.add_node(NodeRequest(name=NODE, gpus=GPUS, labels={"workload": WORKLOAD}, cpu="8", memory="16Gi"))
        for name in ("scheduler-1", "triggerer-1", "dag-processor"):
            self.stack.service(name).await_healthy()
        wait_for(self.airflow.has_dag, _DAG_DEADLINE_S, "the DAG `faults`")
        self.airflow.unpause()
        threading.Thread(target=self._evict, name="evictions", daemon=True).start()

    def close(self) -> None:
        self._evicting.set()
        self.meter.stop()
        self.airflow.close()
        with suppress(SandboxError):
            self.cluster.remove_node(NODE)

    def begin(self, name: str, outcome: str, *, seconds: float, connections: dict[str, str]) -> PipelineRun:
        """Start a run.

        :param name: of its cell; its folder takes the files that its pods and we tell one another by.
        :param seconds: how long a pod trains.
        :param connections: params of the DAG.
        """
        folder = self.folder_of(name)
        folder.mkdir()
        return self.airflow.trigger(
            {
                "image": self._image,
                "script": str(FOLDER / "training.sh"),
                "folder": str(folder),
                "outcome": outcome,
                "seconds": f"{seconds:g}",
                "workload": WORKLOAD,
                "name": f"{name.replace('.', '-')}-{self._mark}",
                **connections,
            }
        )

    def folder_of(self, name: str) -> Path:
        return self.folder / name

    def let_go(self, name: str) -> None:
        """Have the pods of a training train."""
        (self.folder_of(name) / "go").touch()

    @contextmanager
    def cluster_gate(self, name: str, hold: Hold) -> Iterator[tuple[Gate, str]]:
        """Give a gate before the API server, and the connection that leads through it, as the operator."""
        credentials = self.cluster.site.credentials
        pair = credentials.cluster.issue(
            credentials.pair(f"gate-{name}"), common_name="gate", addresses=[HOST], server=True
        )
        serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        serving.load_cert_chain(pair.certificate, pair.key)
        trust = ssl.create_default_context(cafile=str(credentials.cluster.certificate))
        gate = Gate(self.cluster.api_url, hold, trust=trust, serving=serving)
        document = json.loads((self.cluster.folder / OPERATOR_KUBECONFIG_NAME).read_text())
        document["clusters"][0]["cluster"]["server"] = f"https://{HOST}:{gate.port}"
        kubeconfig = self.folder_of(f"{name}.kubeconfig")
        kubeconfig.touch(mode=0o600)
        kubeconfig.write_text(json.dumps(document))
        extra = {"kube_config_path": str(kubeconfig), "namespace": NAMESPACE}
        with self._connection(gate, name, conn_type="kubernetes", extra=json.dumps(extra)) as conn_id:
            yield gate, conn_id

    @contextmanager
    def registry_gate(self, name: str, hold: Hold) -> Iterator[tuple[Gate, str]]:
        """Give a gate before MLflow, and the connection that leads through it."""
        gate = Gate(self.stack.mlflow_url, hold)
        with self._connection(gate, name, conn_type="http", host=HOST, schema="http", port=gate.port) as conn_id:
            yield gate, conn_id

    @contextmanager
    def _connection(self, gate: Gate, name: str, **fields: Any) -> Iterator[str]:
        conn_id = f"faults_{self._mark}_{name.replace('.', '_').replace('-', '_')}"
        self.airflow.connect(conn_id, **fields)
        try:
            yield conn_id
        finally:
            gate.stop()
            self.airflow.disconnect(conn_id)

    def _environment(self) -> dict[str, str]:
        bundle = "airflow.dag_processing.bundles.local.LocalDagBundle"
        bundles = [
            {"name": "dags-folder", "classpath": bundle, "kwargs": {}},
            {"name": "faults", "classpath": bundle, "kwargs": {"path": str(FOLDER / "dags")}},
        ]
        return {
            **airflow_environment(self.stack.folder, self.stack.record),
            "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps(bundles),
            "AIRFLOW__CORE__PARALLELISM": str(AT_ONCE),
        }

    def _key_of(self, pod_spec: Document) -> str | None:
        """Give the cell of a training: its pods are told its folder."""
        for container in pod_spec["containers"]:
            for argument in [*container.get("command", ()), *container.get("args", ())]:
                if argument.startswith(f"{self.folder}/"):
                    return str(argument[len(f"{self.folder}/") :])
        return None

    def _evict(self) -> None:
        """End each pod that asks for its disruption."""
        while not self._evicting.wait(_POLL_S):
            for due in self.folder.glob("*/due"):
                for pod in self.meter.read(due.parent.name).holding():
                    # A pod that has ended meanwhile needs none.
                    with suppress(SandboxError):
                        fail_pod(self.cluster, NAMESPACE, pod)
                        due.rename(due.with_name("evicted"))
