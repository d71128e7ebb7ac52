"""The cluster that every test of this tier shares, and a namespace for each."""

from __future__ import annotations

from sandbox.testing import namespace, sandbox, sandbox_folder

__all__ = ["namespace", "sandbox", "sandbox_folder"]
