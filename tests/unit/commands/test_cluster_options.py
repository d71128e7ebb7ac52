"""Which cluster the options mean: a connection, else a kubeconfig, else the one around this pod."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from gpu_training.cluster.connection import ClusterAddress
from gpu_training.commands.cluster_options import add_cluster_options, address_of
from gpu_training.commands.exits import RefusedError

pytestmark = pytest.mark.unit


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home, and an environment that names no cluster."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for variable in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(variable, raising=False)
    return tmp_path


def address(*arguments: str) -> ClusterAddress:
    parser = argparse.ArgumentParser()
    add_cluster_options(parser)
    return address_of(parser.parse_args(arguments))


def a_file(folder: Path, name: str) -> str:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("{}")
    return str(file)


def test_a_connection_counts_before_any_kubeconfig(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", a_file(home, "named"))
    assert address("--conn-id", "c", "--context", "x") == ClusterAddress(conn_id="c", cluster_context="x")


def test_the_kubeconfig_is_the_one_that_is_given_else_the_variables_else_the_homes(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    at_home, named, given = (a_file(home, name) for name in (".kube/config", "named", "given"))
    assert address().config_file == at_home
    monkeypatch.setenv("KUBECONFIG", f"{named}:{home}/missing")
    assert address().config_file == f"{named}:{home}/missing"
    found = address("--kubeconfig", given, "--context", "x")
    assert found == ClusterAddress(conn_id=None, config_file=given, cluster_context="x")


def test_without_a_kubeconfig_it_is_the_cluster_around_the_pod(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    assert address() == ClusterAddress(conn_id=None, in_cluster=True)
    with pytest.raises(RefusedError, match="no kubeconfig that it could be of"):
        address("--context", "x")


def test_without_any_way_to_a_cluster_the_ways_are_named(home: Path) -> None:
    with pytest.raises(RefusedError, match="give --conn-id or --kubeconfig, or set KUBECONFIG"):
        address()
