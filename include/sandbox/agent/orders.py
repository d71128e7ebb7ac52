"""Faults that a node was ordered to have: pressure, images it does not get, ends of containers and pods.

They are the agent's that runs: the next one has none.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sandbox.agent.images import Image, ImageUnknownError, parse_reference
from sandbox.agent.states import Terminated
from sandbox.agent.status import format_time

if TYPE_CHECKING:
    from sandbox.agent.context import PodContext


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageFault:
    """What befalls pulls of an image.

    :param refusal: the registry's words; empty: it is given.
    :param delay_s: seconds that a pull takes.
    """

    refusal: str = ""
    delay_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerEnd:
    """How a container that is killed is to be told to have ended; an empty message leaves its own."""

    exit_code: int
    reason: str
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodEnd:
    """Why the node ends a pod, and how long its containers may take."""

    reason: str
    message: str
    grace_s: float
    ordered_ns: int = dataclasses.field(default_factory=time.time_ns)


class Orders:
    """All faults of one node.

    :ivar pressure: conditions of the Node that are True, such as `MemoryPressure`.
    :ivar images: faults by the image's repository.
    :ivar containers: ends by container id.
    :ivar pods: ends by the pod's UID.
    """

    def __init__(self) -> None:
        self.pressure: frozenset[str] = frozenset()
        self.images: dict[str, ImageFault] = {}
        self.containers: dict[str, ContainerEnd] = {}
        self.pods: dict[str, PodEnd] = {}

    async def pull(self, pod: PodContext, reference: str) -> Image:
        """Give an image, after what befalls its pulls.

        :raises InvalidImageNameError: it is no reference.
        :raises ImageUnknownError: it is not there or refused, or the pod stops before it comes.
        """
        if (fault := self.images.get(parse_reference(reference)[0])) is not None:
            failure = f'failed to pull and unpack image "{reference}"'
            if fault.refusal:
                raise ImageUnknownError(f"{failure}: {fault.refusal}")
            pod.tell("Normal", "Pulling", f'Pulling image "{reference}"')
            await pod.pause(fault.delay_s)
            if pod.stopping.is_set():
                raise ImageUnknownError(f"{failure}: context canceled")
        return pod.node.images.resolve(reference)

    def end_of(self, end: Terminated) -> Terminated:
        """Give the end of a container as it is to be told."""
        order = self.containers.pop(end.container_id, None)
        if order is None:
            return end
        told = dataclasses.replace(end, exit_code=order.exit_code, reason=order.reason)
        return dataclasses.replace(told, message=order.message) if order.message else told

    def with_disruption(self, uid: str, conditions: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Give a pod's conditions, with the one that says that the node itself ended it, where it did."""
        if (order := self.pods.get(uid)) is None:
            return list(conditions)
        disruption = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "TerminationByKubelet",
            "message": order.message,
            "lastTransitionTime": format_time(order.ordered_ns),
        }
        return [*(each for each in conditions if each["type"] != "DisruptionTarget"), disruption]
