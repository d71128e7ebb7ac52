"""What whoever watches a Job has to know of its lineage's budget, as plain data in a trigger's arguments."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from gpu_training.core.budget import Budget
from gpu_training.core.choices import IfNotResumed
from gpu_training.core.clocks import Clocks


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a lineage may spend, and how long its phases may take.

    :param has_fallback: whether a spot fallback is declared.
    :param memory_cap: the most memory that a Job may have, as a Kubernetes quantity.
    :param clocks: of whoever waits.
    :param if_not_resumed: what follows when an attempt begins anew though a checkpoint was there.
    """

    budget: Budget
    has_fallback: bool
    memory_cap: str
    clocks: Clocks = field(default_factory=Clocks)
    if_not_resumed: IfNotResumed = IfNotResumed.WARN

    def to_document(self) -> dict[str, Any]:
        """Give plain data, which :meth:`from_document` reads."""
        return {**asdict(self), "if_not_resumed": self.if_not_resumed.value}

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Terms:
        """Give the terms in a document that :meth:`to_document` gave."""
        parts = {
            "budget": Budget(**document["budget"]),
            "clocks": Clocks.from_document(document.get("clocks", {})),
            # A trigger of an earlier release names none.
            "if_not_resumed": IfNotResumed(document.get("if_not_resumed", IfNotResumed.WARN)),
        }
        return cls(**{**document, **parts})
