"""What could not be looked at, in words, and when it is tried again."""

from __future__ import annotations

from typing import Final

REFUSED_S: Final = 300.0
"""Rights are seldom given while a training waits."""
_LONGEST: Final = 200


def why(error: Exception) -> str:
    """Give in words why a collection could not be read."""
    status = getattr(error, "status", None)
    if status == 403:
        return "the account may not list them"
    if status == 404:
        return "the API server does not have them"
    said = str(error)
    return said if len(said) <= _LONGEST else said[: _LONGEST - 1] + "…"
