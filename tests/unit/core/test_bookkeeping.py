"""What was seen once stands in the ledger; what nobody saw is charged at the latest possible end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.core.kubernetes_documents import (
    JOB_NAME,
    JOB_UID,
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
)
from tests.unit.core.ledgers import attempt, ledger_job, verdict

from gpu_training.core.attempts import Attempt, attempts_of, with_steps
from gpu_training.core.bookkeeping import book, close, final_verdict, take_away
from gpu_training.core.decide import Outcome, OutcomeKind
from gpu_training.core.ledger import Ending, LedgerJob
from gpu_training.core.observation import Observation, observe
from gpu_training.core.steps import Steps
from gpu_training.core.verdict import Action, Category, Verdict
from gpu_training.rule_table import built_in_rules

pytestmark = pytest.mark.core

RULES = built_in_rules()
NEW = ledger_job(1, uid=JOB_UID, name=JOB_NAME, created_at=moment(0), seen_until=moment(0))
GANG = {"parallelism": 2, "completions": 2}


def look(
    record: LedgerJob,
    second: float,
    job_document: Document | None,
    *pods: Document,
    gone_pods: Sequence[Document] = (),
    gone: bool = False,
    since: float = 0,
    findings: dict[str, str] | None = None,
) -> LedgerJob:
    """Give the record after somebody looked.

    :param second: after the Job was made.
    :param since: since when nothing escaped whoever looks.
    """
    now = moment(0) + second
    seen = observe(job_document, pods, gone_pods=gone_pods, gone=gone, findings=findings)
    return book(record, seen, attempts_of(seen, now, RULES), now=now, watched_since=moment(0) + since)


def runs(name: str = "a", created: int = 0, scheduled: int | None = 1, **more: Any) -> Document:
    return pod("Running", container(running()), name=name, created=created, scheduled=scheduled, **more)


def pends(name: str = "a", created: int = 0) -> Document:
    return pod("Pending", name=name, created=created, scheduled=None)


def only(record: LedgerJob) -> Attempt:
    [booked] = record.attempts
    return booked


# What was seen.


def test_an_attempt_is_booked_as_it_is_seen() -> None:
    after = look(NEW, 50, job(), runs())
    booked = only(after)
    assert (booked.uid, booked.started_at, booked.ended_at, booked.gpu_seconds) == ("uid-of-a", moment(1), None, 49.0)
    assert (after.seen_until, after.unseen_gpu_seconds) == (moment(50), 0.0)
    ended = only(look(after, 60, job(), failed_pod(1, name="a")))
    assert (ended.ended_at, ended.gpu_seconds, ended.estimated) == (moment(11), 10.0, False)
    assert ended.verdict is not None
    assert ended.verdict.category is Category.APPLICATION_ERROR


def test_an_attempt_whose_pod_is_gone_stays_as_it_ended() -> None:
    ended = look(NEW, 20, job(), failed_pod(1, name="a"))
    later = look(ended, 60, job(), runs("b", 30, 31))
    assert later.attempts[0] == only(ended)
    assert [booked.uid for booked in later.attempts] == ["uid-of-a", "uid-of-b"]


@pytest.mark.parametrize(
    "later",
    [
        runs(),
        succeeded_pod(name="a"),
        failed_pod(83, name="a", conditions=[disruption(5)]),
        pod("Failed", container(terminated(1, finished=40)), name="a"),
        pod("Unknown", name="a"),
    ],
    ids=["runs", "succeeded", "disrupted", "ended later", "unknown"],
)
def test_an_end_once_seen_is_not_taken_back(later: Document) -> None:
    ended = look(NEW, 20, job(), failed_pod(83, name="a"))
    assert with_steps(only(look(ended, 60, job(), later)), Steps()) == only(ended)


def test_what_no_rule_knew_may_be_explained_by_the_logs_last_lines_and_once_only() -> None:
    ended = look(NEW, 20, job(), failed_pod(1, name="a"))
    explained = look(ended, 22, job(), failed_pod(1, name="a"), findings={"a": "gpu-hardware"})
    said = only(explained).verdict
    assert said is not None
    assert said.category is Category.GPU_HARDWARE
    assert only(look(explained, 24, job(), failed_pod(1, name="a"))).verdict == said
    again = look(explained, 24, job(), failed_pod(1, name="a"), findings={"a": "cuda-out-of-memory"})
    assert only(again).verdict == said


def test_an_end_that_is_seen_at_last_takes_the_place_of_an_estimated_one() -> None:
    vanished = look(look(NEW, 30, job(), runs()), 40, job())
    assert only(vanished).estimated
    seen = only(look(vanished, 50, job(), failed_pod(1, name="a")))
    assert (seen.ended_at, seen.gpu_seconds, seen.estimated) == (moment(11), 10.0, False)


def test_a_job_that_succeeded_by_a_pod_whose_end_nobody_saw_has_no_disruption_more() -> None:
    """The result stood in the log of a pod that was deleted before anybody had read it."""
    reclaimed = look(NEW, 20, job(), failed_pod(85, name="a", conditions=[disruption(5)]))
    vanished = look(look(reclaimed, 40, job(), runs("b", 30, 31)), 50, job(complete(45)))
    assert vanished.disruptions == 2
    success = Outcome(kind=OutcomeKind.SUCCEEDED, attempts=())
    closed = close(vanished, success, now=moment(50), memory_cap="8Gi")
    assert [each.verdict is None for each in closed.attempts] == [False, True]
    assert closed.disruptions == 1
    seen = look(look(NEW, 20, job(), runs()), 30, job(complete(20)), succeeded_pod(name="a"))
    assert only(close(seen, success, now=moment(50), memory_cap="8Gi")).verdict is None


def test_what_was_heard_of_a_pod_that_is_gone_since_is_booked() -> None:
    """An earlier triggerer heard it, and the Job says so; the ledger did not, yet."""
    before = look(NEW, 20, job(), runs("a"))
    seen = replace(observe(job(), [runs("b", 30, 31)]), steps={"a": Steps(first=1, last=69, checkpoint=60)})
    after = book(before, seen, attempts_of(seen, moment(40), RULES), now=moment(40), watched_since=moment(35))
    lost = after.attempts[0]
    assert (lost.first_step, lost.last_step, lost.checkpoint_step) == (1, 69, 60)


@pytest.mark.parametrize(
    ("changes", "index", "speaks"),
    [({}, None, True), (GANG, None, False), (GANG, 0, True), (GANG, 1, False)],
    ids=["one pod", "side by side", "index 0", "index 1"],
)
def test_of_pods_that_work_side_by_side_the_first_index_speaks_for_all(
    changes: dict[str, int], index: int | None, speaks: bool
) -> None:
    annotations = {} if index is None else {"batch.kubernetes.io/job-completion-index": str(index)}
    document = runs("a")
    document["metadata"]["annotations"] = annotations
    seen = replace(observe(job(spec=changes), [document]), steps={"a": Steps(first=1, last=5)})
    (found,) = attempts_of(seen, moment(40), RULES)
    assert (found.last_step == 5) is speaks


# What vanished.


@pytest.mark.parametrize(
    ("job_document", "pods", "ended", "gpu_seconds"),
    [
        (job(), [], 100, 99),
        # The replacement is made when its predecessor has ended.
        (job(), [runs("b", 60, 70)], 60, 59),
        (job(), [pends("b", 60)], 60, 59),
        (job(), [runs("b", 60, 70), pends("c", 90)], 60, 59),
        (failed(second=40), [], 40, 39),
        (complete(second=80), [runs("b", 60, 70)], 60, 59),
        # Of a gang the others are no replacement.
        (job(spec=GANG), [runs("b", 60, 70)], 100, 99),
    ],
    ids=["to now", "replaced", "replacement waits", "the first replacement", "Job failed", "Job complete", "gang"],
)
def test_a_pod_that_vanished_is_charged_to_the_latest_moment_at_which_it_can_have_ended(
    job_document: Document, pods: list[Document], ended: int, gpu_seconds: float
) -> None:
    before = look(NEW, 20, job_document, runs())
    booked = look(before, 100, job_document, *pods).attempts[0]
    assert (booked.uid, booked.ended_at) == ("uid-of-a", moment(ended))
    assert (booked.gpu_seconds, booked.estimated) == (gpu_seconds, True)
    assert booked.verdict is not None
    assert (booked.verdict.category, booked.verdict.action) == (Category.DISRUPTED, Action.WAIT)


def test_a_pod_that_vanished_before_it_had_a_node_used_nothing() -> None:
    """Nor did it end before it was there, when an earlier pod can still be seen."""
    before = look(NEW, 20, job(), failed_pod(1, name="a"), pends("b", 15))
    booked = look(before, 30, job(), failed_pod(1, name="a")).attempts[1]
    assert (booked.ended_at, booked.gpu_seconds, booked.estimated) == (moment(30), 0.0, False)


@pytest.mark.case("C027")
def test_a_pod_that_vanishes_is_no_failure_of_the_training() -> None:
    after = look(look(NEW, 20, job(), runs()), 100, job())
    assert (after.failures, after.disruptions) == (0, 1)


# What nobody saw.

_SUSPENDED = job(
    condition("Suspended", reason="JobSuspended", second=60), spec={"suspend": True}, status={"startTime": None}
)

UNSEEN: list[tuple[str, Document | None, list[Document], float]] = [
    ("nothing is there: all of it", job(), [], 100),
    ("a pod since the beginning covers all", job(), [runs()], 0),
    # That its pod waited for a node is known; whether one ran before it is not.
    ("from a pod's making on", job(), [runs("b", 40, 90)], 40),
    ("a pod that waits was made late", job(), [pends("b", 40)], 40),
    ("a pod that waits since the beginning", job(), [pends("b", 0)], 0),
    ("between a failed one and the next", job(), [failed_pod(1, name="a"), runs("b", 61, 62)], 50),
    ("after the last one's end", job(), [failed_pod(1, name="a")], 89),
    ("up to the Job's end", failed(second=31), [failed_pod(1, name="a")], 20),
    ("the Job never began", job(status={"startTime": None}), [], 0),
    ("the Job began late", job(status={"startTime": "2026-11-30T19:24:30Z"}), [], 70),
    # A suspended Job's startTime is cleared, and its pods leave no trace.
    ("up to its suspension", _SUSPENDED, [], 60),
    ("suspended since it was made", job(condition("Suspended", second=1), status={"startTime": None}), [], 0),
]


@pytest.mark.parametrize(("document", "pods", "seconds"), [row[1:] for row in UNSEEN], ids=[row[0] for row in UNSEEN])
def test_time_that_nobody_watched_is_charged_in_full(document: Document, pods: list[Document], seconds: float) -> None:
    after = look(replace(NEW, gpus=2), 100, document, *pods, since=100)
    assert after.unseen_gpu_seconds == 2 * seconds


def test_a_job_that_is_gone_and_was_never_watched_is_charged_to_the_moment_of_its_absence() -> None:
    gone = {"metadata": {"uid": JOB_UID, "name": JOB_NAME}}
    after = take_away(look(NEW, 100, gone, gone=True, since=100), Ending.LOST, now=moment(100))
    assert (after.gpu_seconds, after.ending) == (100.0, Ending.LOST)


def test_a_pod_that_waited_when_it_was_seen_last_may_have_run_since() -> None:
    before = look(NEW, 10, job(), pends("a"))
    after = look(before, 100, job(), runs("b", 81, 82), since=100)
    assert after.unseen_gpu_seconds == 71.0
    assert after.attempts[-1].gpu_seconds == 0.0


def test_what_was_watched_is_not_charged_again() -> None:
    watched = look(NEW, 100, job(), since=0)
    assert watched.unseen_gpu_seconds == 0.0
    taken_over = look(watched, 160, job(), since=150)
    assert taken_over.unseen_gpu_seconds == 50.0
    assert look(taken_over, 160, job(), since=150) == taken_over
    assert look(taken_over, 170, job(), since=150).unseen_gpu_seconds == 50.0


def test_seconds_by_which_kubernetes_rounds_are_no_gap() -> None:
    assert look(NEW, 50, job(), runs("a", 1, 1), since=50).unseen_gpu_seconds == 0.0


@dataclass(frozen=True)
class Life:
    """What one pod really did, in seconds: it waits, runs, and is replaced after a while.

    :param stays: whether its object stays after its end; one that was taken away vanishes.
    """

    waits: int
    runs: int
    stays: bool
    pause: int


lives = st.lists(
    st.builds(Life, st.integers(0, 30), st.integers(1, 60), st.booleans(), st.integers(0, 40)), min_size=1, max_size=5
)


def pods_at(second: int, truth: Sequence[Life]) -> tuple[list[Document], int]:
    """Give the pods that are there at a moment, and the GPU-seconds that all pods have used so far."""
    documents, used, created = [], 0, 0
    for n, life in enumerate(truth):
        bound, end = created + life.waits, created + life.waits + life.runs
        used += max(0, min(second, end) - bound)
        made: dict[str, Any] = {"name": f"p{n}", "created": created, "scheduled": bound if second >= bound else None}
        if created <= second < bound:
            documents.append(pod("Pending", **made))
        elif bound <= second < end:
            documents.append(pod("Running", container(running(bound)), **made))
        elif second >= end and life.stays:
            documents.append(pod("Failed", container(terminated(1, started=bound, finished=end)), **made))
        created = end + life.pause
    return documents, used


@settings(max_examples=100)
@given(lives, st.lists(st.integers(0, 500), min_size=1, max_size=6))
def test_however_rarely_somebody_looks_nothing_is_charged_too_little_and_no_second_twice(
    truth: list[Life], looks: list[int]
) -> None:
    record = NEW
    for second in sorted(looks):
        pods, used = pods_at(second, truth)
        before = record
        record = look(before, second, job(), *pods, since=second)
        # Less than two seconds may escape each look: Kubernetes writes whole ones.
        assert used - 2 * len(looks) <= record.gpu_seconds <= second
        assert look(record, second, job(), *pods, since=second) == record
        kept = {booked.uid: booked for booked in record.attempts}
        for booked in before.attempts:
            assert booked.uid in kept
            if booked.ended_at is not None:
                assert kept[booked.uid] == booked
        assert record.unseen_gpu_seconds >= before.unseen_gpu_seconds
        assert record.seen_until >= before.seen_until


@settings(max_examples=10)
@given(lives)
def test_who_watches_all_the_time_charges_exactly_what_was_used(truth: list[Life]) -> None:
    record, vanished = NEW, sum(not life.stays for life in truth)
    for second in range(300):
        pods, used = pods_at(second, truth)
        record = look(record, second, job(), *pods, since=0)
        assert used <= record.gpu_seconds <= used + vanished


# How a Job ends.


def outcome(kind: OutcomeKind, said: Verdict | None = None) -> Outcome:
    return Outcome(kind=kind, attempts=(), verdict=said)


@pytest.mark.parametrize(
    ("kind", "attempts", "ended"),
    [
        (OutcomeKind.FAILED, (attempt("a", end=20.0), attempt("b", end=60.0)), 60.0),
        (OutcomeKind.SUCCEEDED, (attempt("a", end=20.0),), 20.0),
        (OutcomeKind.FAILED, (), 100.0),
        (OutcomeKind.FAILED, (attempt("a", end=500.0),), 100.0),
        (OutcomeKind.LOST, (attempt("a", end=20.0),), 100.0),
    ],
)
def test_a_job_has_ended_when_its_last_attempt_had(
    kind: OutcomeKind, attempts: tuple[Attempt, ...], ended: float
) -> None:
    said = None if kind is OutcomeKind.SUCCEEDED else verdict()
    closed = close(ledger_job(1, attempts=attempts), outcome(kind, said), now=100.0, memory_cap="8Gi")
    assert (closed.ended_at, closed.ending, closed.verdict) == (ended, Ending(kind.value), said)


@pytest.mark.parametrize("kind", list(OutcomeKind))
def test_what_still_ran_when_its_job_ended_is_charged_to_then(kind: OutcomeKind) -> None:
    record = ledger_job(1, attempts=(attempt("a", end=None, gpus=2), attempt("b", start=None, end=None)))
    said = None if kind is OutcomeKind.SUCCEEDED else verdict()
    one, other = close(record, outcome(kind, said), now=100.0, memory_cap="8Gi").attempts
    assert (one.ended_at, one.gpu_seconds, one.estimated) == (100.0, 180.0, True)
    assert (other.ended_at, other.gpu_seconds, other.estimated) == (100.0, 0.0, False)


def test_an_attempt_of_a_job_that_succeeded_did_not_fail_because_its_end_came_late() -> None:
    record = ledger_job(1, attempts=(attempt("a", end=None),))
    closed = close(record, outcome(OutcomeKind.SUCCEEDED), now=100.0, memory_cap="8Gi")
    assert only(closed).verdict is None
    assert closed.failures == 0


def test_an_end_is_written_once() -> None:
    closed = close(ledger_job(1), outcome(OutcomeKind.FAILED, verdict()), now=100.0, memory_cap="8Gi")
    assert close(closed, outcome(OutcomeKind.SUCCEEDED), now=200.0, memory_cap="8Gi") == closed
    assert take_away(closed, Ending.DELETED, now=200.0) == closed


@pytest.mark.parametrize("ending", [Ending.DELETED, Ending.LOST, Ending.REPLACED])
def test_a_job_that_was_taken_away_spends_no_attempt(ending: Ending) -> None:
    taken = take_away(ledger_job(1, attempts=(attempt("a", end=None),)), ending, now=100.0)
    assert (taken.ending, taken.ended_at, taken.verdict) == (ending, 100.0, None)
    assert (taken.gpu_seconds, taken.failures) == (90.0, 0)


GAVE_UP = replace(verdict(Action.RETRY, Category.STALLED), summary="it reported no progress within 60 s")


def test_what_ran_when_its_job_was_given_up_has_ended_for_that_reason() -> None:
    attempts = (
        attempt("ended", end=20.0, action=Action.RETRY),
        attempt("ran", end=None),
        attempt("queued", start=None, end=None),
    )
    taken = take_away(ledger_job(1, attempts=attempts), Ending.DELETED, now=100.0, because=GAVE_UP)
    ended, ran, queued = taken.attempts
    assert ended == attempts[0]
    assert (ran.verdict, ran.ended_at, ran.gpu_seconds, ran.estimated) == (GAVE_UP, 100.0, 90.0, True)
    # One that was on no node has not taken too long for anything.
    assert queued.verdict is not None
    assert (queued.verdict.category, queued.gpu_seconds) == (Category.KILLED, 0.0)
    # The reason is the attempt's: another Job of the lineage may follow.
    assert (taken.ending, taken.verdict) == (Ending.DELETED, None)


@pytest.mark.parametrize(
    ("because", "failures"),
    [
        (None, 0),
        (GAVE_UP, 1),
        (verdict(Action.RETRY, Category.STARTUP_TIMEOUT), 1),
        (verdict(Action.FAIL, Category.RUN_TIMEOUT), 1),
    ],
)
def test_an_attempt_that_took_too_long_is_spent_and_one_that_nobody_wants_any_more_is_not(
    because: Verdict | None, failures: int
) -> None:
    record = ledger_job(1, attempts=(attempt("ran", end=None),))
    taken = take_away(record, Ending.DELETED, now=100.0, because=because)
    assert (taken.failures, taken.disruptions, taken.gpu_seconds) == (failures, 0, 90.0)


def test_of_a_gang_one_attempt_is_spent_by_what_took_too_long() -> None:
    ranks = tuple(attempt(f"r{n}", start=10.0 + n, end=None) for n in range(8))
    taken = take_away(ledger_job(1, attempts=ranks), Ending.DELETED, now=100.0, because=GAVE_UP)
    assert taken.failures == 1
    assert taken.attempts[0].verdict == GAVE_UP


def test_time_that_nobody_watched_is_charged_and_is_no_wait() -> None:
    record = look(look(NEW, 100, job(), since=0), 200, job(), since=180)
    assert record.unseen_gpu_seconds == 80.0
    assert record.wall_seconds(moment(200)) == 80.0


def test_a_reason_changes_nothing_in_a_job_that_had_ended() -> None:
    closed = close(ledger_job(1), outcome(OutcomeKind.FAILED, verdict()), now=50.0, memory_cap="8Gi")
    assert take_away(closed, Ending.DELETED, now=100.0, because=GAVE_UP) == closed


# The queue.


def test_the_queue_is_no_wall_time_and_stays_known_when_the_job_is_closed() -> None:
    record = look(NEW, 100, job(), pends("a", 0))
    record = look(record, 160, job(), runs("a", 0, 120))
    assert record.waited == ((moment(0), moment(120)),)
    assert record.wall_seconds(moment(160)) == 40.0
    closed = close(record, outcome(OutcomeKind.FAILED, verdict()), now=moment(180), memory_cap="8Gi")
    assert (closed.waited, closed.wall_seconds(moment(999))) == (record.waited, 60.0)
    taken = take_away(record, Ending.DELETED, now=moment(180), because=GAVE_UP)
    assert (taken.waited, taken.wall_seconds(moment(999))) == (record.waited, 60.0)


def test_a_job_that_only_waited_has_spent_no_wall_time_when_it_is_taken_away() -> None:
    record = take_away(look(NEW, 500, job(), pends("a", 3)), Ending.DELETED, now=moment(500), because=GAVE_UP)
    assert (record.wall_seconds(moment(999)), record.gpu_seconds, record.failures) == (0.0, 0.0, 0)


@pytest.mark.parametrize(
    ("memory", "cap", "action"),
    [
        ("2Gi", "8Gi", Action.RETRY_LARGER),
        ("8Gi", "8Gi", Action.FAIL),
        ("8192Mi", "8Gi", Action.FAIL),
        ("9Gi", "8Gi", Action.FAIL),
        ("nonsense", "8Gi", Action.FAIL),
    ],
)
def test_out_of_the_most_memory_is_final(memory: str, cap: str, action: Action) -> None:
    said = verdict(Action.RETRY_LARGER)
    final = final_verdict(said, ledger_job(1, memory=memory), cap)
    assert final is not None
    assert final.action is action
    assert (final == said) == (action is Action.RETRY_LARGER)
    assert action is not Action.FAIL or f"{memory} is the most that training.memory_growth allows" in final.summary


def test_other_verdicts_stand_whatever_the_memory_is() -> None:
    assert final_verdict(None, ledger_job(1), "2Gi") is None
    assert final_verdict(verdict(), ledger_job(1), "2Gi") == verdict()


def test_nothing_seen_at_all_is_booked_as_nothing() -> None:
    empty = Observation(job=None, pods=())
    assert book(NEW, empty, (), now=moment(0), watched_since=moment(0)) == NEW
