"""The operator: spec, data version and task instance -> one Job, waited for, with a small result document.

How a training ended is decided in :mod:`gpu_training.operators.outcomes`; what happens on the way, in the trigger,
which runs in the triggerer or, when the operator does not defer, right here.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.cncf.kubernetes.operators.job import KubernetesJobOperator
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowSkipException,
    AirflowTaskTimeout,
    TaskDeferralError,
    TaskDeferralTimeout,
)

from gpu_training.core.errors import GpuTrainingError
from gpu_training.core.events import from_payload
from gpu_training.core.fields import Fields
from gpu_training.core.naming import TRAINING_CONTAINER, is_pinned
from gpu_training.core.spec import parse_training_spec
from gpu_training.core.verdict import LEFT, Category
from gpu_training.links import XCOM_JOB, MlflowRunLink, TrainingJobLink
from gpu_training.operators.delivery import deliver, is_trained_by_others
from gpu_training.operators.deployment import deployment_id, task_try
from gpu_training.operators.handover import description_of, reused_document, trigger_for
from gpu_training.operators.kill_switch import Ending, KillSwitch
from gpu_training.operators.outcomes import conclude, final_where_retrying_is_useless
from gpu_training.operators.plan import Plan, make_plan
from gpu_training.operators.stock_parameters import (
    job_from_document,
    job_shape,
    job_to_document,
    refuse_contradictions,
    refuse_idle_pods,
)
from gpu_training.operators.submission import ReusedModel, Submission
from gpu_training.task_state import close_run

if TYPE_CHECKING:
    from airflow.sdk import Context
    from kubernetes.client import V1Job

    from gpu_training.cluster.connection import ClusterAddress
    from gpu_training.registry.model_registry import ModelRegistry


class GpuTrainingOperator(KubernetesJobOperator):
    """Trains a model in one Kubernetes Job, and returns a small result document.

    Tasks of any run that ask for the same work wait on one Job; the last one out deletes it. A retry adopts a live Job,
    so that a dead worker costs no GPU time, and makes the lineage's next one within what the budget has left. What is
    trained already is not trained again unless somebody asks for that.

    :param training: the training spec (:func:`gpu_training.core.spec.parse_training_spec`) as a plain mapping; any leaf
        may be a template.
    :param data_version: document of the resolved data version, or what renders to it.
    :param registered_model: registered model that the training is for.
    :param experiment: MLflow experiment; the registered model's or the model's name by default.
    :param kubernetes_conn_id: connection to the cluster.
    :param mlflow_conn_id: connection to MLflow, whose run is found or created before the Job.
    :param validate_only: true, or what renders to it: show the Job and have the server check it, then skip.
    :param result_required: whether a Job that is Complete needs a valid result document to count as success.
    :param deferrable: wait in the triggerer instead of on the worker.
    :param parallelism: pods at once; by default full_job_spec's, else 1.
    :param full_job_spec: V1Job or mapping with what the spec has no field for.
    :param kwargs: any other parameter of KubernetesJobOperator that does not contradict the spec.
    :raises ConfigurationError: at construction, for whatever can be told before templates are rendered.
    """

    BASE_CONTAINER_NAME = TRAINING_CONTAINER

    template_fields: Sequence[str] = tuple(
        sorted(
            {
                *KubernetesJobOperator.template_fields,
                "training",
                "data_version",
                "registered_model",
                "experiment",
                "mlflow_conn_id",
                "validate_only",
                "full_job_spec",
            }
        )
    )
    template_fields_renderers = {  # noqa: RUF012 - the base class's own form
        **KubernetesJobOperator.template_fields_renderers,
        "training": "json",
        "data_version": "json",
        "full_job_spec": "json",
    }
    operator_extra_links = (MlflowRunLink(), TrainingJobLink())

    def __init__(
        self,
        *,
        training: Mapping[str, Any],
        data_version: Any,
        registered_model: str | None = None,
        experiment: str | None = None,
        kubernetes_conn_id: str = "kubernetes_gpu",
        mlflow_conn_id: str = "mlflow_tracking",
        validate_only: bool | str = False,
        result_required: bool = True,
        deferrable: bool = True,
        parallelism: int | None = None,
        full_job_spec: V1Job | Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        refuse_contradictions(kwargs)
        refuse_idle_pods(parallelism, kwargs.get("completions"))
        super().__init__(
            kubernetes_conn_id=kubernetes_conn_id,
            deferrable=deferrable,
            parallelism=1 if parallelism is None else parallelism,
            wait_until_job_complete=True,
            random_name_suffix=False,
            **kwargs,
        )
        self.training = training
        self.data_version = data_version
        self.registered_model = registered_model
        self.experiment = experiment
        self.mlflow_conn_id = mlflow_conn_id
        self.validate_only = validate_only
        self.result_required = result_required
        self.full_job_spec = job_to_document(full_job_spec)
        # For the stock operator this parameter adds a sidecar; here it is again what it is for every other operator.
        self.do_xcom_push = True
        self._asked_parallelism = parallelism
        self._kill: KillSwitch | None = None
        if isinstance(training, Mapping):
            parse_training_spec(training, templates=True)

    def execute(self, context: Context) -> dict[str, Any]:
        """Train, and give the result document. Raises TaskDeferred when deferrable."""
        with final_where_retrying_is_useless():
            plan = self._plan(context)
            submission = self._submission(plan, context)
            if self._is_validation():
                submission.check()
                raise AirflowSkipException("dry run: the Job was shown and checked, none was created")
            # From here on a kill finds the Job, even one whose creation was not answered yet.
            kill = self._kill = self._kill_switch(plan)
        if not is_pinned(plan.spec.image):
            self.log.warning(
                "Image %s has no digest: what is trained with it is never reused, nor waited on by another run: a tag "
                "may mean another image tomorrow",
                plan.spec.image,
            )
        with kill.no_job_left_behind(last=_is_last(context)), final_where_retrying_is_useless():
            held = submission.hold(plan.request(max_tries=context["ti"].max_tries, by_person=_is_by_person(context)))
            if isinstance(held, ReusedModel):
                return self._told(reused_document(plan, held, self.log), context)
            job = held.reference
            if kill.ending is Ending.STOP:
                kill.leave()
                raise AirflowException(f"Job {job.name} was left: the task was ended while the Job was made")
            self.log.info("%s Job %s/%s", "Waiting on" if held.adopted else "Created", job.namespace, job.name)
            context["ti"].xcom_push(key=XCOM_JOB, value=description_of(plan, held, submission))
            trigger = trigger_for(
                plan, held, address=self._address(), mlflow_conn_id=self.mlflow_conn_id, get_logs=self.get_logs
            )
            if self.deferrable:
                self.defer(trigger=trigger, method_name="execute_complete", timeout=self._time_left(context))
        return self.execute_complete(context, kill.interruptible(trigger.wait()))

    def execute_complete(self, context: Context, event: dict[str, Any], **_: Any) -> dict[str, Any]:
        """Give the result document of the training that an event tells of, or raise what its failure means."""
        with final_where_retrying_is_useless():
            told = from_payload(event)
            category = told.outcome.verdict.category if told.outcome.verdict is not None else None
        if category is Category.REPLACED:
            self.log.info("Job %s was replaced by one of higher priority: waiting on that", told.job.name)
            return self.execute(context)
        with final_where_retrying_is_useless():
            try:
                document = conclude(told)
            except GpuTrainingError:
                if category not in (*LEFT, Category.UNREACHABLE) and not is_trained_by_others(self._address(), told):
                    close_run(self.mlflow_conn_id, told.work.mlflow_run_id, self.log, killed=False)
                raise
        deliver(self._address(), told, task_try(context), self.log)
        return self._told(document, context)

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context) -> Any:
        """Go on after the trigger. When it timed out, or failed in the last try, this task leaves the Job first: it
        waits no more, and Airflow calls no on_kill then."""
        try:
            return super().resume_execution(next_method, next_kwargs, context)
        except (TaskDeferralTimeout, TaskDeferralError) as error:
            if isinstance(error, TaskDeferralTimeout) or _is_last(context):
                try:
                    self._kill_switch(self._plan(context)).leave()
                except Exception as fault:  # of whatever kind: the first failure is the one to tell
                    self.log.warning("The Job was not left; clean_up, or its deadline, ends it: %s", fault)
            raise

    def on_kill(self) -> None:
        """Wait for the Job no more when a person ended the task, or its time is over; change nothing when only this
        process ends."""
        if self._kill is not None:
            self._kill.pull(timed_out=isinstance(sys.exc_info()[1], AirflowTaskTimeout))

    def build_job_request_obj(self, context: Context | None = None) -> V1Job:
        """Give the stock operator's Job, in which what was set explicitly wins over the template: also 0 and False."""
        template = job_from_document(self.full_job_spec)
        given, push = self.full_job_spec, self.do_xcom_push
        # The stock XCom sidecar runs on when the training fails; results come from the termination message.
        self.full_job_spec, self.do_xcom_push = template, False
        try:
            job = super().build_job_request_obj(context)
        finally:
            self.full_job_spec, self.do_xcom_push = given, push
        if self._asked_parallelism is None and template is not None and template.spec is not None:
            job.spec.parallelism = 1 if template.spec.parallelism is None else template.spec.parallelism
        if self.suspend is not None:
            job.spec.suspend = self.suspend
        return job

    def _is_validation(self) -> bool:
        return Fields({"validate_only": self.validate_only or False}).flag("validate_only", default=False)

    def _address(self) -> ClusterAddress:
        from gpu_training.cluster.connection import ClusterAddress

        return ClusterAddress(
            conn_id=self.kubernetes_conn_id,
            in_cluster=self.in_cluster,
            cluster_context=self.cluster_context,
            config_file=self.config_file,
        )

    def _registry(self) -> ModelRegistry:
        from gpu_training.registry.model_registry import ModelRegistry

        return ModelRegistry.from_connection(self.mlflow_conn_id)

    def _submission(self, plan: Plan, context: Context) -> Submission:
        from gpu_training.registry.model_lookup import ModelLookup

        self.namespace = plan.spec.namespace
        pods, indexed = job_shape(self.full_job_spec, parallelism=self._asked_parallelism, mode=self.completion_mode)
        return Submission(
            plan=plan,
            address=self._address(),
            registry=self._registry(),
            lookup=ModelLookup.from_connection(self.mlflow_conn_id),
            experiment=self.experiment or self.registered_model or plan.spec.model,
            registered_model=self.registered_model,
            build_base=lambda: job_to_document(self.build_job_request_obj(context)) or {},
            log=self.log,
            pods=pods,
            indexed=indexed,
        )

    def _plan(self, context: Context) -> Plan:
        return make_plan(
            self.training,
            self.data_version,
            deployment=deployment_id(),
            owner=task_try(context),
            retries=self.retries or 0,
            result_required=self.result_required,
        )

    def _kill_switch(self, plan: Plan) -> KillSwitch:
        return KillSwitch(plan=plan, address=self._address(), mlflow_conn_id=self.mlflow_conn_id, log=self.log)

    def _told(self, document: dict[str, Any], context: Context) -> dict[str, Any]:
        return {**document, "registered_model": self.registered_model, "dag_run": context["dag_run"].run_id}

    def _time_left(self, context: Context) -> timedelta | None:
        """Give what is left of the task's execution_timeout, which Airflow itself does not keep while deferred."""
        if self.execution_timeout is None:
            return None
        started = context["ti"].start_date
        passed = datetime.now(UTC) - started if started else timedelta()
        return max(self.execution_timeout - passed, timedelta(seconds=1))


def _is_last(context: Context) -> bool:
    """Whether Airflow does not retry after this try."""
    return bool(context["ti"].try_number > context["ti"].max_tries)


def _is_by_person(context: Context) -> bool:
    """Whether a person triggered the run, or asked for the asset that it makes.

    A scheduled run, an asset event's, another DAG's and a backfill's renew no budget.
    """
    run_type = getattr(context["dag_run"], "run_type", "")
    return getattr(run_type, "value", run_type) in ("manual", "asset_materialization")
