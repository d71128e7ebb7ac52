"""The tasks of a model's DAGs: resolve a data version, train on it, register what came of it, clean up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from airflow.sdk import Param, get_current_context, task
from airflow.sdk.exceptions import AirflowFailException

from gpu_training.core.errors import ConfigurationError
from gpu_training.core.fields import nearest
from gpu_training.core.model import Model, parse_data_settings
from gpu_training.core.parameters import DATA_VERSION, DRY_RUN
from gpu_training.core.precedence import with_precedence
from gpu_training.links import MlflowRunLink, TrainingJobLink
from gpu_training.operators.clean_up import CleanUpOperator
from gpu_training.operators.imported_late import ImportedLateOperator
from gpu_training.operators.outcomes import final_where_retrying_is_useless

_TAG: Final = "gpu-training"
_VERSION_PATTERN: Final = (
    r"^([A-Za-z0-9][A-Za-z0-9._+-]{0,127}"
    r"|as of [0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?(Z|[+-][0-9]{2}:[0-9]{2}))$"
)
_RESOLVE_TIMEOUT: Final = timedelta(hours=2)
_REGISTER_TIMEOUT: Final = timedelta(minutes=15)
_CLEAN_UP_TIMEOUT: Final = timedelta(minutes=15)


def dag_settings(model: Model, *, use: str) -> dict[str, Any]:
    """Give the arguments that every DAG of a model has in common.

    :param use: what the DAG is for, as a tag.
    """
    return {
        "description": model.description.strip().splitlines()[0][:200],
        "doc_md": _documentation(model),
        "tags": [_TAG, use, model.name],
        "start_date": datetime(2026, 1, 1, tzinfo=UTC),
        "catchup": False,
        "default_args": {
            "owner": model.owner,
            "retries": model.retries,
            "retry_delay": timedelta(seconds=model.retry_delay_seconds),
        },
    }


def trigger_form(model: Model) -> dict[str, Param]:
    """Give what the trigger form asks for, with types and limits that the API server holds every trigger to."""
    form = {
        DATA_VERSION: Param(
            model.data.ref,
            type="string",
            pattern=_VERSION_PATTERN,
            title="Data version",
            description="`latest`, the id of a version, or `as of 2026-03-01T00:00:00+00:00`.",
        )
    }
    for parameter in model.parameters:
        form[parameter.name] = Param(
            parameter.default,
            description=parameter.description,
            schema=parameter.json_schema(),
        )
    form[DRY_RUN] = Param(
        False,
        type="boolean",
        title="Dry run",
        description="Show the Job in the task's log and have the cluster check it; nothing is trained.",
    )
    return form


def add_tasks(
    model: Model,
    *,
    training: Mapping[str, object],
    ref: str,
    validate_only: bool | str = False,
    parameters: Sequence[str] = (),
    pool: str | None = None,
) -> None:
    """Add resolve, train, register and clean_up to the DAG that is being defined.

    The run's state is that of register and of clean_up, which both come after train: a clean-up that succeeds does not
    make up for a training that failed, and one that fails is not passed over, since what it left may hold GPUs.

    :param training: the training document, which may hold templates. Where it does not speak of `priority_class`, the
        run's type decides on that.
    :param ref: the data version asked for, or a template of it.
    :param validate_only: as GpuTrainingOperator has it.
    :param parameters: names that a run's conf may hold; any other is refused.
    :param pool: Airflow's pool for train, which has to exist; None for its default one. The other tasks take a minute
        and no GPU: they are in the default one always.
    """
    version = resolve.override(execution_timeout=_RESOLVE_TIMEOUT)(
        data=model.data.to_document(), ref=ref, parameters=list(parameters)
    )
    train = ImportedLateOperator(
        task_id="train",
        runs="gpu_training.operators.gpu_training:GpuTrainingOperator",
        links=(MlflowRunLink(), TrainingJobLink()),
        arguments={
            "training": with_precedence(training),
            "data_version": version,
            "registered_model": model.registry.registered_model,
            "experiment": model.registry.experiment,
            "kubernetes_conn_id": model.kubernetes_conn_id,
            "mlflow_conn_id": model.registry.conn_id,
            "validate_only": validate_only,
        },
        pool=pool,
    )
    registered = register.override(execution_timeout=_REGISTER_TIMEOUT)(
        trained=train.output,  # type: ignore[arg-type]  # becomes the mapping on the worker
        alias=model.registry.alias,
        conn_id=model.registry.conn_id,
    )
    clean_up = CleanUpOperator(
        task_id="clean_up",
        kubernetes_conn_id=model.kubernetes_conn_id,
        mlflow_conn_id=model.registry.conn_id,
        namespace=str(training["namespace"]),
        training_task_id="train",
        result_task_id="register",
        execution_timeout=_CLEAN_UP_TIMEOUT,
    ).as_teardown(on_failure_fail_dagrun=True)
    train >> [registered, clean_up]


@task
def resolve(data: Mapping[str, Any], ref: str, parameters: Sequence[str]) -> dict[str, str]:
    """Give the document of the data version that a reference means at the run's `run_after`, once it is verified."""
    from gpu_training.sources.resolution import source_for

    run = get_current_context()["dag_run"]
    with final_where_retrying_is_useless():
        _refuse_unknown_parameters(run.conf or {}, parameters)
        settings = parse_data_settings(data)
        version = source_for(settings).resolve(ref, run_after=run.run_after.timestamp())
    return version.to_document()


@task
def register(trained: Mapping[str, Any] | None, alias: str, conn_id: str) -> dict[str, object]:
    """Give the model version that the training became, with the alias on it."""
    from gpu_training.core.registration import TrainedModel
    from gpu_training.registry.model_registry import ModelRegistry

    fields: dict[str, Any] = {name: (trained or {}).get(name) for name in TrainedModel.__dataclass_fields__}
    if missing := [name for name, value in fields.items() if value is None or value == ""]:
        raise AirflowFailException(
            f"the training told no {', '.join(missing)}: it is trained, but there is nothing to register. "
            "Its log says why the model did not reach MLflow; clear train and what follows to train again"
        )
    with final_where_retrying_is_useless():
        version = ModelRegistry.from_connection(conn_id).register(TrainedModel(**fields), alias=alias)
    return version.to_document()


def _refuse_unknown_parameters(conf: Mapping[str, Any], known: Sequence[str]) -> None:
    """Refuse a misspelled parameter. Airflow takes it without a word, and the run would train with the usual value."""
    for name, value in conf.items():
        if name not in known:
            listed = f"known are: {', '.join(known)}" if known else "this DAG takes none, train_on_demand does"
            raise ConfigurationError(f"conf.{name}", value, f"unknown parameter{nearest(name, known)}; {listed}")


def _documentation(model: Model) -> str:
    rows = {
        "owner": model.owner,
        "schedule": f"`{model.schedule.cron}` in {model.schedule.timezone}",
        "data": f"`{model.data.uri}` ({model.data.ref})",
        "registered model": f"`{model.registry.registered_model}`, alias `{model.registry.alias}`",
    }
    table = "\n".join(f"| {name} | {value} |" for name, value in rows.items())
    return f"# {model.name}\n\n{model.description.strip()}\n\n| | |\n|---|---|\n{table}\n"
