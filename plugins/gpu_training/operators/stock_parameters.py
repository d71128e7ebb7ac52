"""The stock operator's parameters: which contradict a training spec, and how a Job in YAML's form becomes a model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, Final

from kubernetes.client import ApiClient, Configuration, V1Job, V1PodTemplateSpec

from gpu_training.core.errors import ConfigurationError

_SAID_IN_THE_SPEC: Final[Mapping[str, str]] = {
    "image": "image",
    "cmds": "entrypoint",
    "arguments": "arguments",
    "env_vars": "environment",
    "env_from": "environment_from_secrets",
    "configmaps": "environment_from_config_maps",
    "secrets": "secret_environment",
    "container_resources": "resources",
    "namespace": "namespace",
    "node_selector": "node_selector",
    "service_account_name": "service_account",
    "priority_class_name": "priority_class",
    "runtime_class_name": "runtime_class",
    "image_pull_secrets": "image_pull_secrets",
    "active_deadline_seconds": "deadline_seconds",
    "backoff_limit": "backoff_limit",
    "ttl_seconds_after_finished": "ttl_seconds_after_finished",
}
"""Parameters that have a field of their own in the spec. Said twice, one of the two would silently lose."""

_SET_BY_US: Final[Mapping[str, str]] = {
    "name": "the Job's name is its identity",
    "random_name_suffix": "the Job's name is its identity",
    "base_container_name": "the training container's name is fixed, so that its end can be told from a sidecar's",
    "selector": "pods are found by the Job's UID",
    "manual_selector": "pods are found by the Job's UID",
    "wait_until_job_complete": "a training is always waited for",
    "on_kill_propagation_policy": "a Job is always deleted in the foreground, or its pod would run on",
}


def refuse_contradictions(parameters: Mapping[str, Any]) -> None:
    """Refuse parameters of the stock operator that the spec or the operator itself decides.

    :raises ConfigurationError: the first one found.
    """
    for name, value in parameters.items():
        if value is None:
            continue
        shown = value if isinstance(value, (str, int, float)) else f"<{type(value).__name__}>"
        if name in _SAID_IN_THE_SPEC:
            raise ConfigurationError(
                name, shown, f"is said in the spec: set training.{_SAID_IN_THE_SPEC[name]} instead"
            )
        if name in _SET_BY_US:
            raise ConfigurationError(name, shown, f"can not be set: {_SET_BY_US[name]}")


def refuse_idle_pods(parallelism: int | None, completions: int | None) -> None:
    """Refuse more pods at once than have to succeed: the surplus would hold GPUs and end without a result."""
    if parallelism is not None and completions is not None and parallelism > completions:
        raise ConfigurationError(
            "parallelism", parallelism, f"is above completions={completions}: at most completions is allowed"
        )


def job_to_document(job: V1Job | Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Give a Job as plain JSON data, in which templates render like in any other parameter."""
    if job is None:
        return None
    document = _client().sanitize_for_serialization(job)
    if not isinstance(document, dict):
        raise ConfigurationError("full_job_spec", job, "a V1Job or a mapping is expected")
    return document


def job_from_document(document: Mapping[str, Any] | None) -> V1Job | None:
    """Give the model that the stock operator merges. What the API requires and the spec will give may be left out.

    :raises ConfigurationError: a key that a Job does not have; the model would drop it without a word.
    """
    if document is None:
        return None
    client = _client()
    try:
        job = client.deserialize(SimpleNamespace(data=json.dumps(document)), "V1Job")
    except (ValueError, TypeError, AttributeError) as exc:
        raise ConfigurationError("full_job_spec", document, f"is not a Job: {exc}") from exc
    _refuse_lost(document, client.sanitize_for_serialization(job), "full_job_spec")
    if job.spec is not None and job.spec.template is None:
        job.spec.template = V1PodTemplateSpec(spec=None)
    return job


def job_shape(document: Mapping[str, Any] | None, *, parallelism: int | None, mode: str | None) -> tuple[int, bool]:
    """Give how many pods of a Job run at once, and whether it is an Indexed one.

    :param document: full_job_spec.
    :param parallelism: as set explicitly; None for the document's.
    :param mode: completion mode as set explicitly; None for the document's.
    """
    spec = (document or {}).get("spec") or {}
    pods = parallelism if parallelism is not None else spec.get("parallelism")
    return (pods if isinstance(pods, int) else 1), (mode or spec.get("completionMode")) == "Indexed"


def _client() -> ApiClient:
    configuration = Configuration()
    configuration.client_side_validation = False  # half a Job is no error before the spec was laid over it
    return ApiClient(configuration=configuration)


def _refuse_lost(given: Any, kept: Any, path: str) -> None:
    if isinstance(given, Mapping) and isinstance(kept, Mapping):
        for key, value in given.items():
            if value is None or value == {}:
                continue
            if key not in kept:
                raise ConfigurationError(f"{path}.{key}", value, "is not a field of a Job")
            _refuse_lost(value, kept[key], f"{path}.{key}")
    elif isinstance(given, (list, tuple)) and isinstance(kept, list):
        for n, (one, other) in enumerate(zip(given, kept, strict=False)):
            _refuse_lost(one, other, f"{path}[{n}]")
