"""The project's own manifests, `include/manifests`, applied to a cluster exactly as they lie there."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from pathlib import Path

import yaml

from sandbox.api import Api, ApiError, Document

FOLDER = Path(__file__).resolve().parents[1] / "manifests"
QUEUES = FOLDER / "queues"
"""For a cluster with Kueue."""
KUSTOMIZATION = "kustomization.yaml"
NAMESPACE = "gpu-training"
OPERATOR_ACCOUNT = "airflow"
TOKEN_SECONDS = 365 * 24 * 3600


def documents(namespace: str = NAMESPACE, *, folder: Path = FOLDER) -> Iterator[Document]:
    """Give a folder's manifests in the order in which they may be applied.

    :param namespace: put what is in the project's namespace into this one instead. Subjects of bindings stay: the
        one Airflow then has the same rights in it.
    """
    listed = yaml.safe_load((folder / KUSTOMIZATION).read_text())["resources"]
    for name in listed:
        for document in yaml.safe_load_all((folder / name).read_text()):
            metadata = document["metadata"]
            if document["kind"] == "Namespace":
                metadata["name"] = namespace
            elif metadata.get("namespace") == NAMESPACE:
                metadata["namespace"] = namespace
            yield document


def apply(api: Api, namespace: str = NAMESPACE) -> None:
    """Apply the manifests; again is no harm.

    :raises sandbox.api.ApiError: the server refuses one of them.
    """
    for document in documents(namespace):
        api.apply(document)


def operator_token(api: Api) -> str:
    """Give a token of the operator's service account, as TokenRequest mints it, good for a year."""
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{OPERATOR_ACCOUNT}/token"
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": TOKEN_SECONDS},
    }
    token: str = api.request("POST", path, request)["status"]["token"]
    return token


def is_settled(api: Api, namespace: str = NAMESPACE) -> bool:
    """Tell whether the controllers are at work: each namespace has its default service account, a pod's least need."""
    try:
        return all(api.exists(f"/api/v1/namespaces/{each}/serviceaccounts/default") for each in ("default", namespace))
    except ApiError as error:
        if error.status in (0, http.client.TOO_MANY_REQUESTS):
            return False
        raise
