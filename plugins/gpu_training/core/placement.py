"""Where the pods may run: node selector and tolerations, and where the last attempt goes instead."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpu_training.core.fields import Fields
from gpu_training.core.syntax import LABEL_KEY, LABEL_VALUE


@dataclass(frozen=True, slots=True, kw_only=True)
class Toleration:
    """A toleration beside the one for the GPU taint. An empty value tolerates any value of the key."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotFallback:
    """Where the last attempt goes: both replace the training's own."""

    node_selector: Mapping[str, str]
    tolerations: tuple[Toleration, ...]


def parse_node_selector(fields: Fields) -> dict[str, str]:
    """Give the field `node_selector`."""
    selector = fields.scalars("node_selector")
    for key, value in selector.items():
        path = f"node_selector.{key}"
        fields.check(path, key, LABEL_KEY, "a label key")
        if not fields.is_late(value):
            fields.check(path, value, LABEL_VALUE, "a label value (at most 63 of letters, digits, `-`, `_`, `.`)")
    return selector


def parse_tolerations(fields: Fields) -> tuple[Toleration, ...]:
    """Give the field `tolerations`."""
    tolerations = []
    for body in fields.sections("tolerations"):
        toleration = Toleration(
            key=body.text("key", pattern=LABEL_KEY, allowed="a taint key"),
            value=body.optional_text("value", pattern=LABEL_VALUE, allowed="a taint value") or "",
            effect=body.text(
                "effect",
                "NoSchedule",
                pattern="NoSchedule|NoExecute|PreferNoSchedule",
                allowed="NoSchedule, NoExecute or PreferNoSchedule",
            ),
        )
        body.finish()
        tolerations.append(toleration)
    return tuple(tolerations)


def parse_spot_fallback(fields: Fields, *, attempts: int | None) -> SpotFallback | None:
    """Give the section `spot_fallback`; None where it is empty.

    :param attempts: declared attempts of the budget, if any.
    :raises ConfigurationError: it names no nodes, or its attempt would be the first.
    """
    if not fields.names():
        return None
    fallback = SpotFallback(node_selector=parse_node_selector(fields), tolerations=parse_tolerations(fields))
    fields.finish()
    if not fallback.node_selector:
        raise fields.refuse("node_selector", "labels of the nodes that nobody reclaims are expected")
    if attempts == 1:
        raise fields.refuse(
            "node_selector",
            "contradicts budget.attempts 1, of which the last is the first: allow more attempts, or make this the "
            "training's own node_selector",
        )
    return fallback
