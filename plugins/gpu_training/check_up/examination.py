"""All checks, one after the other: the models' files, their cluster, MLflow, data, Airflow."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from gpu_training.airflow_client import AirflowClient
from gpu_training.check_up.airflow_looks import look_at_airflow
from gpu_training.check_up.cases import Case, case_of
from gpu_training.check_up.cluster_looks import look_at_cluster
from gpu_training.check_up.stores import look_at_data, look_at_mlflow
from gpu_training.cluster.connection import ClusterAddress
from gpu_training.core.check_airflow import check_airflow
from gpu_training.core.check_cluster import check_cluster
from gpu_training.core.check_up import Check, State
from gpu_training.core.errors import ConfigurationError
from gpu_training.core.model import Model


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """What is to be checked.

    :param models: whose trainings.
    :param faults: what is wrong with further models' files.
    :param mlflow_url: instead of the models' connections.
    :param airflow: None: it is not looked at.
    """

    models: Sequence[Model]
    address: ClusterAddress
    faults: Sequence[ConfigurationError] = ()
    mlflow_url: str | None = None
    airflow: AirflowClient | None = None

    def checks(self) -> Iterator[Check]:
        """Give the checks as they are made. Nothing is raised for what is found, and nothing is created."""
        cases = [case_of(model) for model in self.models]
        for fault in self.faults:
            yield _fault(str(fault))
        for case in cases:
            yield _file(case)
            if (other := case.model.kubernetes_conn_id) != (self.address.conn_id or other):
                yield _elsewhere(case.model.name, other, str(self.address.conn_id))
        yield from check_cluster(asyncio.run(look_at_cluster(self.address, cases)))
        conn_ids = sorted({case.model.registry.conn_id for case in cases})
        for conn_id in conn_ids[:1] if self.mlflow_url else conn_ids:
            yield look_at_mlflow(conn_id, self.mlflow_url)
        for case in cases:
            yield look_at_data(case)
        yield from self._of_airflow()

    def _of_airflow(self) -> Iterator[Check]:
        if self.airflow is None:
            said = "it was not looked at: its address was not given"
            remedy = "give --airflow-url with a login, to have services, pools and DAGs checked"
            yield Check(name="airflow", subject="Airflow", state=State.UNKNOWN, said=said, remedy=remedy)
            return
        with closing(self.airflow) as client:
            yield from check_airflow(look_at_airflow(client, [model.name for model in self.models]))


def _fault(said: str) -> Check:
    name = f"file/{Path(said.partition(':')[0]).stem}"
    remedy = "correct the model's file; its DAGs do not exist until then"
    return Check(name=name, subject="models", state=State.BROKEN, said=said, remedy=remedy)


def _file(case: Case) -> Check:
    name, fields = f"file/{case.model.name}", ", ".join(case.unknown)
    if case.fault:
        remedy = "correct the model's file, or the Variable that it reads"
        said = f"its training is refused once rendered: {case.fault}"
        return Check(name=name, subject="models", state=State.BROKEN, said=said, remedy=remedy)
    remedy = "write a default into the template, or set the Variable as AIRFLOW_VAR_… where this runs"
    if case.sample is None:
        said = f"Airflow alone can render {fields}: the training's checks of the cluster are left out"
        return Check(name=name, subject="models", state=State.UNKNOWN, said=said, remedy=remedy)
    if case.unknown:
        said = f"Airflow alone can render {fields}: what they mean is not checked"
        return Check(name=name, subject="models", state=State.UNKNOWN, said=said, remedy=remedy)
    return Check(name=name, subject="models", state=State.OK, said="the model's file is sound")


def _elsewhere(model: str, own: str, looked: str) -> Check:
    said = f"model {model} goes to the cluster of connection {own!r}; checked is that of {looked!r}"
    remedy = f"check it by itself: gpu-training doctor {model} --conn-id {own}"
    return Check(name=f"connection/{model}", subject="models", state=State.WARNING, said=said, remedy=remedy)
