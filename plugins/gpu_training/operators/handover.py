"""From the Job that a task waits on, or the work that is trained, to what others get: trigger, links, result."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from gpu_training.core.events import JobReference
from gpu_training.core.ledger import attempts_in
from gpu_training.core.terms import Terms
from gpu_training.core.training_container import mlflow_run_of
from gpu_training.operators.outcomes import result_document
from gpu_training.operators.plan import Plan
from gpu_training.operators.submission import ReusedModel, Submission
from gpu_training.task_log import TaskLog
from gpu_training.triggers.training import TrainingJobTrigger

if TYPE_CHECKING:
    from gpu_training.cluster.connection import ClusterAddress
    from gpu_training.cluster.holding import HeldJob


def trigger_for(
    plan: Plan, held: HeldJob, *, address: ClusterAddress, mlflow_conn_id: str, get_logs: bool
) -> TrainingJobTrigger:
    """Give the trigger that waits for a Job."""
    numbered = plan.numbered(generation=held.record.generation, number=held.record.number)
    terms = Terms(
        budget=plan.budget,
        has_fallback=plan.spec.spot_fallback is not None,
        memory_cap=plan.spec.memory_growth.maximum,
        clocks=plan.spec.clocks,
        if_not_resumed=plan.spec.if_not_resumed,
    )
    return TrainingJobTrigger(
        cluster=address.to_document(),
        job=asdict(held.reference),
        number=held.record.number,
        work=asdict(numbered.work(mlflow_run_of(held.document))),
        waiter=plan.identity.owner.to_text(),
        deployment=plan.identity.deployment,
        terms=terms.to_document(),
        mlflow_conn_id=mlflow_conn_id,
        contact_limit_seconds=plan.spec.deadline_seconds,
        rules=plan.rules.to_document() if plan.spec.failure_rules else None,
        get_logs=get_logs,
        result_required=plan.result_required,
    )


def description_of(plan: Plan, held: HeldJob, submission: Submission) -> dict[str, Any]:
    """Give what the task tells as soon as there is a Job: small, plain, for the links and for people."""
    job, run_id = held.reference, mlflow_run_of(held.document)
    return {
        "job": job.name,
        "namespace": job.namespace,
        "job_uid": job.uid,
        "fingerprint": plan.identity.fingerprint,
        "generation": held.record.generation,
        "ledger": submission.lineage.config_map,
        "mlflow_run_id": run_id,
        "mlflow_url": f"{submission.registry.tracking_uri}/#/runs/{run_id}",
    }


def reused_document(plan: Plan, held: ReusedModel, log: TaskLog) -> dict[str, Any]:
    """Give the result document of work that is trained already."""
    trained, numbered = held.trained, plan.numbered(generation=held.trained.generation, number=1)
    version = held.found.version if held.found is not None else None
    log.info(
        "Nothing to train: %s has trained it (%s, generation %d, model version %s)",
        f"Job {trained.job}" if trained.job else "a Job that is forgotten by now",
        "this task waited on it" if held.own else "for another run",
        trained.generation,
        version or "not looked up" if held.own else version or "not registered yet",
    )
    return result_document(
        JobReference(namespace=plan.spec.namespace, name=trained.job, uid=trained.job_uid),
        numbered.work(trained.mlflow_run_id),
        trained.image,
        attempts_in(held.ledger, trained.generation) if held.own else (),
        trained.result,
        reused=not held.own,
        model_version=version,
    )
