"""Which of the events about a pod on its node counts: what was said of a step lasts until something newer is said.

https://github.com/kubernetes/kubernetes/tree/master/pkg/kubelet
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import IntEnum
from typing import Final

from gpu_training.core.kubelet_words import KubeletWords, parse_kubelet_event
from gpu_training.core.pending_cause import Cause, Cure
from gpu_training.core.pending_events import last_at
from gpu_training.core.surroundings import Happening

GENERIC: Final = (Cause.IMAGE_PULL_FAILED, Cause.VOLUME_MOUNT_FAILED, Cause.CONTAINER_NOT_CREATED)
"""What is said when nothing better is known; an earlier event may name the cause."""

RECENT_S: Final = 150.0
"""The kubelet tries a volume or a container again after pauses that double up to 2 min 2 s: what it has not said again
for longer than that may be cured."""

RECENT_IMAGE_S: Final = 330.0
"""It tries an image again after pauses that double up to 5 min."""


class _Step(IntEnum):
    VOLUMES = 0
    SANDBOX = 1
    IMAGE = 2
    CONTAINER = 3


_STEPS: Final = {
    "FailedMount": _Step.VOLUMES,
    "FailedMapVolume": _Step.VOLUMES,
    "FailedAttachVolume": _Step.VOLUMES,
    "SuccessfulAttachVolume": _Step.VOLUMES,
    "FailedCreatePodSandBox": _Step.SANDBOX,
    "FailedCreatePodContainer": _Step.SANDBOX,
    "FailedPrepareDynamicResources": _Step.SANDBOX,
    "NetworkNotReady": _Step.SANDBOX,
    "InspectFailed": _Step.IMAGE,
    "ErrImageNeverPull": _Step.IMAGE,
    "Pulling": _Step.IMAGE,
}
_NO_REASON: Final = r"(?:Error: )?\w{0,40}Image\w{0,40}\.?$"
_OF_AN_IMAGE: Final = re.compile(rf"Failed to pull image |Back-off pulling image |{_NO_REASON}")
# Summaries of what was said before: they do not say why.
_ECHO: Final = re.compile(rf"Unable to attach or mount volumes|Back-off |{_NO_REASON}")
_VOLUME: Final = re.compile(r"for volume \"([^\"]{1,253})\"")


def told_of(
    events: Iterable[Happening], now: float, *, of_a_container: bool = False
) -> tuple[KubeletWords, Happening] | None:
    """Give the words that count among events of one pod, and the event that has them; None where none does.

    :param events: the newest first.
    :param now: seconds since 1970.
    :param of_a_container: whether a container says itself that it is held: then its volumes have come, and a pull that
        has begun has not ended well.
    """
    step, generic = None, None
    attached: set[str] = set()
    for event in events:
        at = _step(event)
        if at is None or (of_a_container and (at < _Step.IMAGE or event.reason == "Pulling")):
            continue
        if step not in (None, at):
            break
        step = at
        if _is_attached(event, attached):
            continue
        words = parse_kubelet_event(event.reason, event.message)
        if words is not None and words.cure is Cure.NEVER and not _is_recent(event, at, now):
            break
        if words is not None and words.cause not in GENERIC:
            return words, event
        generic = generic or ((words, event) if words is not None else None)
        if not _ECHO.match(event.message):
            break
    return generic


def _step(event: Happening) -> _Step | None:
    if event.reason in ("Failed", "BackOff"):
        return _Step.IMAGE if _OF_AN_IMAGE.match(event.message) else _Step.CONTAINER
    return _STEPS.get(event.reason)


def _is_attached(event: Happening, attached: set[str]) -> bool:
    """Whether an event tells of a volume that has been attached; such volumes are added to those given."""
    found = _VOLUME.search(event.message)
    volume = found[1] if found is not None else ""
    if event.reason == "SuccessfulAttachVolume":
        attached.add(volume)
        return True
    return event.reason == "FailedAttachVolume" and (volume in attached or "" in attached)


def _is_recent(event: Happening, step: _Step, now: float) -> bool:
    at = last_at(event)
    return at is not None and now - at <= (RECENT_IMAGE_S if step is _Step.IMAGE else RECENT_S)
