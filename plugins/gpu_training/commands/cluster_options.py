"""The options of every command that looks at a cluster itself: which one, and whose trainings."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from gpu_training.commands.exits import RefusedError

if TYPE_CHECKING:
    from gpu_training.cluster.connection import ClusterAddress

DEFAULT_NAMESPACE = "gpu-training"

# https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/#the-kubeconfig-environment-variable
_KUBECONFIG_VARIABLE = "KUBECONFIG"
_KUBECONFIG_FILE = "~/.kube/config"
# Set in every container that the kubelet starts.
_IN_CLUSTER_VARIABLE = "KUBERNETES_SERVICE_HOST"


def add_cluster_options(parser: argparse.ArgumentParser) -> None:
    """Declare those of :func:`add_connection_options`, `--namespace` and `--deployment`."""
    parser.add_argument(
        "--namespace", default=DEFAULT_NAMESPACE, help=f"of the trainings; default: {DEFAULT_NAMESPACE}"
    )
    add_connection_options(parser)
    parser.add_argument(
        "--deployment", metavar="ID", help="only trainings of this Airflow, as [gpu_training] deployment_id names it"
    )


def add_connection_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options that :func:`address_of` reads."""
    parser.add_argument(
        "--conn-id", metavar="ID", help="reach the cluster by this connection of the Airflow that is configured here"
    )
    parser.add_argument(
        "--kubeconfig",
        metavar="FILE",
        help=f"default: ${_KUBECONFIG_VARIABLE}, else {_KUBECONFIG_FILE}, else the pod's own service account",
    )
    parser.add_argument("--context", help="of the kubeconfig; default: its current one")


def address_of(options: argparse.Namespace) -> ClusterAddress:
    """Give the cluster that the options mean: an Airflow connection, else a kubeconfig, else the one around this pod.

    :raises RefusedError: they contradict each other, or lead to no cluster.
    """
    from gpu_training.cluster.connection import ClusterAddress

    if options.conn_id is not None and options.kubeconfig is not None:
        raise RefusedError("conn-id and kubeconfig exclude each other: give the one that leads to the cluster")
    if options.conn_id is not None:
        return ClusterAddress(conn_id=options.conn_id, cluster_context=options.context)
    if (file := _kubeconfig(options.kubeconfig)) is not None:
        return ClusterAddress(conn_id=None, config_file=file, cluster_context=options.context)
    if not os.environ.get(_IN_CLUSTER_VARIABLE):
        raise RefusedError(
            f"no way to a cluster: give --conn-id or --kubeconfig, or set {_KUBECONFIG_VARIABLE} "
            f"(there is no {_KUBECONFIG_FILE}, and this is no pod of a cluster)"
        )
    if options.context is not None:
        raise RefusedError("context: there is no kubeconfig that it could be of; give --kubeconfig")
    return ClusterAddress(conn_id=None, in_cluster=True)


def _kubeconfig(given: str | None) -> str | None:
    named = given or os.environ.get(_KUBECONFIG_VARIABLE)
    if not named:
        default = Path(_KUBECONFIG_FILE).expanduser()
        return str(default) if default.is_file() else None
    # The variable may name several files, which are merged; those that do not exist are passed over.
    if not any(Path(file).expanduser().is_file() for file in named.split(os.pathsep) if file):
        source = "kubeconfig" if given else _KUBECONFIG_VARIABLE
        raise RefusedError(f"{source}={named}: there is no such file")
    return named
