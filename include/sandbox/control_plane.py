"""etcd and the three programs of the control plane, unchanged, as processes that trust nobody without a certificate."""

from __future__ import annotations

import json
import os
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandbox.certificates import Authority, KeyPair, create_signing_key
from sandbox.lifecycle import NodeLifecycle
from sandbox.ports import HOST as HOST
from sandbox.ports import free_ports
from sandbox.supervisor import ProcessSpec

SERVICE_RANGE = "10.96.0.0/24"
API_NAMES = (
    HOST,
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "10.96.0.1",
)
FRONT_PROXY = "front-proxy-client"
ISSUER = "https://kubernetes.default.svc.cluster.local"
GRACE_S = 3.0

_CLIENT_FLAGS = (
    "--leader-elect=false",
    # Nothing asks for its health or metrics, and that is a port less to find.
    "--secure-port=0",
    "--profiling=false",
    # At the usual 20 requests a second the controllers would take seconds to get their service accounts.
    "--kube-api-qps=500",
    "--kube-api-burst=1000",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """Ports on the loopback address."""

    api: int
    etcd: int

    @classmethod
    def free(cls) -> Ports:
        """Give ports that are free now; another program may take one before it is used, so be ready to try again."""
        api, etcd = free_ports(2)
        return cls(api=api, etcd=etcd)


class Credentials:
    """All keys and certificates of one cluster, below one folder.

    Four authorities, so that what one of them vouches for opens nothing else: the cluster's, etcd's, one for the API
    server as a client of nodes, and one for it as the front of other API servers.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cluster = Authority(folder, "cluster-ca")
        self.etcd = Authority(folder, "etcd-ca")
        self.node_client = Authority(folder, "node-client-ca")
        self.front_proxy = Authority(folder, "front-proxy-ca")

    def pair(self, name: str) -> KeyPair:
        """Give the paths of a certificate and its key."""
        return KeyPair(certificate=self.folder / f"{name}.crt", key=self.folder / f"{name}.key")

    def create(self) -> None:
        """Make everything anew but the nodes' certificates."""
        for authority in (self.cluster, self.etcd, self.node_client, self.front_proxy):
            authority.create()
        self.etcd.issue(self.pair("etcd"), common_name="etcd", addresses=[HOST], server=True, client=True)
        self.etcd.issue(self.pair("etcd-client"), common_name="kube-apiserver", client=True)
        self.cluster.issue(self.pair("apiserver"), common_name="kube-apiserver", addresses=API_NAMES, server=True)
        self.node_client.issue(self.pair("node-client"), common_name="kube-apiserver-kubelet-client", client=True)
        self.front_proxy.issue(self.pair("front-proxy-client"), common_name=FRONT_PROXY, client=True)
        create_signing_key(self.pair("service-accounts"))
        self.user("admin", "sandbox-admin", "system:masters")
        self.user("controller-manager", "system:kube-controller-manager")
        self.user("scheduler", "system:kube-scheduler")

    def user(self, name: str, user: str, *groups: str) -> KeyPair:
        """Make a client certificate for a user of the API server."""
        return self.cluster.issue(self.pair(name), common_name=user, organizations=groups, client=True)


def kubeconfig(api_url: str, authority: Path, user: Mapping[str, str], *, namespace: str) -> dict[str, Any]:
    """Give a kubeconfig document that refers to no other file, so that it may be copied; :func:`certificate_user`."""
    cluster = {"server": api_url, "certificate-authority-data": _inline(authority)}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "sandbox", "cluster": cluster}],
        "users": [{"name": "sandbox", "user": dict(user)}],
        "contexts": [{"name": "sandbox", "context": {"cluster": "sandbox", "user": "sandbox", "namespace": namespace}}],
        "current-context": "sandbox",
    }


def certificate_user(identity: KeyPair) -> dict[str, str]:
    """Give a kubeconfig's user that has this certificate."""
    return {
        "client-certificate-data": _inline(identity.certificate),
        "client-key-data": _inline(identity.key),
    }


