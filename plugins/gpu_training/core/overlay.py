"""Laying the operator's values over a base document: what only one side names is kept, a contradiction is refused.

A base may come from anywhere, full_job_spec included. Nothing that somebody wrote there is changed in silence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpu_training.core.errors import ConfigurationError

Document = dict[str, Any]

# What a builder writes for a field that nobody set. 0 and False are values.
_UNSET: tuple[object, ...] = (None, "", [], {})


def child(parent: Document, name: str, where: str) -> Document:
    """Give the mapping in a field, made where it is absent."""
    if parent.get(name) is None:
        parent[name] = {}
    if not isinstance(parent[name], dict):
        raise ConfigurationError(f"{where}.{name}", parent[name], "a mapping is expected")
    value: Document = parent[name]
    return value


def children(parent: Document, name: str, where: str) -> list[Document]:
    """Give the list of mappings in a field, made where it is absent."""
    if parent.get(name) is None:
        parent[name] = []
    value = parent[name]
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise ConfigurationError(f"{where}.{name}", value, "a list of mappings is expected")
    return value


def settle(document: Document, name: str, value: object, where: str) -> None:
    """Set a field to the operator's value.

    :raises ConfigurationError: the base has another.
    """
    found = document.get(name)
    if not any(found == unset and type(found) is type(unset) for unset in _UNSET) and found != value:
        raise ConfigurationError(
            f"{where}.{name}", found, f"is set by the training spec or the operator to {value!r}: leave it out here"
        )
    document[name] = value


def settle_all(document: Document, name: str, values: Mapping[str, object], where: str) -> None:
    """Set entries of a nested mapping, as :func:`settle` does; the others stay."""
    if values:
        nested = child(document, name, where)
        for key, value in values.items():
            settle(nested, key, value, f"{where}.{name}")


def lay_over(document: Document, name: str, key: str, ours: Sequence[Document], where: str) -> None:
    """Put entries of ours in front of a list, each known by its key; a base's others stay behind them.

    :raises ConfigurationError: the base has another entry of the same key.
    """
    taken = [entry[key] for entry in ours]
    others = []
    for entry in children(document, name, where):
        if entry.get(key) not in taken:
            others.append(entry)
        elif entry not in ours:
            raise ConfigurationError(
                f"{where}.{name}[{entry[key]}]", entry, "is set by the training spec or the operator: leave it out here"
            )
    document[name] = [*ours, *others]


def add_missing(document: Document, name: str, ours: Sequence[Document], where: str) -> None:
    """Append those entries of ours to a list that it does not hold."""
    base = children(document, name, where)
    document[name] = [*base, *(entry for entry in ours if entry not in base)]


def fill(document: Document, name: str, value: object) -> None:
    """Set a field that the base leaves open."""
    if document.get(name) is None:
        document[name] = value
