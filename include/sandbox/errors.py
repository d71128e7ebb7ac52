"""The sandbox's errors: each message says what was asked, what is the matter and what to do."""

from __future__ import annotations


class SandboxError(RuntimeError):
    """The sandbox can not do what was asked."""


class BuildError(SandboxError):
    """The control plane's binaries could not be made."""
