"""Pods that Pod Security `restricted` admits, as trainings have to be."""

from __future__ import annotations

from typing import Any

from tests.contract.pods import Document, Pods

USER, GROUP = 1234, 2345
SECURITY = {
    "runAsUser": USER,
    "runAsGroup": GROUP,
    "runAsNonRoot": True,
    "readOnlyRootFilesystem": True,
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}


class RestrictedPods(Pods):
    """Pods of one namespace on the node with real containers."""

    def container(self, name: str, script: str, **fields: Any) -> Document:
        """Return a container that runs a shell script."""
        return super().container(name, script, **{"securityContext": SECURITY, **fields})
