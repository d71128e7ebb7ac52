"""Pods and Jobs that Pod Security `restricted` admits, as tests hand them to the API server."""

from __future__ import annotations

from typing import Any, Final

from sandbox.api import Document

SECURITY: Final = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}
"""A container's security context."""


def gpu_pod(script: str, *, gpus: int = 1, **spec: Any) -> Document:
    """Give the spec of a pod that runs a shell script on a GPU node.

    :param spec: further fields of it, such as `nodeSelector`.
    """
    container = {
        "name": "train",
        "image": "sandbox-shell:1",
        "command": ["sh", "-c", script],
        "resources": {"limits": {"nvidia.com/gpu": str(gpus), "cpu": "100m", "memory": "64Mi"}},
        "securityContext": SECURITY | {"runAsUser": 1000},
    }
    return {
        "containers": [container],
        "restartPolicy": "Never",
        "serviceAccountName": "training",
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        **spec,
    }


def job_of(pod: Document) -> Document:
    """Give the spec of a Job that runs such a pod once."""
    return {"backoffLimit": 0, "template": {"spec": pod}}
