"""Whether a node's labels, name and taints let a pod in, by the scheduler's rules.

https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/
https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from gpu_training.core.pod_demand import Requirement, Term, Tolerated
from gpu_training.core.surroundings import Taint

_KEEPS_OUT: Final = ("NoSchedule", "NoExecute")
_NAME_FIELD: Final = "metadata.name"
_WHOLE: Final = re.compile(r"-?[0-9]{1,18}")
_SHOWN: Final = 4


def untolerated(taints: Iterable[Taint], tolerations: Iterable[Tolerated]) -> tuple[Taint, ...]:
    """Give the taints that keep a pod out: it tolerates them not."""
    given = tuple(tolerations)
    return tuple(
        taint for taint in taints if taint.effect in _KEEPS_OUT and not any(_tolerates(each, taint) for each in given)
    )


def _tolerates(toleration: Tolerated, taint: Taint) -> bool:
    if toleration.effect not in ("", taint.effect):
        return False
    if toleration.operator == "Exists":
        return toleration.key in ("", taint.key)
    if toleration.operator in ("Gt", "Lt"):
        return toleration.key == taint.key and _compares(toleration.operator, taint.value, toleration.value)
    return toleration.operator == "Equal" and toleration.key == taint.key and toleration.value == taint.value


def _compares(operator: str, one: str, other: str) -> bool:
    if not (_WHOLE.fullmatch(one) and _WHOLE.fullmatch(other)):
        return False
    return int(one) > int(other) if operator == "Gt" else int(one) < int(other)


def holds(requirement: Requirement, value: str | None) -> bool:
    """Whether a value meets a requirement; None for a node that has no such label."""
    match requirement.operator:
        case "In":
            return value is not None and value in requirement.values
        case "NotIn":
            return value is None or value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt" if len(requirement.values) == 1 and value is not None:
            return _compares(requirement.operator, value, requirement.values[0])
        case _:
            return False


def term_holds(term: Term, labels: Mapping[str, str], name: str) -> bool:
    """Whether a node meets one of the alternatives of an affinity."""
    return all(holds(each, labels.get(each.key)) for each in term.labels) and names_hold(term, name)


def names_hold(term: Term, name: str) -> bool:
    """Whether a node meets what one of the alternatives of an affinity says of its name."""
    return all(each.key == _NAME_FIELD and holds(each, name) for each in term.fields)


def in_words(requirement: Requirement) -> str:
    """Give a requirement such as `gpu-type in (a100, h100)`."""
    values = ", ".join(requirement.values[:_SHOWN]) + (", …" if len(requirement.values) > _SHOWN else "")
    match requirement.operator:
        case "In":
            return f"{requirement.key} in ({values})" if len(requirement.values) != 1 else f"{requirement.key}={values}"
        case "NotIn":
            return f"{requirement.key} not in ({values})"
        case "Exists":
            return f"{requirement.key} is there"
        case "DoesNotExist":
            return f"{requirement.key} is not there"
        case "Gt" | "Lt":
            return f"{requirement.key} {'above' if requirement.operator == 'Gt' else 'below'} {values}"
        case _:
            return f"{requirement.key} {requirement.operator} ({values})"
