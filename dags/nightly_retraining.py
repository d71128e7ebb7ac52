"""Retrain every model on its own schedule, on the newest data there was when the run was due.

One DAG a file in include/models: `nightly_retraining__<model>`.
"""

from __future__ import annotations

from pathlib import Path

from airflow.sdk import DAG, CronTriggerTimetable

from gpu_training.core.precedence import NIGHTLY_POOL
from gpu_training.model_files import read_model_files
from gpu_training.pipeline import add_tasks, dag_settings

MODELS = Path(__file__).resolve().parent.parent / "include" / "models"

for model in read_model_files(MODELS).models.values():
    with DAG(
        dag_id=f"nightly_retraining__{model.name}",
        schedule=CronTriggerTimetable(model.schedule.cron, timezone=model.schedule.timezone),
        max_active_runs=1,
        **dag_settings(model, use="nightly"),
    ):
        add_tasks(model, training=model.training, ref=model.data.ref, pool=NIGHTLY_POOL)
