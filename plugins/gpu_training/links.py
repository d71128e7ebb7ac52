"""Buttons on a task instance in Airflow's UI: its MLflow run and its Job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from airflow.sdk import BaseOperatorLink, BaseXCom
from airflow.sdk.configuration import conf

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator

XCOM_JOB: Final = "job"
"""Key under which the operator tells, as soon as there is one, which Job and MLflow run the task has."""


class MlflowRunLink(BaseOperatorLink):
    """The MLflow run: parameters, metrics as they come, the model."""

    name = "MLflow run"

    def get_link(self, operator: BaseOperator, *, ti_key: Any) -> str:
        """Give the run's address; "" while the task has none."""
        return str(_told(ti_key).get("mlflow_url") or "")


class TrainingJobLink(BaseOperatorLink):
    """The Job on a dashboard, if the option `[gpu_training] job_url` says where that is.

    It is an address with `{namespace}`, `{name}` and `{uid}` in it.
    """

    name = "Kubernetes Job"

    def get_link(self, operator: BaseOperator, *, ti_key: Any) -> str:
        """Give the Job's address; "" while there is no Job, or no dashboard."""
        pattern, told = conf.get("gpu_training", "job_url", fallback=""), _told(ti_key)
        if not pattern or not told:
            return ""
        values = {"namespace": told["namespace"], "name": told["job"], "uid": told["job_uid"]}
        return str(pattern.format_map({name: quote(str(value), safe="") for name, value in values.items()}))


def _told(ti_key: Any) -> dict[str, Any]:
    told = BaseXCom.get_value(ti_key=ti_key, key=XCOM_JOB)
    return told if isinstance(told, dict) else {}
