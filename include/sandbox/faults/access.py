"""What a client may do and have, taken away: a namespace's quota, the operator's token."""

from __future__ import annotations

import json
from pathlib import Path

from sandbox import manifests
from sandbox.cluster import Sandbox
from sandbox.control_plane import write_secret_json
from sandbox.errors import SandboxError
from sandbox.faults.names import check_namespace
from sandbox.proxy import proxy_folder
from sandbox.status import GPU_RESOURCE
from sandbox.waiting import wait_for

QUOTA = "sandbox-fault"
QUOTA_DEADLINE_S = 30.0


def fill_quota(sandbox: Sandbox, namespace: str, *, gpus: int = 0) -> None:
    """Leave a namespace a quota of so many GPUs in all; returns once it is in force. Pods that run stay.

    :raises SandboxError: there is no such namespace, or `gpus` is no number of GPUs.
    """
    if gpus < 0:
        raise SandboxError(f"gpus is {gpus}: give a whole number from 0 up")
    check_namespace(sandbox, namespace)
    hard = {f"requests.{GPU_RESOURCE}": str(gpus)}
    metadata = {"name": QUOTA, "namespace": namespace}
    sandbox.api.apply({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard}})
    path = _quota_path(namespace)

    def is_in_force() -> bool:
        return bool(sandbox.api.request("GET", path).get("status", {}).get("hard") == hard)

    wait_for(is_in_force, QUOTA_DEADLINE_S, f"the quota of namespace {namespace}")


def free_quota(sandbox: Sandbox, namespace: str) -> None:
    """Take the quota of :func:`fill_quota` away.

    :raises SandboxError: there is none, or no such namespace.
    """
    check_namespace(sandbox, namespace)
    if not sandbox.api.exists(_quota_path(namespace)):
        raise SandboxError(f"namespace {namespace} has no quota of fill-quota to free")
    sandbox.api.request("DELETE", _quota_path(namespace))


def rotate_token(sandbox: Sandbox) -> None:
    """Give the operator another token, in its kubeconfig and in that of the sandbox's proxy; the old one ends.

    The API server takes the old one for ten seconds more, since it remembers what it has checked. The service account
    is made anew, which is what ends its tokens, so an old token is refused before the new one is written.

    :raises sandbox.api.ApiError: the API server refuses.
    """
    account = f"/api/v1/namespaces/{manifests.NAMESPACE}/serviceaccounts/{manifests.OPERATOR_ACCOUNT}"
    sandbox.api.request("DELETE", account)
    manifests.apply(sandbox.api)
    token = manifests.operator_token(sandbox.api)
    for path in (sandbox.operator_kubeconfig, proxy_folder(sandbox) / "kubeconfig"):
        if path.exists():
            _write_token(path, token)


def _quota_path(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/resourcequotas/{QUOTA}"


def _write_token(path: Path, token: str) -> None:
    """Replace the file in one step: whoever reads it meanwhile sees a whole kubeconfig."""
    document = json.loads(path.read_text())
    document["users"][0]["user"]["token"] = token
    write_secret_json(path.with_name(f"{path.name}.new"), document).replace(path)
