"""Lines as the kubelet gives them: a moment, and what was said then."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

BEGIN: Final = 1_800_000_000


def stamp(n: int) -> str:
    """Give the n-th moment of a log: one each millisecond."""
    second, thousandth = divmod(n, 1000)
    return f"{datetime.fromtimestamp(BEGIN + second, UTC):%Y-%m-%dT%H:%M:%S}.{thousandth:03d}000000Z"


def stamped(n: int, text: str) -> str:
    """Give a line said at the n-th moment."""
    return f"{stamp(n)} {text}"
