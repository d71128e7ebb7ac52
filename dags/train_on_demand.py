"""Train a model when somebody asks for it, with the fields that its file opens in the trigger form.

One DAG a file in include/models: `train_on_demand__<model>`. A form left alone asks for the same work as
the nightly run.
"""

from __future__ import annotations

from pathlib import Path

from airflow.sdk import DAG

from gpu_training.model_files import read_model_files
from gpu_training.pipeline import add_tasks, dag_settings, trigger_form

MODELS = Path(__file__).resolve().parent.parent / "include" / "models"

for model in read_model_files(MODELS).models.values():
    form = trigger_form(model)
    with DAG(
        dag_id=f"train_on_demand__{model.name}",
        schedule=None,
        params=form,
        **dag_settings(model, use="on-demand"),
    ):
        add_tasks(
            model,
            training=model.training_on_demand(),
            ref="{{ params.data_version }}",
            validate_only="{{ params.dry_run }}",
            parameters=tuple(form),
        )
