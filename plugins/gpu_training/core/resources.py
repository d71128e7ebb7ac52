"""CPU, memory and GPUs of the training container, checked as Kubernetes and its quota will."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from gpu_training.core.errors import ConfigurationError
from gpu_training.core.fields import Fields, nearest
from gpu_training.core.quantity import parse_quantity
from gpu_training.core.syntax import RESOURCE_KEY

GPU_RESOURCE: Final = "nvidia.com/gpu"
MAX_GPUS: Final = 64
"""More than any node type sold today holds; a larger figure is a typing error."""

MINIMUM_MEMORY: Final = 2**20
"""Bytes. Less is a quantity whose suffix was forgotten or mistaken: `512` is bytes, `512m` half a byte."""

_PLAIN_RESOURCES: Final = ("cpu", "memory", "ephemeral-storage")
_HUGE_PAGES: Final = r"hugepages-[0-9]{1,6}(Ki|Mi|Gi)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """Requests and limits of the training container, as Kubernetes quantities by resource name.

    :param requests: holds every resource that limits holds; what was not asked for equals the limit, as Kubernetes
        would have it.
    :param limits: holds at least memory and the GPU resource.
    :param gpus: whole GPUs.
    """

    requests: Mapping[str, str]
    limits: Mapping[str, str]
    gpus: int


def parse_resources(fields: Fields) -> Resources:
    """Give the resources in a section with `requests` and `limits`.

    :raises ConfigurationError: the first fault found.
    """
    requests, limits = fields.scalars("requests"), fields.scalars("limits")
    fields.finish()
    gpus = _gpus(fields, requests, limits)
    if "memory" not in limits:
        raise ConfigurationError(
            fields.path("limits.memory"),
            None,
            "is required, e.g. 8Gi: without it one training can take its node's memory down",
        )
    if not fields.is_late(limits[GPU_RESOURCE]):
        limits[GPU_RESOURCE] = str(gpus)
    asked, allowed = _amounts(fields, "requests", requests), _amounts(fields, "limits", limits)
    for name, amount in asked.items():
        _check_request(fields, name, requests[name], amount, limits.get(name), allowed.get(name))
    return Resources(requests={**limits, **requests}, limits=limits, gpus=gpus)


def _gpus(fields: Fields, requests: Mapping[str, str], limits: Mapping[str, str]) -> int:
    if GPU_RESOURCE not in limits:
        fault = "is in requests only" if GPU_RESOURCE in requests else "is required"
        raise ConfigurationError(
            fields.path(f"limits.{GPU_RESOURCE}"),
            None,
            f"{fault}: write under limits how many whole GPUs, from 1 to {MAX_GPUS}; requests follow",
        )
    return Fields(limits, fields.path("limits"), templates=fields.templates).whole(
        GPU_RESOURCE, minimum=1, maximum=MAX_GPUS, unit="GPUs"
    )


def _amounts(fields: Fields, side: str, texts: Mapping[str, str]) -> dict[str, Fraction]:
    """Give the amounts that are known now: a template's is not."""
    amounts = {}
    for name, text in texts.items():
        _check_name(fields, side, name)
        if fields.is_late(text):
            continue
        amounts[name] = check_amount(fields.path(f"{side}.{name}"), text)
        if name == "memory" and amounts[name] < MINIMUM_MEMORY:
            raise ConfigurationError(
                fields.path(f"{side}.{name}"), text, "at least 1Mi is expected: is a suffix such as Mi or Gi missing?"
            )
    return amounts


def check_amount(path: str, text: str) -> Fraction:
    """Give the value of a quantity above 0.

    :raises ConfigurationError: it is none.
    """
    amount = parse_quantity(text)
    if amount is None or amount <= 0:
        raise ConfigurationError(path, text, "a Kubernetes quantity above 0 is expected, e.g. 500m or 8Gi")
    return amount


def _check_name(fields: Fields, side: str, name: str) -> None:
    if name in _PLAIN_RESOURCES or re.fullmatch(_HUGE_PAGES, name) or re.fullmatch(RESOURCE_KEY, name):
        return
    known = (*_PLAIN_RESOURCES, GPU_RESOURCE)
    raise ConfigurationError(
        fields.path(f"{side}.{name}"),
        name,
        f"unknown resource{nearest(name, known)}; known are {', '.join(known)} and others with a domain in front",
    )


def _check_request(
    fields: Fields, name: str, text: str, amount: Fraction, limit_text: str | None, limit: Fraction | None
) -> None:
    path = fields.path(f"requests.{name}")
    # Kubernetes never overcommits devices and huge pages: limits are required, and requests are the same.
    if "/" in name or name.startswith("hugepages-"):
        if limit_text is None:
            raise ConfigurationError(path, text, "is in requests only: write it under limits")
        if limit is not None and amount != limit:
            raise ConfigurationError(path, text, f"must equal the limit {limit_text}, or be left out")
    if limit is not None and amount > limit:
        raise ConfigurationError(path, text, f"is above the limit {limit_text}: at most the limit is allowed")
