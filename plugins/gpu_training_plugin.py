"""The project's one AirflowPlugin."""

from __future__ import annotations

from airflow.plugins_manager import AirflowPlugin

from gpu_training.links import MlflowRunLink, TrainingJobLink


class GpuTrainingPlugin(AirflowPlugin):
    """Registers what Airflow's web server has to know by class: the links of the operator."""

    name = "gpu_training"
    operator_extra_links = [MlflowRunLink(), TrainingJobLink()]  # noqa: RUF012 - the base class's own form
