"""Why a pod that is on a node has not started: its node, its image, its volumes, what it refers to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gpu_training.core.kubelet_words import KubeletWords, parse_container_wait
from gpu_training.core.pending_cause import Cause, Cure
from gpu_training.core.pending_events import last_at
from gpu_training.core.pending_kubelet import GENERIC, told_of
from gpu_training.core.pending_report import Report
from gpu_training.core.pending_view import View
from gpu_training.core.pods import ContainerObservation, ContainerState, PodObservation
from gpu_training.core.sayings import plain
from gpu_training.core.surroundings import Happening

SILENT_S: Final = 10.0
"""A kubelet takes up a pod, and says so, within a second."""

_UNSEEN_NODE_S: Final = 10.0
_HARMLESS: Final = ("", "PodInitializing", "ContainerCreating")
_STEPS_TAKEN: Final = ("Pulled", "Created", "Started")
_AWRY_S: Final = 60.0
"""Clocks of nodes and of the control plane may differ by so much. The pod's UID tells its events from others'."""


def of_starting(pod: PodObservation, view: View) -> Report:
    """Give why a pod on a node has not started."""
    lost = of_lost_node(pod, view)
    if lost is not None:
        return lost
    waiting = next(
        (c for c in _containers(pod) if c.state is ContainerState.WAITING and c.reason not in _HARMLESS), None
    )
    if waiting is not None:
        return _held(pod, waiting, view)
    events = list(_recent(pod, view))
    told = told_of(events, view.now)
    if told is not None:
        words, event = told
        return _report(pod, words, event.message)
    initial = next((c for c in pod.init_containers if c.state is ContainerState.RUNNING), None)
    if initial is not None:
        summary, remedy = f"Its init container {initial.name} runs on {pod.node}.", "Wait until it has ended."
    elif _is_silent(pod, events, view):
        summary = f"It is bound to {pod.node}, whose kubelet has not said anything of it."
        remedy = "Wait; if it stays so, whoever runs the cluster looks at that kubelet."
    else:
        summary, remedy = f"It starts on {pod.node}.", "Wait."
    return Report(cause=Cause.WAITING, cure=Cure.TRANSIENT, summary=summary, remedy=remedy)


def of_lost_node(pod: PodObservation, view: View) -> Report | None:
    """Give that the node of a pod is silent or gone, so that nothing becomes of the pod; None while it is well, or not
    known."""
    said = _what_is_wrong(pod, view)
    if not said:
        return None
    ending = pod.deleting or pod.disruption is not None
    effect = "the next attempt can not begin before this one has ended" if ending else "the pod does not start there"
    return Report(
        cause=Cause.NODES_NOT_READY,
        cure=Cure.TRANSIENT,
        summary=f"Node {pod.node} {said}: {effect}.",
        remedy="Wait until the node is back, or have whoever runs the cluster delete its Node object: Kubernetes then "
        "gives the pod up.",
    )


def _what_is_wrong(pod: PodObservation, view: View) -> str:
    if view.index is None or not view.index.nodes:
        newest = next(iter(view.events.about(pod.uid)), None)
        return "is not ready" if newest is not None and newest.reason == "NodeNotReady" else ""
    node = view.index.table.node(pod.node)
    if node is None:
        return "does not exist any more" if view.older_than(pod.scheduled_at, _UNSEEN_NODE_S) else ""
    return "is not ready" if node.ready is False else ""


def _containers(pod: PodObservation) -> tuple[ContainerObservation, ...]:
    return (*pod.init_containers, *pod.containers)


def _held(pod: PodObservation, container: ContainerObservation, view: View) -> Report:
    """Give why a container is held that says so itself; an event may know more, such as what a registry answered."""
    words = parse_container_wait(container.reason, container.message)
    if words is not None and words.cause not in GENERIC:
        return _report(pod, words, container.message or container.reason)
    told = told_of(_recent(pod, view), view.now, of_a_container=True)
    if told is not None and (words is None or told[0].cause not in GENERIC):
        return _report(pod, told[0], told[1].message)
    if words is not None:
        return _report(pod, words, container.message or container.reason)
    said = f": {plain(container.message)}" if container.message else ""
    return Report(
        cause=Cause.CONTAINER_NOT_CREATED,
        cure=Cure.WAITING,
        summary=f"On {pod.node}, container {container.name} waits: {plain(container.reason)}{said}",
        remedy="Read the kubelet's words; ask whoever runs the cluster what they mean there.",
        words=plain(container.message, 1000),
    )


def _recent(pod: PodObservation, view: View) -> Iterator[Happening]:
    """Give the events of a pod on its node, the newest first, back to the last step that it took."""
    for event in view.events.about(pod.uid):
        at = last_at(event)
        if event.reason in _STEPS_TAKEN or event.reason == "Scheduled":
            return
        if at is not None and pod.scheduled_at is not None and at < pod.scheduled_at - _AWRY_S:
            return
        yield event


def _report(pod: PodObservation, words: KubeletWords, said: str) -> Report:
    summary = words.summary[:1].lower() + words.summary[1:] if words.summary[1:2].islower() else words.summary
    return Report(
        cause=words.cause,
        cure=words.cure,
        summary=f"On {pod.node}: {summary}",
        remedy=words.remedy,
        words=plain(said, 1000),
    )


def _is_silent(pod: PodObservation, events: list[Happening], view: View) -> bool:
    return (
        not events
        and view.events.readable
        and not _containers(pod)
        and view.older_than(pod.scheduled_at or pod.created_at, SILENT_S)
    )
