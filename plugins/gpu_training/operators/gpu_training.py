"""The operator: spec, data version and task instance -> one Job, waited for, with a small result document.

How a training ended is decided in :mod:`gpu_training.operators.outcomes`; what happens on the way, in the trigger,
which runs in the triggerer or, when the operator does not defer, right here.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING, Any, Final

from airflow.providers.cncf.kubernetes.operators.job import KubernetesJobOperator
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowRescheduleException,
    AirflowSkipException,
    AirflowTaskTimeout,
    TaskDeferralError,
    TaskDeferralTimeout,
)

from gpu_training.core.errors import GpuTrainingError
from gpu_training.core.events import from_payload
from gpu_training.core.fields import Fields
from gpu_training.core.naming import TRAINING_CONTAINER
from gpu_training.core.spec import parse_training_spec
from gpu_training.links import XCOM_JOB, MlflowRunLink, TrainingJobLink
from gpu_training.operators.deployment import deployment_id, task_try
from gpu_training.operators.outcomes import conclude, final_where_retrying_is_useless
from gpu_training.operators.stock_parameters import (
    job_from_document,
    job_to_document,
    refuse_contradictions,
    refuse_idle_pods,
)
from gpu_training.operators.submission import Plan, Submission, make_plan, mlflow_run_of, run_to_end
from gpu_training.task_state import close_run, has_ended, task_state
from gpu_training.triggers.training import TrainingJobTrigger

if TYPE_CHECKING:
    from airflow.sdk import Context
    from kubernetes.client import V1Job

    from gpu_training.cluster.connection import ClusterAddress
    from gpu_training.cluster.jobs import HeldJob
    from gpu_training.registry.model_registry import ModelRegistry

_KILL_S: Final = 4.0
"""Airflow waits 5 seconds after SIGTERM, then kills the process."""
_KILL_TRIES: Final = 2


class _Ending(Enum):
    """Why a task that was killed ends."""

    STOP = "its Job is deleted"
    LEAVE = "its Job goes on"


class GpuTrainingOperator(KubernetesJobOperator):
    """Trains a model in one Kubernetes Job, and returns a small result document.

    A retry adopts the Job of the try before it while that is live, so that a dead worker costs no GPU time. The Job is
    deleted when a person ends the task, and left alone when only a process ends.

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
        self._held: Plan | None = None
        self._ending: _Ending | None = None
        self._interrupt: Callable[[], object] | None = None
        if isinstance(training, Mapping):
            parse_training_spec(training, templates=True)

    def execute(self, context: Context) -> dict[str, Any]:
        """Train, and give the result document. Raises TaskDeferred when deferrable."""
        with final_where_retrying_is_useless():
            plan = make_plan(self.training, self.data_version, deployment=deployment_id(), owner=task_try(context))
            submission = self._submission(plan, context)
            if self._is_validation():
                submission.check()
                raise AirflowSkipException("dry run: the Job was shown and checked, none was created")
            trigger = self._trigger(plan, self._hold(submission, context))
        if self.deferrable:
            self.defer(trigger=trigger, method_name="execute_complete", timeout=self._time_left(context))
        return self.execute_complete(context, self._wait_here(trigger))

    def execute_complete(self, context: Context, event: dict[str, Any], **_: Any) -> dict[str, Any]:
        """Give the result document of the training that an event tells of, or raise what its failure means."""
        with final_where_retrying_is_useless():
            told = from_payload(event)
            try:
                document = conclude(told)
            except GpuTrainingError:
                close_run(self.mlflow_conn_id, told.work.mlflow_run_id, self.log, killed=False)
                raise
        return {**document, "registered_model": self.registered_model, "dag_run": context["dag_run"].run_id}

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context) -> Any:
        """Go on after the trigger. When it timed out, or failed in the last try, the Job is deleted first: nothing
        would wait on it any more, and Airflow calls no on_kill then."""
        try:
            return super().resume_execution(next_method, next_kwargs, context)
        except (TaskDeferralTimeout, TaskDeferralError) as error:
            if isinstance(error, TaskDeferralTimeout) or context["ti"].try_number > context["ti"].max_tries:
                self._delete_own(
                    make_plan(self.training, self.data_version, deployment=deployment_id(), owner=task_try(context))
                )
            raise

    def on_kill(self) -> None:
        """Delete the Job when a person ended the task, or its time is over; leave it when only this process ends.

        Runs inside a signal handler, so the work is done in a thread: the interrupted code may be holding any lock.
        """
        if self._held is None:
            return
        timed_out = isinstance(sys.exc_info()[1], AirflowTaskTimeout)
        thread = Thread(target=self._stop_or_leave, args=(self._held, timed_out), name="on-kill")
        thread.start()
        thread.join(_KILL_S)

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
        self.namespace = plan.spec.namespace
        return Submission(
            plan=plan,
            address=self._address(),
            registry=self._registry(),
            experiment=self.experiment or self.registered_model or plan.spec.model,
            build_base=lambda: job_to_document(self.build_job_request_obj(context)) or {},
            log=self.log,
        )

    def _hold(self, submission: Submission, context: Context) -> HeldJob:
        """Give the Job to wait on: the live one of an earlier try, else a new one. From here on a kill deletes it."""
        plan = submission.plan
        self._held = plan
        held = submission.adopt(take_ended=_retries_by_itself(context, self.retries)) or submission.create()
        if self._ending is _Ending.STOP:
            self._delete_own(plan)
            raise AirflowException(f"Job {held.reference.name} was deleted: the task was ended while the Job was made")
        self.log.info(
            "%s Job %s/%s", "Adopted" if held.adopted else "Created", held.reference.namespace, held.reference.name
        )
        run_id = mlflow_run_of(held.document)
        context["ti"].xcom_push(
            key=XCOM_JOB,
            value={
                "job": held.reference.name,
                "namespace": held.reference.namespace,
                "job_uid": held.reference.uid,
                "fingerprint": plan.identity.fingerprint,
                "generation": plan.identity.generation,
                "mlflow_run_id": run_id,
                "mlflow_url": f"{submission.registry.tracking_uri}/#/runs/{run_id}",
            },
        )
        return held

    def _trigger(self, plan: Plan, held: HeldJob) -> TrainingJobTrigger:
        return TrainingJobTrigger(
            cluster=self._address().to_document(),
            job=asdict(held.reference),
            work=asdict(plan.work(mlflow_run_of(held.document))),
            owner=plan.identity.owner.to_text(),
            deployment=plan.identity.deployment,
            mlflow_conn_id=self.mlflow_conn_id,
            get_logs=self.get_logs,
            result_required=self.result_required,
        )

    def _wait_here(self, trigger: TrainingJobTrigger) -> dict[str, Any]:
        """Wait as the triggerer would. A worker that is going away gives the task back to the scheduler: the next
        worker adopts the Job within the same try."""

        async def wait() -> dict[str, Any]:
            waiting = asyncio.create_task(trigger.wait())
            self._interrupt = partial(asyncio.get_running_loop().call_soon_threadsafe, waiting.cancel)
            if self._ending is not None:
                waiting.cancel()
            return await waiting

        try:
            return run_to_end(wait())
        except asyncio.CancelledError:
            if self._ending is _Ending.LEAVE:
                raise AirflowRescheduleException(datetime.now(UTC)) from None  # type: ignore[no-untyped-call]
            raise AirflowException("the task was ended while it waited, and its Job was deleted") from None

    def _time_left(self, context: Context) -> timedelta | None:
        """Give what is left of the task's execution_timeout, which Airflow itself does not keep while deferred."""
        if self.execution_timeout is None:
            return None
        started = context["ti"].start_date
        passed = datetime.now(UTC) - started if started else timedelta()
        return max(self.execution_timeout - passed, timedelta(seconds=1))

    def _stop_or_leave(self, plan: Plan, timed_out: bool) -> None:
        try:
            state = "timed out" if timed_out else task_state(plan.identity.owner)
        except Exception as exc:  # whatever it is: without an answer the Job is left alone
            self.log.warning("Leaving the Job: the task's state could not be asked for: %s", exc)
            state = "unknown"
        if timed_out or has_ended(state):
            self._ending = _Ending.STOP
            self.log.warning("Deleting the Job: the task is %s", state)
            self._delete_own(plan)
        else:
            self._ending = _Ending.LEAVE
            self.log.warning("Leaving the Job: the task is %s, only this process ends", state)
        if self._interrupt is not None:
            self._interrupt()

    def _delete_own(self, plan: Plan) -> None:
        """Delete every live Job that this try waits on, and close their MLflow runs; faults are warnings."""
        from gpu_training.cluster.connection import Cluster
        from gpu_training.cluster.jobs import delete_owned

        async def delete() -> list[dict[str, Any]]:
            async with Cluster(self._address()) as cluster:
                return await delete_owned(
                    cluster, plan.spec.namespace, plan.identity.deployment, plan.identity.owner, tries=_KILL_TRIES
                )

        try:
            deleted = run_to_end(delete())
        except GpuTrainingError as error:
            self.log.warning("The Job was not deleted: %s", error)
            return
        for job in deleted:
            self.log.info("Deleted Job %s", job["metadata"]["name"])
            close_run(self.mlflow_conn_id, mlflow_run_of(job), self.log, killed=True)


def _retries_by_itself(context: Context, retries: int | None) -> bool:
    """Whether this is an automatic retry: a clear raises max_tries, so that what it finds ended is trained again."""
    ti = context["ti"]
    return bool(ti.try_number > 1 and ti.max_tries == retries)
