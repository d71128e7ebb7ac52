"""GPU-seconds: never too few, never for what held no GPU, and marked where an end was not seen."""

from __future__ import annotations

import pytest
from tests.unit.core.kubernetes_documents import (
    Document,
    at,
    complete,
    condition,
    container,
    disruption,
    failed,
    failed_pod,
    job,
    moment,
    pod,
    running,
    succeeded_pod,
    terminated,
    waiting,
)

from gpu_training.core.attempts import attempts_of, total_gpu_seconds
from gpu_training.core.observation import observe
from gpu_training.rule_table import built_in_rules

pytestmark = pytest.mark.core

NOW = moment(100)
RULES = built_in_rules()
_LOST = pod("Failed", container(running()), conditions=[disruption(60, "DeletionByPodGC")])

ROWS: list[tuple[str, Document, list[Document], list[Document], float, bool]] = [
    # bound at 1, container ended at 11
    ("from binding to the container's end", complete(), [succeeded_pod()], [], 10, False),
    ("two GPUs", complete(), [succeeded_pod(gpus=2)], [], 20, False),
    ("gone, its end seen", complete(), [], [succeeded_pod()], 10, False),
    ("still running: to now", job(), [pod("Running", container(running()))], [], 99, False),
    ("starting holds the GPU, too", job(), [pod("Pending", container(waiting("ContainerCreating")))], [], 99, False),
    ("container ended, pod not yet", job(), [pod("Running", container(terminated(0)))], [], 99, False),
    ("never bound", job(), [pod("Pending", scheduled=None)], [], 0, False),
    ("the last container counts", failed(),
     [pod("Failed", container(terminated(1)), container(terminated(143, finished=31), name="proxy"))], [], 30, False),
    ("init container failed: the training never started", failed(),
     [pod("Failed", container(waiting("PodInitializing")),
          init=[container(terminated(1, finished=5), name="download")])], [], 4, False),
    # Kubernetes writes 1970 as the start; the GPU was held for the time of one image, not for 56 years.
    ("command not found", failed(),
     [pod("Failed", container(terminated(128, reason="StartError", started=None, finished=3)))], [], 2, False),
    ("turned away at admission", failed(),
     [pod("Failed", scheduled=None, status={"reason": "OutOfcpu", "startTime": "2026-11-30T19:24:01Z"})], [], 0, False),
    # Ends that nobody saw: the latest possible one stands for them.
    ("node lost, Job goes on: to now", job(), [_LOST], [], 99, True),
    ("node lost, Job ended", failed(second=70), [_LOST], [], 69, True),
    ("gone while it ran", job(), [], [pod("Running", container(running()))], 99, True),
    ("gone while it ran, Job ended", complete(second=50), [], [pod("Running", container(running()))], 49, True),
    ("gone before the kubelet said anything", job(), [], [pod("Pending")], 99, True),
    ("gone unbound", job(), [], [pod("Pending", scheduled=None)], 0, False),
    ("ended without a time", failed(second=41), [pod("Failed", container({"terminated": {"exitCode": 1}}))], [],
     40, True),
]  # fmt: skip


@pytest.mark.parametrize(
    ("document", "pods", "gone_pods", "gpu_seconds", "estimated"), [row[1:] for row in ROWS], ids=[r[0] for r in ROWS]
)
def test_gpu_seconds_are_counted_from_the_binding_to_the_end(
    document: Document, pods: list[Document], gone_pods: list[Document], gpu_seconds: float, estimated: bool
) -> None:
    [attempt] = attempts_of(observe(document, pods, gone_pods=gone_pods), NOW, RULES)
    assert (attempt.gpu_seconds, attempt.estimated) == (gpu_seconds, estimated)


