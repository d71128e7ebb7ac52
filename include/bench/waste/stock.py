"""The tasks of the columns `stock` and `tuned`: KubernetesJobOperator, no subclass of it."""

from __future__ import annotations

from typing import Any

from airflow.providers.cncf.kubernetes.operators.job import KubernetesJobOperator
from airflow.sdk import BaseOperator, ExceptionRetryPolicy, RetryAction, RetryRule
from airflow.sdk.exceptions import AirflowException
from kubernetes.client import models as k8s

from bench.waste import settings
from bench.waste.program import BAD_CONFIGURATION, CUDA_OUT_OF_MEMORY
from bench.waste.rows import Scenario

CONTAINER = "base"
FINAL_EXIT_CODES = [BAD_CONFIGURATION, 81, CUDA_OUT_OF_MEMORY, 83]
"""What no repetition helps against: configuration, data, CUDA memory, a diverged loss."""


def by_default(scenario: Scenario) -> BaseOperator:
    """Give the task with the operator's defaults; it waits for its Job, deferred, as whoever pays for GPUs must."""
    return KubernetesJobOperator(**_pod(scenario), **settings.task_arguments())


def tuned(scenario: Scenario) -> BaseOperator:
    """Give the task with all that a careful user can do by arguments.

    A Job that failed has used up its own backoff, or failed for good: the retry policy has Airflow not try again then,
    and only then, since whatever else goes wrong is another exception.
    """
    failed = RetryRule(exception=AirflowException, action=RetryAction.FAIL, match_subclasses=False)
    return KubernetesJobOperator(
        **_pod(scenario),
        **settings.task_arguments(),
        job_poll_interval=1,
        backoff_limit=settings.BACKOFF_LIMIT,
        active_deadline_seconds=settings.DEADLINE_S,
        ttl_seconds_after_finished=3600,
        discover_pods_retry_number=100,
        on_kill_propagation_policy="Foreground",
        full_job_spec=k8s.V1Job(
            spec=k8s.V1JobSpec(
                pod_replacement_policy="Failed",
                pod_failure_policy=_failure_policy(),
                template=k8s.V1PodTemplateSpec(spec=k8s.V1PodSpec(containers=[k8s.V1Container(name=CONTAINER)])),
            )
        ),
        retry_policy=ExceptionRetryPolicy(rules=[failed]),
    )


def _failure_policy() -> k8s.V1PodFailurePolicy:
    disrupted = k8s.V1PodFailurePolicyOnPodConditionsPattern(type="DisruptionTarget", status="True")
    final = k8s.V1PodFailurePolicyOnExitCodesRequirement(operator="In", values=FINAL_EXIT_CODES)
    return k8s.V1PodFailurePolicy(
        rules=[
            k8s.V1PodFailurePolicyRule(action="Ignore", on_pod_conditions=[disrupted]),
            k8s.V1PodFailurePolicyRule(action="FailJob", on_exit_codes=final),
        ]
    )


def _pod(scenario: Scenario) -> dict[str, Any]:
    values = settings.environment(scenario) | {
        "WASTE_CHECKPOINTS": f"{settings.checkpoints(scenario)}/{{{{ run_id }}}}"
    }
    restricted = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    return {
        "name": f"waste-{scenario.row.name}",
        "namespace": settings.NAMESPACE,
        "image": settings.IMAGE,
        "cmds": list(settings.COMMAND),
        "env_vars": [*(k8s.V1EnvVar(name=name, value=value) for name, value in values.items()), *_fields()],
        "container_resources": k8s.V1ResourceRequirements(requests=settings.REQUESTS, limits=settings.LIMITS),
        "node_selector": settings.node_selector(scenario),
        "tolerations": [k8s.V1Toleration(key="nvidia.com/gpu", operator="Exists", effect="NoSchedule")],
        "labels": settings.labels(scenario),
        "service_account_name": "training",
        # What the namespace's Pod Security asks for.
        "security_context": {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}},
        "container_security_context": restricted,
        "kubernetes_conn_id": scenario.connection,
        "wait_until_job_complete": True,
        "deferrable": True,
    }


def _fields() -> list[k8s.V1EnvVar]:
    return [
        k8s.V1EnvVar(
            name="WASTE_POD",
            value_from=k8s.V1EnvVarSource(field_ref=k8s.V1ObjectFieldSelector(field_path="metadata.name")),
        ),
        k8s.V1EnvVar(
            name="WASTE_MEMORY_BYTES",
            value_from=k8s.V1EnvVarSource(resource_field_ref=k8s.V1ResourceFieldSelector(resource="limits.memory")),
        ),
    ]
