"""From a cause's beginning to the report that tells it, for each cause made for real."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.cluster import pending_autoscalers, pending_setting
from tests.cluster.admission_webhook import DenyingWebhook
from tests.cluster.pending_autoscalers import AUTOSCALED
from tests.cluster.pending_causes import SITUATIONS
from tests.cluster.pending_eyes import Eyes, Sight
from tests.cluster.pending_scene import Scene, training
from tests.cluster.pending_setting import CLUSTER_AUTOSCALER, KARPENTER
from tests.cluster.pending_situation import Situation

from gpu_training.core.pending_cause import Cause
from sandbox.api import Document
from sandbox.cluster import Sandbox
from sandbox.errors import SandboxError
from sandbox.faults import programs
from sandbox.waiting import wait_for

DEADLINE_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """How soon a cause was told.

    :param seconds: from before whatever made the training wait, or from its pod, where it waits with the next one of
        its Job; None: it was not told.
    :param told: the cause that was told last.
    """

    situation: str
    cause: Cause
    seconds: float | None
    told: str = ""


def measure(folder: Path) -> list[Latency]:
    """Make every situation, one after another, in a cluster of its own."""
    sandbox = Sandbox.up(folder, nodes=(), lifecycle=pending_setting.LIFECYCLE, owner_pid=os.getpid())
    scene = Scene(sandbox)
    try:
        pending_setting.add_namespaces(scene)
        found = [_bare(scene)]
        with DenyingWebhook(sandbox) as webhook, Eyes(sandbox.operator_kubeconfig) as eyes:
            pending_setting.set_up(scene, webhook)
            found += [_told(scene, eyes, situation) for situation in SITUATIONS]
            found += _of_programs(scene, eyes)
        presence: dict[str, Callable[[Scene], None]] = {
            CLUSTER_AUTOSCALER: pending_autoscalers.add_cluster_autoscaler,
            KARPENTER: pending_autoscalers.add_karpenter,
        }
        for name, add in presence.items():
            add(scene)
            with Eyes(sandbox.operator_kubeconfig) as eyes:
                found += [_told(scene, eyes, situation) for situation in AUTOSCALED[name]]
        return found
    finally:
        sandbox.down()


def _told(scene: Scene, eyes: Eyes, situation: Situation) -> Latency:
    sight = eyes.follow(scene.job(situation.ran)) if situation.ran else None

    def make() -> Document:
        return situation.make(scene)

    if situation.second:
        make()
        scene.wait_for_pod(situation.ran, phase="Pending")
        return _timed(eyes, situation.name, situation.cause, partial(scene.job, situation.ran), sight)
    return _timed(eyes, situation.name, situation.cause, make, sight)


def _timed(eyes: Eyes, name: str, cause: Cause, make: Callable[[], Document], sight: Sight | None = None) -> Latency:
    began = time.monotonic()
    job = make()
    sight = sight or eyes.follow(job)
    try:
        at = wait_for(lambda: sight.told_at(cause), DEADLINE_S, name)
    except SandboxError:
        told = sight.report.cause if sight.report else "nothing"
        return Latency(situation=name, cause=cause, seconds=None, told=told)
    return Latency(situation=name, cause=cause, seconds=max(0.0, (at or began) - began))


def _bare(scene: Scene) -> Latency:
    """Have no node at all. Eyes of their own, which know nothing of what is installed later."""
    with Eyes(scene.sandbox.operator_kubeconfig) as eyes:
        jobs = [scene.create(training("no-nodes-first"))]
        first = eyes.follow(jobs[0])
        # The first look costs imports, which a triggerer has behind it.
        wait_for(lambda: first.report, DEADLINE_S, "a first report")

        def make() -> Document:
            jobs.append(scene.create(training("no-nodes")))
            return jobs[-1]

        latency = _timed(eyes, "no node offers a GPU", Cause.NO_GPU_NODES, make)
    for job in jobs:
        scene.delete(job)
    return latency


def _of_programs(scene: Scene, eyes: Eyes) -> list[Latency]:
    """Have scheduler and controller manager do nothing, one after the other."""
    found = []
    for program, cause in (
        ("kube-scheduler", Cause.SCHEDULER_SILENT),
        ("kube-controller-manager", Cause.CONTROLLER_NOT_RUNNING),
    ):
        programs.pause_program(scene.sandbox, program)
        job = training(f"without-{program}", pool="free")
        found.append(_timed(eyes, f"{program} does nothing", cause, partial(scene.create, job)))
        programs.resume_program(scene.sandbox, program)
        scene.wait_for_pod(f"without-{program}", phase="Running")
    return found
