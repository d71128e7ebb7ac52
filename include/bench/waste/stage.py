"""The stack on which all rows are played: Airflow with the benchmark's DAGs, a large GPU node, a way in for the stock
operator, and a faulty proxy for each scenario that has one."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.waste.rows import ALL_NODES, LABEL, Column, Row, Scenario
from bench.waste.settings import FOLDER_VARIABLE, NAMESPACE
from bench.waste.tasks import Tasks
from bench.waste.view import View
from sandbox.cluster import NodeRequest, Sandbox
from sandbox.control_plane import kubeconfig, write_secret_json
from sandbox.proxy import FaultyProxy
from stack import airflow_services
from stack.assembly import airflow_environment, sandbox_folder
from stack.heartbeats import SHORT
from stack.lifecycle import Stack
from stack.screen import PlainScreen
from stack.steps import Steps

DAGS = Path(__file__).resolve().parent / "dags"
_ACCOUNT = "stock-operator"
_READ_DAGS = ("dag-processor", "scheduler-1", "triggerer-1")
_TOKEN_S = 24 * 3600
_NODE_GPUS = 64

# The operator deletes and marks pods, and its hook reads their events: more than this project's Role grants.
_STOCK_ROLE = [
    {"apiGroups": ["batch"], "resources": ["jobs", "jobs/status"], "verbs": ["*"]},
    {"apiGroups": [""], "resources": ["pods", "pods/log", "pods/exec", "events"], "verbs": ["*"]},
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """What runs while rows are played.

    :param shared: folder that the trainings write into.
    :param proxies: by the scenario's key.
    """

    stack: Stack
    sandbox: Sandbox
    view: View
    tasks: Tasks
    shared: Path
    proxies: dict[str, FaultyProxy]

    @property
    def signals(self) -> Path:
        """Folder with a file for each pod whose container is out of memory."""
        return self.shared / "signals"

    def add_node(self, scenario: Scenario, number: int) -> str:
        """Add a node of its own for a scenario, and give its name."""
        name = f"{scenario.row.name}-{scenario.column}-{number}"
        self.sandbox.add_node(NodeRequest(name=name, gpus=2, labels={LABEL: scenario.key}))
        return name


@contextmanager
def stage(folder: Path, rows: Sequence[Row]) -> Iterator[Stage]:
    """Bring everything up, and all of it down at the end.

    :param rows: those that will be played.
    :raises StackError: a part did not come up.
    :raises sandbox.errors.SandboxError: the cluster did not.
    """
    with ExitStack() as ending:
        stack = Stack.up(folder / "stack", Steps(PlainScreen()), owner_pid=os.getpid(), heartbeats=SHORT)
        ending.callback(stack.down)
        sandbox = Sandbox.attach(sandbox_folder(stack.folder))
        assert sandbox is not None  # noqa: S101 - the stack has just brought it up
        sandbox.add_node(NodeRequest(name="bench", gpus=_NODE_GPUS, cpu="64", memory="64Gi", labels={LABEL: ALL_NODES}))
        stock = _stock_kubeconfig(sandbox, folder)
        played = [Scenario(row, column) for row in rows for column in Column]
        proxies = {
            each.key: ending.enter_context(_proxy(sandbox, folder, each, stock)) for each in played if each.row.proxied
        }
        shared = folder / "shared"
        (shared / "signals").mkdir(parents=True)
        ways = {each.connection: proxies[each.key].kubeconfig for each in played if each.row.proxied}
        _take_dags(stack, {**ways, "waste_stock": stock}, shared)
        tasks, view = Tasks(stack), View(sandbox.api)
        ending.callback(tasks.close)
        ending.callback(view.stop)
        with stack.client() as client:
            for each in played:
                stack.await_dag(client, each.dag_id)
        yield Stage(stack=stack, sandbox=sandbox, view=view, tasks=tasks, shared=shared, proxies=proxies)


def _take_dags(stack: Stack, ways: dict[str, Path], shared: Path) -> None:
    """Have Airflow's services read the benchmark's DAGs, and nothing else, and know the ways to the cluster."""
    connections = {
        f"AIRFLOW_CONN_{name.upper()}": json.dumps(
            {"conn_type": "kubernetes", "extra": {"kube_config_path": str(path), "namespace": NAMESPACE}}
        )
        for name, path in ways.items()
    }
    environment = {
        **airflow_environment(stack.folder, stack.record),
        **connections,
        "AIRFLOW__CORE__DAGS_FOLDER": str(DAGS),
        "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": "120",
        # They do not change, and each look imports the provider anew.
        "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "3600",
        FOLDER_VARIABLE: str(shared),
    }
    for name in _READ_DAGS:
        stack.service(name).stop()
        airflow_services.start(stack.host, name, environment)
    for name in _READ_DAGS:
        stack.service(name).await_healthy()


@contextmanager
def _proxy(sandbox: Sandbox, folder: Path, scenario: Scenario, stock: Path) -> Iterator[FaultyProxy]:
    home = folder / "proxies" / scenario.key
    home.mkdir(parents=True)
    operator = sandbox.operator_kubeconfig if scenario.column is Column.OURS else stock
    with FaultyProxy(sandbox, home, operator) as proxy:
        yield proxy


def _stock_kubeconfig(sandbox: Sandbox, folder: Path) -> Path:
    """Give the kubeconfig of a service account with the rights that the stock operator needs."""
    metadata = {"name": _ACCOUNT, "namespace": NAMESPACE}
    group = "rbac.authorization.k8s.io"
    subject = {"kind": "ServiceAccount", **metadata}
    for document in (
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
        {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": metadata, "rules": _STOCK_ROLE},
        {
            "apiVersion": f"{group}/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": group, "kind": "Role", "name": _ACCOUNT},
            "subjects": [subject],
        },
    ):
        sandbox.api.apply(document)
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": _TOKEN_S},
    }
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{_ACCOUNT}/token"
    token = sandbox.api.request("POST", path, request)["status"]["token"]
    authority = sandbox.site.credentials.cluster.certificate
    document = kubeconfig(sandbox.api_url, authority, {"token": token}, namespace=NAMESPACE)
    return write_secret_json(folder / "stock.kubeconfig", document)
