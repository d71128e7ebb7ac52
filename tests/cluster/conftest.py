"""The cluster that every test of this tier shares, a namespace for each, and Airflow's connections to it."""

from __future__ import annotations

from tests.cluster.connections import connected, mlflow, proxy

from sandbox.testing import namespace, sandbox, sandbox_folder

__all__ = ["connected", "mlflow", "namespace", "proxy", "sandbox", "sandbox_folder"]
