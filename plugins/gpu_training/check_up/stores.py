"""Whether MLflow and the models' data can be reached from here, with the connections that trainings use."""

from __future__ import annotations

import time
from dataclasses import replace

from gpu_training.check_up.cases import Case
from gpu_training.core.check_up import Check, State
from gpu_training.core.errors import GpuTrainingError, RegistryError
from gpu_training.core.model import Verification
from gpu_training.registry.tracking_server import TrackingServer, tracking_server
from gpu_training.sources.resolution import source_for


def look_at_mlflow(conn_id: str, url: str | None) -> Check:
    """Give the check of a tracking server: it answers, and lets us in.

    :param conn_id: connection that the models name.
    :param url: its address instead, without credentials.
    """
    where = f"MLflow at {url}" if url else f"MLflow, connection {conn_id!r}"
    try:
        server = tracking_server(conn_id) if url is None else TrackingServer(conn_id="--mlflow-url", uri=url)
        with server.client():
            pass
    except GpuTrainingError as error:
        remedy = (
            "start MLflow; no training begins, and none is registered, until it answers"
            if isinstance(error, RegistryError) and error.transient
            else f"correct the connection {conn_id!r}, or set AIRFLOW_CONN_{conn_id.upper()} where this runs, "
            "or give --mlflow-url"
        )
        return Check(name="mlflow", subject=where, state=State.BROKEN, said=str(error), remedy=remedy)
    return Check(name="mlflow", subject=where, state=State.OK, said=f"{server.uri} answers and lets us in")


def look_at_data(case: Case) -> Check:
    """Give the check of a model's data: the version that a run asks for now is there, with all its files.

    Files are listed and none is read: a run's resolve task does that.
    """
    subject = f"data of model {case.model.name}"

    def check(state: State, said: str, remedy: str = "") -> Check:
        return Check(name=f"data/{case.model.name}", subject=subject, state=state, said=said, remedy=remedy)

    if case.data is None:
        where = "data.uri or data.conn_id is a template that Airflow alone can render"
        return check(State.UNKNOWN, where, "start a dry run in Airflow: its resolve task tells")
    settings = replace(case.data, verify=Verification.SIZES)
    try:
        version = source_for(settings).resolve(settings.ref, run_after=time.time())
    except GpuTrainingError as error:
        conn_id = settings.conn_id
        where = f" or the connection {conn_id!r} (AIRFLOW_CONN_{conn_id.upper()} where this runs)" if conn_id else ""
        remedy = f"correct `data` in the model's file{where}; trainings end at their first task until then"
        return check(State.BROKEN, str(error), remedy)
    return check(State.OK, f"{version.ref} is version {version.id} of {version.created_at}, at {version.uri}")