def write_secret_json(path: Path, document: Mapping[str, Any]) -> Path:
    """Write a document that only its owner may read; JSON, which is YAML too."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump(document, file, indent=2)
    return path


def processes(
    folder: Path, binaries: Mapping[str, Path], ports: Ports, credentials: Credentials, lifecycle: NodeLifecycle
) -> list[ProcessSpec]:
    """Give the control plane's processes; they wait for one another, so all may be started at once.

    Their kubeconfigs are written on the way.
    """
    api_url = f"https://{HOST}:{ports.api}"

    def spec(name: str, flags: Sequence[str]) -> ProcessSpec:
        return ProcessSpec(
            name=name,
            argv=(str(binaries[name]), *flags),
            environment={"PATH": os.defpath, "HOME": str(folder)},
            log=folder / "logs" / f"{name}.log",
            grace_s=GRACE_S,
        )

    def config(name: str) -> Path:
        user = certificate_user(credentials.pair(name))
        document = kubeconfig(api_url, credentials.cluster.certificate, user, namespace="default")
        return write_secret_json(credentials.folder / f"{name}.kubeconfig", document)

    return [
        spec("etcd", _etcd_flags(folder, ports, credentials)),
        spec("kube-apiserver", [*_api_server_flags(ports, credentials), *lifecycle.api_server_flags()]),
        spec(
            "kube-controller-manager",
            [
                *_controller_manager_flags(config("controller-manager"), credentials),
                *lifecycle.controller_manager_flags(),
            ],
        ),
        spec("kube-scheduler", [f"--kubeconfig={config('scheduler')}", *_CLIENT_FLAGS]),
    ]


def _etcd_flags(folder: Path, ports: Ports, credentials: Credentials) -> list[str]:
    own, authority = credentials.pair("etcd"), credentials.etcd.certificate
    return [
        f"--data-dir={folder / 'etcd'}",
        "--name=sandbox",
        f"--listen-client-urls=https://{HOST}:{ports.etcd}",
        f"--advertise-client-urls=https://{HOST}:{ports.etcd}",
        # The only member: nobody needs to know where it listens for peers.
        f"--listen-peer-urls=https://{HOST}:0",
        f"--initial-advertise-peer-urls=https://{HOST}:0",
        f"--initial-cluster=sandbox=https://{HOST}:0",
        *(f"--{role}cert-file={own.certificate}" for role in ("", "peer-")),
        *(f"--{role}key-file={own.key}" for role in ("", "peer-")),
        *(f"--{role}trusted-ca-file={authority}" for role in ("", "peer-")),
        *(f"--{role}client-cert-auth" for role in ("", "peer-")),
        "--log-level=warn",
        # A sandbox's data does not outlive it, so a power cut has nothing to spoil.
        "--unsafe-no-fsync",
    ]


def _api_server_flags(ports: Ports, credentials: Credentials) -> list[str]:
    serving, etcd = credentials.pair("apiserver"), credentials.pair("etcd-client")
    tokens, nodes = credentials.pair("service-accounts"), credentials.pair("node-client")
    front = credentials.pair("front-proxy-client")
    return [
        f"--bind-address={HOST}",
        f"--advertise-address={HOST}",
        f"--secure-port={ports.api}",
        # The service `kubernetes` may not point to a loopback address, so it is left without endpoints.
        "--endpoint-reconciler-type=none",
        f"--tls-cert-file={serving.certificate}",
        f"--tls-private-key-file={serving.key}",
        f"--client-ca-file={credentials.cluster.certificate}",
        "--anonymous-auth=false",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        f"--etcd-servers=https://{HOST}:{ports.etcd}",
        f"--etcd-cafile={credentials.etcd.certificate}",
        f"--etcd-certfile={etcd.certificate}",
        f"--etcd-keyfile={etcd.key}",
        f"--service-cluster-ip-range={SERVICE_RANGE}",
        f"--service-account-issuer={ISSUER}",
        f"--service-account-key-file={tokens.certificate}",
        f"--service-account-signing-key-file={tokens.key}",
        f"--kubelet-certificate-authority={credentials.cluster.certificate}",
        f"--kubelet-client-certificate={nodes.certificate}",
        f"--kubelet-client-key={nodes.key}",
        "--kubelet-preferred-address-types=InternalIP",
        # API servers behind this one, as that of Kueue, hear from it who asks.
        # https://kubernetes.io/docs/tasks/extend-kubernetes/configure-aggregation-layer/
        f"--requestheader-client-ca-file={credentials.front_proxy.certificate}",
        f"--requestheader-allowed-names={FRONT_PROXY}",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={front.certificate}",
        f"--proxy-client-key-file={front.key}",
        # As clusters have it: what a namespace admits is for Pod Security to say.
        "--allow-privileged",
        "--profiling=false",
    ]


def _controller_manager_flags(config: Path, credentials: Credentials) -> list[str]:
    return [
        f"--kubeconfig={config}",
        "--use-service-account-credentials",
        f"--root-ca-file={credentials.cluster.certificate}",
        f"--service-account-private-key-file={credentials.pair('service-accounts').key}",
        *_CLIENT_FLAGS,
    ]


def _inline(path: Path) -> str:
    return b64encode(path.read_bytes()).decode()
