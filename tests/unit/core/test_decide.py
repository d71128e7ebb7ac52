"""One observation, one decision: what Kubernetes says of a Job and its pods, and what that means."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.unit.core.kubernetes_documents import (
    DATA_DIGEST,
    TRAINED,
    Document,
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

from gpu_training.contract import RESULT_LIMIT_BYTES, Result, ResultStatus, render_result
from gpu_training.core.decide import Outcome, OutcomeKind, Policy, decide
from gpu_training.core.observation import observe
from gpu_training.core.phase import Phase, Wait
from gpu_training.core.rule_documents import parse_team_rules
from gpu_training.core.verdict import Action, Category, Owner
from gpu_training.rule_table import built_in_rules, rules_for

pytestmark = pytest.mark.core

NOW = moment(100)
DEFAULT = Policy(rules=built_in_rules())
ANY_RESULT = Policy(rules=built_in_rules(), result_required=False)
_DELETED = {"deletionTimestamp": "2026-11-30T19:24:20Z", "finalizers": ["foregroundDeletion"]}
_XID = "gpu-hardware"
_INSUFFICIENT = (
    "0/1 nodes are available: 1 Insufficient nvidia.com/gpu. preemption: 0/1 nodes are available: "
    "1 No preemption victims found for incoming pod."
)
_UNSCHEDULABLE = condition("PodScheduled", status="False", reason="Unschedulable", message=_INSUFFICIENT)


def ends(
    job_document: Document | None,
    pods: Sequence[Document] = (),
    *,
    gone_pods: Sequence[Document] = (),
    gone: bool = False,
    policy: Policy | None = None,
) -> Outcome:
    decision = decide(observe(job_document, pods, gone_pods=gone_pods, gone=gone), policy or DEFAULT, NOW)
    assert isinstance(decision, Outcome), decision
    return decision


def waits(job_document: Document | None, pods: Sequence[Document] = (), gone_pods: Sequence[Document] = ()) -> Wait:
    decision = decide(observe(job_document, pods, gone_pods=gone_pods), DEFAULT, NOW)
    assert isinstance(decision, Wait), decision
    return decision


# Success.


def test_complete_with_a_valid_result_is_a_success() -> None:
    outcome = ends(complete(), [succeeded_pod()])
    assert outcome.kind is OutcomeKind.SUCCEEDED
    assert outcome.verdict is None
    assert outcome.result is not None
    assert (outcome.result.model_uri, outcome.result.metrics) == ("models:/m-1", {"rmse": 12.5})


@pytest.mark.case("C014")
def test_the_result_is_that_of_the_pod_that_succeeded() -> None:
    outcome = ends(complete(), [failed_pod(1, name="first"), succeeded_pod(name="second", created=21, scheduled=22)])
    assert outcome.kind is OutcomeKind.SUCCEEDED
    assert [attempt.verdict is None for attempt in outcome.attempts] == [False, True]


@pytest.mark.case("C017")
def test_a_pod_that_was_removed_after_complete_does_not_undo_the_success() -> None:
    outcome = ends(complete(), gone_pods=[succeeded_pod()])
    assert outcome.kind is OutcomeKind.SUCCEEDED
    assert outcome.result is not None


@pytest.mark.case("C017")
def test_a_complete_job_whose_pod_nobody_saw_lacks_its_result_which_a_retry_may_bring() -> None:
    outcome = ends(complete())
    assert outcome.kind is OutcomeKind.FAILED
    assert outcome.verdict is not None
    assert (outcome.verdict.category, outcome.verdict.action) == (Category.RESULT_MISSING, Action.RETRY)
    assert ends(complete(), policy=ANY_RESULT).kind is OutcomeKind.SUCCEEDED


@pytest.mark.case("C019")
@pytest.mark.parametrize("document", [complete(), job(), job(condition("SuccessCriteriaMet"))])
def test_a_job_that_is_gone_after_its_pod_succeeded_is_a_success(document: Document) -> None:
    """Its TTL ran out before anybody read the last condition."""
    outcome = ends(document, gone_pods=[succeeded_pod()], gone=True)
    assert (outcome.kind, outcome.result is not None) == (OutcomeKind.SUCCEEDED, True)


def test_one_pod_of_several_is_not_the_success_of_a_job_that_is_gone() -> None:
    document = job(spec={"completions": 2, "parallelism": 2})
    assert ends(document, gone_pods=[succeeded_pod()], gone=True).kind is OutcomeKind.LOST
    both = [succeeded_pod(name="a"), succeeded_pod(name="b")]
    assert ends(document, gone_pods=both, gone=True).kind is OutcomeKind.SUCCEEDED


@pytest.mark.case("C016")
def test_an_indexed_job_has_the_one_result_that_a_rank_left() -> None:
    ranks = [
        succeeded_pod("", name="rank-0", index=0),
        succeeded_pod(TRAINED.replace("m-1", "m-2"), name="rank-2", index=2),
        succeeded_pod(TRAINED, name="rank-1", index=1),
    ]
    result = ends(complete(), ranks).result
    assert result is not None
    assert result.model_uri == "models:/m-1"


# Complete, and still no success.

_SAYS_FAILED = render_result(Result(status=ResultStatus.FAILED, error="no rows"))
_OTHER_DATA = render_result(Result(status=ResultStatus.TRAINED, data_digest="sha256:" + "0" * 64))


@pytest.mark.case("C083")
@pytest.mark.parametrize(
    ("document", "category", "action", "words"),
    [
        (succeeded_pod(""), Category.RESULT_MISSING, Action.FAIL, "left no termination message"),
        (succeeded_pod(" \n"), Category.RESULT_MISSING, Action.FAIL, "left no termination message"),
        (pod("Succeeded"), Category.RESULT_MISSING, Action.FAIL, "left no termination message"),
        (succeeded_pod("done"), Category.RESULT_INVALID, Action.FAIL, "not JSON"),
        (succeeded_pod(TRAINED[40:]), Category.RESULT_INVALID, Action.FAIL, "not JSON"),
        (succeeded_pod('{"v":2,"status":"trained"}'), Category.RESULT_INVALID, Action.FAIL, "v=2"),
        (succeeded_pod(TRAINED + " " * RESULT_LIMIT_BYTES), Category.RESULT_INVALID, Action.FAIL, "2048 are allowed"),
        (succeeded_pod(_SAYS_FAILED), Category.APPLICATION_ERROR, Action.FAIL, "its result says failed: no rows"),
        (succeeded_pod(_OTHER_DATA), Category.BAD_DATA, Action.FAIL, f"{DATA_DIGEST} was to be used"),
        # It was told to stop, wrote no result and exited with 0: Kubernetes calls that Complete.
        (succeeded_pod("", conditions=[disruption(9)]), Category.INTERRUPTED, Action.RETRY, "was told to stop"),
    ],
)
def test_exit_code_0_without_a_true_result_is_no_success(
    document: Document, category: Category, action: Action, words: str
) -> None:
    outcome = ends(complete(), [document])
    assert (outcome.kind, outcome.result) == (OutcomeKind.FAILED, None)
    assert outcome.verdict is not None
    assert (outcome.verdict.category, outcome.verdict.action) == (category, action)
    assert outcome.verdict.owner is Owner.APPLICATION
    assert words in outcome.verdict.summary


@pytest.mark.parametrize(
    ("document", "kind"),
    [
        (succeeded_pod(""), OutcomeKind.SUCCEEDED),
        (succeeded_pod("done"), OutcomeKind.SUCCEEDED),
        (succeeded_pod(_SAYS_FAILED), OutcomeKind.FAILED),
        (succeeded_pod(_OTHER_DATA), OutcomeKind.FAILED),
        (succeeded_pod("", conditions=[disruption(9)]), OutcomeKind.FAILED),
    ],
)
def test_without_a_result_required_only_what_contradicts_the_success_fails(
    document: Document, kind: OutcomeKind
) -> None:
    assert ends(complete(), [document], policy=ANY_RESULT).kind is kind


def test_a_training_that_finished_within_its_grace_period_is_a_success() -> None:
    assert ends(complete(), [succeeded_pod(conditions=[disruption(9)])]).kind is OutcomeKind.SUCCEEDED


# Failure.


@pytest.mark.case("C031")
def test_failed_is_explained_by_the_attempt_that_failed() -> None:
    outcome = ends(failed(), [failed_pod(1, message="KeyError: 'dep_delay'")])
    assert outcome.kind is OutcomeKind.FAILED
    assert outcome.verdict is not None
    assert outcome.verdict.category is Category.APPLICATION_ERROR
    assert "KeyError: 'dep_delay'" in outcome.verdict.summary


@pytest.mark.parametrize(
    ("pods", "category"),
    [
        ([failed_pod(1, name="a"), failed_pod(137, reason="OOMKilled", name="b", created=20)], Category.OUT_OF_MEMORY),
        ([failed_pod(137, reason="OOMKilled", name="a"), failed_pod(1, name="b", created=20)],
         Category.APPLICATION_ERROR),
        # The rest of a gang is ended because one rank failed.
        ([failed_pod(1, name="a", index=0), failed_pod(143, name="b", index=1, deleting=True)],
         Category.APPLICATION_ERROR),
        ([failed_pod(1, name="a"), failed_pod(143, name="b", created=20, conditions=[disruption(9)])],
         Category.APPLICATION_ERROR),
        ([failed_pod(143, name="a", conditions=[disruption(9)])], Category.DISRUPTED),
        ([pod("Failed", scheduled=None, status={"reason": "OutOfmemory"})], Category.ADMISSION_FAILED),
        # Turned away after it had failed by itself: that a node was full explains nothing.
        ([failed_pod(1, name="a"), pod("Failed", name="b", created=20, status={"reason": "OutOfcpu"})],
         Category.APPLICATION_ERROR),
    ],
)  # fmt: skip
def test_of_several_attempts_the_newest_that_failed_by_itself_explains(
    pods: list[Document], category: Category
) -> None:
    verdict = ends(failed(), pods).verdict
    assert verdict is not None
    assert verdict.category is category


_POLICY_WORDS = "Container training for pod gpu-training/x failed with exit code {} matching FailJob rule at index 1"


@pytest.mark.parametrize(
    ("pods", "code", "category", "owner"),
    [
        ([failed_pod(83)], 83, Category.NAN_LOSS, Owner.APPLICATION),
        # Newest is not the cause: the other rank was ended because of it.
        ([failed_pod(83, index=1, name="a"), failed_pod(1, index=0, name="b", created=1)],
         83, Category.NAN_LOSS, Owner.APPLICATION),
        # Of two that end the Job, the one that Kubernetes named.
        ([failed_pod(81, index=1, name="a"), failed_pod(83, index=0, name="b", created=1)],
         81, Category.BAD_DATA, Owner.APPLICATION),
        # The pods went with their node; the Job's message still tells.
        ([], 81, Category.BAD_DATA, Owner.APPLICATION),
        ([], 42, Category.UNKNOWN, Owner.INFRASTRUCTURE),
        # A rule of a base document that the table does not know.
        ([failed_pod(42)], 42, Category.APPLICATION_ERROR, Owner.APPLICATION),
    ],
)  # fmt: skip
def test_what_a_rule_failed_is_never_worth_a_repetition(
    pods: list[Document], code: int, category: Category, owner: Owner
) -> None:
    verdict = ends(failed("PodFailurePolicy", _POLICY_WORDS.format(code)), pods).verdict
    assert verdict is not None
    assert (verdict.category, verdict.owner, verdict.action) == (category, owner, Action.FAIL)


_BY_HARDWARE = {
    "name": "dead-gpu",
    "category": "gpu_hardware",
    "owner": "infrastructure",
    "action": "retry_elsewhere",
    "remedy": "have the GPU looked at",
    "exit_codes": [91],
    "pod_conditions": ["GpuLost"],
}
_CONDITION_WORDS = "Pod gpu-training/x has condition GpuLost matching FailJob rule at index 1"


@pytest.mark.parametrize(
    ("pods", "words"),
    [
        ([failed_pod(91)], _POLICY_WORDS.format(91)),
        ([], _POLICY_WORDS.format(91)),
        ([failed_pod(1, conditions=[condition("GpuLost")])], _CONDITION_WORDS),
        ([], _CONDITION_WORDS),
        # The others of a gang are ended because of it, and tell less.
        ([failed_pod(91, name="a", index=0), failed_pod(83, name="b", index=1, created=1)], _POLICY_WORDS.format(91)),
    ],
)
def test_a_rule_that_failed_the_job_for_the_sake_of_another_node_is_worth_a_repetition(
    pods: list[Document], words: str
) -> None:
    policy = Policy(rules=rules_for(parse_team_rules([_BY_HARDWARE], "r")))
    verdict = ends(failed("PodFailurePolicy", words), pods, policy=policy).verdict
    assert verdict is not None
    assert (verdict.category, verdict.action) == (Category.GPU_HARDWARE, Action.RETRY_ELSEWHERE)


def test_what_the_log_says_explains_a_failed_job() -> None:
    seen = observe(failed(), [failed_pod(1, name="a"), failed_pod(1, name="b", created=20)], findings={"b": _XID})
    outcome = decide(seen, DEFAULT, NOW)
    assert isinstance(outcome, Outcome)
    assert outcome.verdict is not None
    assert (outcome.verdict.category, outcome.verdict.action) == (Category.GPU_HARDWARE, Action.RETRY_ELSEWHERE)
    assert [a.verdict.category for a in outcome.attempts if a.verdict] == [
        Category.APPLICATION_ERROR,
        Category.GPU_HARDWARE,
    ]


def test_a_failed_job_without_pods_is_explained_by_its_own_words() -> None:
    verdict = ends(failed()).verdict
    assert verdict is not None
    assert (verdict.category, verdict.action) == (Category.UNKNOWN, Action.RETRY)
    assert "BackoffLimitExceeded: Job has reached the specified backoff limit" in verdict.summary


@pytest.mark.parametrize(
    ("gone_pods", "spent"),
    [
        ([failed_pod(143, deleting=True)], "1 attempts used 10 GPU-seconds"),
        ([pod("Pending", scheduled=None, conditions=[_UNSCHEDULABLE])], "no attempt got a node"),
        ([], "no attempt got a node"),
    ],
)
def test_the_jobs_deadline_is_a_time_out_that_says_what_was_spent(gone_pods: list[Document], spent: str) -> None:
    """Kubernetes deletes the pods before it says Failed."""
    outcome = ends(failed("DeadlineExceeded", "Job was active longer than specified deadline"), gone_pods=gone_pods)
    assert outcome.kind is OutcomeKind.TIMED_OUT
    assert outcome.verdict is not None
    assert (outcome.verdict.category, outcome.verdict.action) == (Category.DEADLINE_EXCEEDED, Action.FAIL)
    assert spent in outcome.verdict.summary


# Gone.


def test_a_job_that_was_deleted_while_it_ran_is_lost_and_a_retry_may_help() -> None:
    outcome = ends(job(), gone_pods=[failed_pod(143, deleting=True)], gone=True)
    assert outcome.kind is OutcomeKind.LOST
    assert outcome.verdict is not None
    assert (outcome.verdict.category, outcome.verdict.action) == (Category.DELETED, Action.RETRY)
    assert "exited with 143 (SIGTERM)" in outcome.verdict.summary


def test_a_job_that_nobody_ever_saw_is_lost_only_once_it_is_confirmed_to_be_gone() -> None:
    assert ends(None, gone=True).kind is OutcomeKind.LOST
    assert waits(None).phase is Phase.PENDING


@pytest.mark.parametrize(
    ("document", "pods", "kind", "category"),
    [
        (job(condition("FailureTarget", reason="BackoffLimitExceeded")), [failed_pod(1)],
         OutcomeKind.FAILED, Category.APPLICATION_ERROR),
        (job(condition("FailureTarget", reason="DeadlineExceeded")), [failed_pod(143)],
         OutcomeKind.TIMED_OUT, Category.DEADLINE_EXCEEDED),
        (job(), [failed_pod(80)], OutcomeKind.FAILED, Category.BAD_CONFIGURATION),
        (job(), [failed_pod(1)], OutcomeKind.LOST, Category.DELETED),
        (failed("PodFailurePolicy", _POLICY_WORDS.format(80)), [], OutcomeKind.FAILED, Category.BAD_CONFIGURATION),
    ],
)  # fmt: skip
def test_of_a_job_that_is_gone_what_was_last_seen_counts(
    document: Document, pods: list[Document], kind: OutcomeKind, category: Category
) -> None:
    outcome = ends(document, gone_pods=pods, gone=True)
    assert outcome.kind is kind
    assert outcome.verdict is not None
    assert outcome.verdict.category is category


# Waiting.

_TARGET = condition(
    "FailureTarget", reason="BackoffLimitExceeded", message="Job has reached the specified backoff limit"
)

WAITS: list[tuple[str, Document, list[Document], Phase, str]] = [
    ("no pod yet", job(), [], Phase.PENDING, "no pod yet"),
    ("suspended", job(condition("Suspended", reason="JobSuspended", message="Job suspended"), spec={"suspend": True}),
     [], Phase.SUSPENDED, "Job suspended"),
    ("suspended, not yet said so", job(spec={"suspend": True}), [], Phase.SUSPENDED, "the Job is suspended"),
    ("resumed", job(condition("Suspended", status="False", reason="JobResumed")), [], Phase.PENDING, "no pod yet"),
    ("unschedulable", job(), [pod("Pending", scheduled=None, conditions=[_UNSCHEDULABLE])], Phase.QUEUED,
     "1 Insufficient nvidia.com/gpu"),
    ("not yet looked at", job(), [pod("Pending", scheduled=None)], Phase.QUEUED, "waiting for a node"),
    ("image being pulled", job(), [pod("Pending", container(waiting("ContainerCreating")))], Phase.STARTING,
     "training: ContainerCreating"),
    ("image refused", job(), [pod("Pending", container(waiting("ImagePullBackOff", "Back-off pulling image")))],
     Phase.STARTING, "training: ImagePullBackOff: Back-off pulling image"),
    ("bound, kubelet silent", job(), [pod("Pending")], Phase.STARTING, "on gpu-1: starting"),
    ("init container", job(),
     [pod("Pending", container(waiting("PodInitializing")), init=[container(running(), name="download-data")])],
     Phase.STARTING, "download-data runs"),
    ("running", job(), [pod("Running", container(running()))], Phase.RUNNING, "on gpu-1"),
    ("failed pods do not end a Job", job(status={"failed": 7, "active": 1}),
     [pod("Running", container(running()))], Phase.RUNNING, "on gpu-1"),
    ("being evicted", job(), [pod("Running", container(running()), conditions=[disruption(9)], deleting=True)],
     Phase.RETRYING, "is being ended: EvictionByEvictionAPI"),
    ("being deleted by hand", job(), [pod("Running", container(running()), deleting=True)], Phase.RETRYING,
     "is being ended"),
    ("container ended, pod not yet", job(), [pod("Running", container(terminated(0)))], Phase.FINISHING,
     "training exited with 0"),
    ("another container goes on", job(),
     [pod("Running", container(terminated(1)), container(running(), name="logger"))], Phase.FINISHING,
     "training exited with 1; logger still runs and keeps the GPUs"),
    ("pod ended, Job not yet", job(), [succeeded_pod()], Phase.FINISHING, "succeeded"),
    ("back-off", job(status={"failed": 1}), [failed_pod(1)], Phase.RETRYING, "attempt 1 ended: pod"),
    ("failure decided", job(_TARGET), [failed_pod(1)], Phase.FINISHING, "specified backoff limit"),
    ("success decided", job(condition("SuccessCriteriaMet", message="Reached expected number of succeeded pods")),
     [succeeded_pod()], Phase.FINISHING, "Reached expected number"),
    ("Complete that is not true", job(condition("Complete", status="False")), [pod("Running", container(running()))],
     Phase.RUNNING, "on gpu-1"),
    ("being deleted", job(metadata=_DELETED), [pod("Running", container(running()), deleting=True)], Phase.STOPPING,
     "being deleted"),
    ("a gang is where its slowest rank is", job(spec={"completionMode": "Indexed", "completions": 2, "parallelism": 2}),
     [pod("Running", container(running()), name="a", index=0),
      pod("Pending", scheduled=None, name="b", index=1, conditions=[_UNSCHEDULABLE])],
     Phase.QUEUED, "2 pods; pod b: 0/1 nodes"),
]  # fmt: skip


@pytest.mark.case("C006")
@pytest.mark.case("C030")
@pytest.mark.case("C044")
@pytest.mark.parametrize(("document", "pods", "phase", "words"), [row[1:] for row in WAITS], ids=[r[0] for r in WAITS])
def test_what_has_not_ended_has_a_phase_and_a_reason(
    document: Document, pods: list[Document], phase: Phase, words: str
) -> None:
    wait = waits(document, pods)
    assert wait.phase is phase
    assert words in wait.detail


def test_a_pod_that_vanished_is_followed_by_the_next_attempt() -> None:
    """An evicted pod's object goes a second after its end, and the Job makes the next one after its back-off."""
    evicted = failed_pod(143, conditions=[disruption(9)])
    wait = waits(job(), gone_pods=[evicted])
    assert wait.phase is Phase.RETRYING
    assert "was taken away: EvictionByEvictionAPI" in wait.detail
