"""What an API server has to know of Kueue: its kinds, its webhooks, its own API server.

All of them are on this machine, so that the webhooks have addresses instead of services, and the service of the API
server is of type ExternalName: no other may lead to a loopback address.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from sandbox.ports import HOST

NAMESPACE = "kueue-system"
VISIBILITY = "kueue-visibility-server"
VISIBILITY_GROUP = "visibility.kueue.x-k8s.io"
VISIBILITY_VERSIONS = ("v1beta1", "v1beta2")
CRDS = "config/components/crd"
WEBHOOKS = "config/components/webhook"
WATCHED_GROUPS = ("batch", "kueue.x-k8s.io")
"""Webhooks of other groups concern integrations that are off."""

Document = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where the controller serves.

    :param authority: certificate of who vouches for its own.
    """

    webhook_port: int
    visibility_port: int
    authority: Path

    def client(self, path: str) -> Document:
        """Give the client configuration of a webhook."""
        return {"url": f"https://{HOST}:{self.webhook_port}{path}", "caBundle": self.bundle}

    @property
    def bundle(self) -> str:
        """Give the authority's certificate as manifests have it."""
        return b64encode(self.authority.read_bytes()).decode()


def kinds(files: Path, address: Address) -> Iterator[Document]:
    """Give the CustomResourceDefinitions; those of two forms are converted by the controller, as upstream has it.

    :param files: where :data:`CRDS` is.
    """
    listed = [files / CRDS / patch["path"] for patch in _read(files / CRDS / "kustomization.yaml")["patches"]]
    converted = {_read(patch)["metadata"]["name"] for patch in listed if patch.name.startswith("webhook_in_")}
    for file in sorted((files / CRDS / "bases").glob("*.yaml")):
        document = _read(file)
        if document["metadata"]["name"] in converted:
            webhook = {"clientConfig": address.client("/convert"), "conversionReviewVersions": ["v1"]}
            document["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
        yield document


def webhooks(files: Path, address: Address) -> Iterator[Document]:
    """Give the webhook configurations for Kueue's own kinds and for Jobs."""
    for document in yaml.safe_load_all((files / WEBHOOKS / "manifests.yaml").read_text()):
        document["metadata"]["name"] = f"kueue-{document['metadata']['name']}"
        document["webhooks"] = [
            webhook | {"clientConfig": address.client(webhook["clientConfig"]["service"]["path"])}
            for webhook in document["webhooks"]
            if all(set(rule["apiGroups"]) <= set(WATCHED_GROUPS) for rule in webhook["rules"])
        ]
        yield document


def visibility(address: Address) -> Iterator[Document]:
    """Give the APIServices that lead to the controller's own API server, which tells who waits where in a queue."""
    metadata = {"name": VISIBILITY, "namespace": NAMESPACE}
    yield {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {"type": "ExternalName", "externalName": HOST},
    }
    for version in VISIBILITY_VERSIONS:
        yield {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": f"{version}.{VISIBILITY_GROUP}"},
            "spec": {
                "group": VISIBILITY_GROUP,
                "version": version,
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
                "caBundle": address.bundle,
                "service": {**metadata, "port": address.visibility_port},
            },
        }


def configuration(address: Address, *, certificates: Path, health_port: int, metrics_port: int) -> str:
    """Give the controller's configuration.

    :param certificates: the folder of `tls.crt` and `tls.key`.
    """
    document = {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "namespace": NAMESPACE,
        "health": {"healthProbeBindAddress": f"{HOST}:{health_port}"},
        "metrics": {"bindAddress": f"{HOST}:{metrics_port}", "enableClusterQueueResources": True},
        "webhook": {"host": HOST, "port": address.webhook_port, "certDir": str(certificates)},
        "visibilityServer": {"bindAddress": HOST, "bindPort": address.visibility_port},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "clientConnection": {"qps": 500, "burst": 1000},
        "integrations": {"frameworks": ["batch/job"]},
    }
    return json.dumps(document, indent=2)


def _read(file: Path) -> Document:
    # The parser in C, where PyYAML has it: the schema of Workload is over a megabyte.
    document: Document = yaml.load(file.read_text(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506
    return document