@pytest.mark.parametrize(
    ("document", "gone", "started", "ended"),
    [
        (pod("Running", container(running())), False, 1, None),
        (pod("Pending", scheduled=None), False, None, None),
        (pod("Pending", scheduled=None), True, None, 100),
        (failed_pod(1), False, 1, 11),
        (succeeded_pod(), True, 1, 11),
        (_LOST, False, 1, 100),
    ],
)
def test_an_attempt_says_from_when_to_when_it_held_which_pod(
    document: Document, gone: bool, started: int | None, ended: int | None
) -> None:
    seen = observe(job(), [] if gone else [document], gone_pods=[document] if gone else [])
    [attempt] = attempts_of(seen, NOW, RULES)
    assert (attempt.uid, attempt.gpus) == (document["metadata"]["uid"], 1)
    assert attempt.started_at == (None if started is None else moment(started))
    assert attempt.ended_at == (None if ended is None else moment(ended))


def test_a_pod_whose_end_was_not_seen_is_not_charged_beside_its_replacement() -> None:
    """The replacement is made after its predecessor has ended: podReplacementPolicy Failed."""
    vanished = pod("Running", container(running()), name="a")
    replacement = pod("Running", container(running()), name="b", created=31, scheduled=32)
    attempts = attempts_of(observe(job(), [replacement], gone_pods=[vanished]), NOW, RULES)
    assert [(a.number, a.pod, a.gpu_seconds, a.estimated) for a in attempts] == [
        (1, "a", 30, True),
        (2, "b", 68, False),
    ]
    assert total_gpu_seconds(attempts) == 98


def test_ranks_that_run_side_by_side_bound_nothing_of_each_other() -> None:
    gang = job(spec={"parallelism": 2, "completions": 2})
    vanished = pod("Running", container(running()), name="a", index=0)
    other = pod("Running", container(running()), name="b", index=1, created=31, scheduled=32)
    assert attempts_of(observe(gang, [other], gone_pods=[vanished]), NOW, RULES)[0].gpu_seconds == 99


def test_a_binding_without_a_condition_is_taken_from_the_kubelets_start() -> None:
    document = succeeded_pod()
    document["status"]["conditions"] = [condition("Ready", status="False")]
    assert attempts_of(observe(complete(), [document]), NOW, RULES)[0].gpu_seconds == 10


_TAKEN = pod("Failed", container(terminated(143)), deleting=True)
_RESUMED = {"startTime": at(60)}


@pytest.mark.parametrize(
    ("document", "left", "category", "action"),
    [
        (job(spec={"suspend": True}), _TAKEN, "disrupted", "wait"),
        (job(spec={"suspend": True}), pod("Failed", container(terminated(85)), deleting=True), "disrupted", "wait"),
        (job(spec={"suspend": True}), pod("Running", container(running())), "disrupted", "wait"),
        (job(status=_RESUMED), _TAKEN, "disrupted", "wait"),
        # It had failed by itself, and nobody deleted it.
        (job(spec={"suspend": True}), failed_pod(1), "application_error", "retry"),
        (job(status=_RESUMED), failed_pod(1), "application_error", "retry"),
        # A person's deletion counts as a failure, and so it does with Kubernetes.
        (job(), _TAKEN, "killed", "retry"),
        # Two clocks: the start of a Job that was never suspended may seem to be after its pod's creation.
        (job(status={"startTime": at(4)}), _TAKEN, "killed", "retry"),
    ],
)
def test_what_a_suspension_takes_away_is_no_failure(
    document: Document, left: Document, category: str, action: str
) -> None:
    [attempt] = attempts_of(observe(document, [], gone_pods=[left]), NOW, RULES)
    assert attempt.verdict is not None
    assert (attempt.verdict.category, attempt.verdict.action) == (category, action)


def test_a_training_that_was_done_when_its_job_was_suspended_is_done() -> None:
    document = succeeded_pod(deleting=True)
    [attempt] = attempts_of(observe(job(spec={"suspend": True}), [document]), NOW, RULES)
    assert attempt.verdict is None
