"""Reading raw documents of a cluster, which may hold anything: what is absent or of another shape reads as nothing."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

Document = Mapping[str, Any]


def child(document: object, name: str) -> Document:
    value = document.get(name) if isinstance(document, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def entries(document: Document, name: str) -> tuple[Document, ...]:
    value = document.get(name)
    return tuple(entry for entry in value if isinstance(entry, Mapping)) if isinstance(value, (list, tuple)) else ()


def text(document: Document, name: str) -> str:
    value = document.get(name)
    return value if isinstance(value, str) else ""


def texts(document: Document, name: str) -> dict[str, str]:
    """Give those entries of a mapping that are texts under text keys."""
    return {k: v for k, v in child(document, name).items() if isinstance(k, str) and isinstance(v, str)}


def whole(document: Document, name: str) -> int | None:
    value = document.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63 else None


def parse_time(value: object) -> float | None:
    """Give seconds since 1970 for an RFC 3339 text, or a datetime with an offset; None for anything else and for 1970
    itself or before, which Kubernetes writes for a container that never started."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return None
    if not isinstance(value, datetime) or value.tzinfo is None:
        return None
    seconds = value.timestamp()
    return seconds if seconds > 0 else None
