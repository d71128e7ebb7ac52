"""What whoever watches a Job has to know of its lineage's budget, as plain data in a trigger's arguments."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from gpu_training.core.budget import Budget
from gpu_training.core.clocks import Clocks


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a lineage may spend, and how long its phases may take.

    :param has_fallback: whether a spot fallback is declared.
    :param memory_cap: the most memory that a Job may have, as a Kubernetes quantity.
    :param clocks: of whoever waits.
    """

    budget: Budget
    has_fallback: bool
    memory_cap: str
    clocks: Clocks = field(default_factory=Clocks)

    def to_document(self) -> dict[str, Any]:
        """Give plain data, which :meth:`from_document` reads."""
        return asdict(self)

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Terms:
        """Give the terms in a document that :meth:`to_document` gave."""
        parts = {"budget": Budget(**document["budget"]), "clocks": Clocks.from_document(document.get("clocks", {}))}
        return cls(**{**document, **parts})
