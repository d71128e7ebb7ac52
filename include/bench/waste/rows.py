"""What happens to a training, row by row, and which of its GPU-seconds were useful. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Column(StrEnum):
    """Whose operator it is."""

    OURS = "ours"
    STOCK = "stock"
    """KubernetesJobOperator with its defaults, but that it waits for the Job, and defers."""
    TUNED = "tuned"
    """KubernetesJobOperator with whatever its arguments and full_job_spec can do about these rows."""


class Useful(StrEnum):
    """Which GPU-seconds of a row are no waste."""

    TRAINING = "one training"
    """What one uninterrupted training holds, if a training came to its end; else none: no model came of any."""
    UNTIL_ENDED = "until it was ended"
    """What was held before a person ended it."""
    FIRST_ATTEMPT = "first attempt"
    """What the first attempt held: without it nobody would know that the training can not be."""
    UNTIL_HANG = "until it hung"
    """What an uninterrupted training holds until the step at which this one hangs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One thing that happens.

    :param name: in DAG ids, labels and on the command line.
    :param what: one sentence for the table's reader.
    :param shared: it happens to a service that all columns use, so it is done once, and no other row runs meanwhile.
    :param proxied: the columns reach the API server through a faulty proxy each.
    :param own_node: the pods of each column may run on nodes of their own only.
    """

    name: str
    title: str
    what: str
    useful: Useful
    shared: bool = False
    proxied: bool = False
    own_node: bool = False


ROWS = (
    Row(
        name="triggerer-killed",
        title="triggerer killed",
        what="at step 10 all of the triggerer dies, and is started again",
        useful=Useful.TRAINING,
        shared=True,
    ),
    Row(
        name="mlflow-down",
        title="MLflow down at register",
        what="MLflow is down from before the last step until 45 s after it; who gave up is cleared by a person then",
        useful=Useful.TRAINING,
        shared=True,
    ),
    Row(
        name="hang",
        title="a hang",
        what="after step 10 no step comes any more, in any attempt",
        useful=Useful.UNTIL_HANG,
    ),
    Row(
        name="bad-configuration",
        title="bad configuration",
        what="each attempt ends after 2 s with the exit code for it, 80",
        useful=Useful.FIRST_ATTEMPT,
    ),
    Row(
        name="host-oom",
        title="host OOM",
        what="with less than 100 MiB the container is OOM-killed after step 5; it asks for 64 MiB",
        useful=Useful.TRAINING,
    ),
    Row(
        name="cuda-oom",
        title="CUDA OOM",
        what="each attempt ends after step 5 with the exit code for it, 82",
        useful=Useful.FIRST_ATTEMPT,
    ),
    Row(
        name="three-reclaims",
        title="three reclaims",
        what="three times, 10 steps after it began, the spot node is taken with 3 s notice; another one comes at once",
        useful=Useful.TRAINING,
        own_node=True,
    ),
    Row(
        name="never-schedulable",
        title="never schedulable, then a GPU",
        what="no node fits for 40 s, then there is one",
        useful=Useful.TRAINING,
        own_node=True,
    ),
    Row(
        name="unauthorized",
        title="401 in the middle",
        what="from step 10 on the API server refuses the token, 401, for 15 s",
        useful=Useful.TRAINING,
        proxied=True,
    ),
    Row(
        name="worker-killed",
        title="worker killed",
        what="the worker's processes die after the Job was asked for, before the answer has come",
        useful=Useful.TRAINING,
        proxied=True,
    ),
    Row(
        name="marked-failed",
        title="marked failed while deferred",
        what="a person marks the task as failed at step 10",
        useful=Useful.UNTIL_ENDED,
    ),
    Row(
        name="cleared",
        title="cleared while deferred",
        what="a person clears the task at step 10",
        useful=Useful.TRAINING,
    ),
)

ALL_NODES = "all"
"""Value of the node label of the node on which every row's pods may run that have none of their own."""
LABEL = "waste"
"""Label of a scenario's Jobs and pods, and of nodes."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """One row in one column."""

    row: Row
    column: Column

    @property
    def key(self) -> str:
        """Value of its label."""
        return f"{self.row.name}.{self.column}"

    @property
    def dag_id(self) -> str:
        return f"waste_{self.column}__{self.row.name}"

    @property
    def nodes(self) -> str:
        """Value of the label of the nodes on which its pods may run."""
        return self.key if self.row.own_node else ALL_NODES

    @property
    def connection(self) -> str:
        """Airflow's connection to the cluster."""
        if self.row.proxied:
            return f"waste_{self.row.name}_{self.column}".replace("-", "_")
        return "kubernetes_gpu" if self.column is Column.OURS else "waste_stock"


def scenarios(column: Column) -> list[Scenario]:
    """Give all scenarios of a column."""
    return [Scenario(row, column) for row in ROWS]


def choose(names: str | None) -> list[Row]:
    """Give the rows of these names, separated by commas, in the table's order; None: all.

    :raises ValueError: there is no such row; the message names those that there are.
    """
    wanted = [row.name for row in ROWS] if names is None else [name.strip() for name in names.split(",")]
    known = {row.name for row in ROWS}
    if unknown := [name for name in wanted if name not in known]:
        raise ValueError(f"no row is named {unknown[0]!r}: known are {', '.join(row.name for row in ROWS)}")
    return [row for row in ROWS if row.name in wanted]
