"""The one error of the stack."""

from __future__ import annotations


class StackError(RuntimeError):
    """The stack or a part of it could not be started; the message says which part, why, and where its log is."""
