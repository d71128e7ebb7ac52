"""When a training waited for a node, from what Kubernetes wrote down: over the shapes that its documents take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.unit.core.damage import damaged
from tests.unit.core.kubernetes_documents import (
    JOB_NAME,
    JOB_UID,
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
)
from tests.unit.core.ledgers import ledger_job

from gpu_training.core.attempts import attempts_of
from gpu_training.core.bookkeeping import book
from gpu_training.core.ledger import LedgerJob
from gpu_training.core.observation import Observation, observe
from gpu_training.core.queue_time import Interval, merged, seconds_within, waited, waits_since
from gpu_training.rule_table import built_in_rules

pytestmark = pytest.mark.core

RULES = built_in_rules()
GANG = {"parallelism": 2, "completions": 2}
NEW = ledger_job(1, uid=JOB_UID, name=JOB_NAME, created_at=moment(0), seen_until=moment(0))


def began(second: int, *conditions: Document, **more: Any) -> Document:
    """Give a Job that began a while after it was made."""
    return job(*conditions, status={"startTime": at(second)}, **more)


def suspended(since: int | None, started: int | None = None, **spec: Any) -> Document:
    """Give a Job that is suspended.

    :param since: None when it is merely told to.
    """
    conditions = [] if since is None else [condition("Suspended", reason="JobSuspended", second=since)]
    status = {"startTime": at(started) if started is not None else None}
    return job(*conditions, spec={"suspend": True, **spec}, status=status)


def waiting(name: str = "a", created: int = 0, **more: Any) -> Document:
    return pod("Pending", name=name, created=created, scheduled=None, **more)


def runs(name: str = "a", created: int = 0, scheduled: int = 1, **more: Any) -> Document:
    return pod("Running", container(running(scheduled)), name=name, created=created, scheduled=scheduled, **more)


def ended(name: str, created: int, scheduled: int, finished: int) -> Document:
    """Give a pod whose training failed."""
    state = terminated(1, started=scheduled, finished=finished)
    return pod("Failed", container(state), name=name, created=created, scheduled=scheduled)


def seconds(intervals: Sequence[Interval]) -> list[tuple[int, int]]:
    """Give intervals in seconds after the Job was made."""
    return [(int(begin - moment(0)), int(end - moment(0))) for begin, end in intervals]


def waits_of(observation: Observation, now: int, before: LedgerJob = NEW) -> list[tuple[int, int]]:
    """Give when it waited, in seconds after it was made, as the ledger has it after a look."""
    attempts = attempts_of(observation, moment(now), RULES)
    after = book(before, observation, attempts, now=moment(now), watched_since=moment(0))
    return seconds(after.waited)


ROWS: list[tuple[str, Document, list[Document], list[tuple[int, int]], int | None]] = [
    # What it is, Job, pods; when it waited, and since when it waits, at second 300.
    ("just made, and nobody has taken it up", job(status={"startTime": None}), [], [(0, 300)], 0),
    ("taken up at once, and no pod may be made", began(0), [], [(0, 300)], 0),
    ("taken up late, and no pod may be made", began(40), [], [(0, 300)], 40),
    ("its first pod has no node", began(0), [waiting()], [(0, 300)], 0),
    ("its first pod came late, for a quota, and has no node", began(0), [waiting(created=200)], [(0, 300)], 200),
    ("its first pod came late, for a quota, and runs", began(0), [runs("a", 200, 220)], [(0, 220)], None),
    ("its first pod waited", began(0), [runs("a", 1, 90)], [(0, 90)], None),
    ("it never waited", began(0), [runs("a", 0, 0)], [], None),
    # The back-off after one end is 10 s, after two 20 s; a pod that comes within 5 s of that was not kept from coming.
    ("its replacement came in time", began(0), [ended("a", 0, 1, 50), runs("b", 60, 61)], [(0, 1), (60, 61)], None),
    ("its replacement waited", began(0), [ended("a", 0, 1, 50), runs("b", 60, 90)], [(0, 1), (60, 90)], None),
    (
        "its replacement was kept from coming, and runs",
        began(0),
        [ended("a", 0, 1, 50), runs("b", 200, 201)],
        [(0, 1), (65, 201)],
        None,
    ),
    ("its replacement is kept from coming", began(0), [ended("a", 0, 1, 50)], [(0, 1), (65, 300)], 65),
    ("its replacement is not due", began(0), [ended("a", 0, 1, 295)], [(0, 1)], None),
    (
        "the pause after two ends is longer",
        began(0),
        [ended("a", 0, 1, 50), ended("b", 60, 60, 70), runs("c", 90, 92)],
        [(0, 1), (90, 92)],
        None,
    ),
    (
        "the third one is kept from coming",
        began(0),
        [ended("a", 0, 1, 50), ended("b", 60, 60, 70)],
        [(0, 1), (95, 300)],
        95,
    ),
    ("it succeeded, and does not say so yet", began(0), [succeeded_pod(name="a", scheduled=1)], [(0, 1)], None),
    ("it is complete", complete(20), [succeeded_pod(name="a", scheduled=1)], [(0, 1)], None),
    ("it failed", failed(second=40), [ended("a", 0, 1, 11)], [(0, 1), (26, 40)], None),
    ("it failed before it had a pod", began(0, condition("Failed", second=100)), [], [(0, 100)], None),
    ("it failed, and nobody has seen its pods", failed(second=100), [], [], None),
    ("its pod is being ended on its node", began(0), [runs("a", 0, 9, deleting=True)], [(0, 9)], None),
    ("a pod was turned away by its node", began(0), [pod("Failed", name="a", scheduled=7)], [(0, 7), (22, 300)], 22),
    ("a pod ended without a node", began(0), [pod("Failed", name="a", scheduled=None)], [], None),
    # Queues.
    ("suspended since it was made", suspended(0), [], [(0, 300)], 0),
    ("suspended, and its controller has not said so", suspended(None), [], [(0, 300)], 0),
    ("suspended later, when its pod is gone", suspended(100), [], [(100, 300)], 100),
    ("told to be suspended, with a pod that holds its GPU", suspended(None, 0), [runs("a", 0, 9)], [(0, 9)], None),
    ("told to be suspended between two pods", suspended(None, 0), [ended("a", 0, 1, 290)], [(0, 1)], None),
    ("suspended, and its pod takes its grace period", suspended(100), [runs("a", 0, 9, deleting=True)], [(0, 9)], None),
    ("it was suspended first, and was let go", began(120), [runs("a", 120, 130)], [(0, 130)], None),
    (
        "let go, and not carried out yet",
        job(condition("Suspended", second=20), status={"startTime": None}),
        [],
        [(20, 300)],
        20,
    ),
    # Gangs: the first pod that has a node holds GPUs.
    ("a gang without a node", began(0, spec=GANG), [waiting("a"), waiting("b", 1)], [(0, 300)], 0),
    ("a gang of which one has a node", began(0, spec=GANG), [runs("a", 0, 50), waiting("b", 1)], [(0, 50)], 1),
    ("a gang that runs", began(0, spec=GANG), [runs("a", 0, 50), runs("b", 1, 90)], [(0, 50)], None),
    ("a gang without a pod", began(0, spec=GANG), [], [(0, 300)], 0),
    ("a gang that was suspended first", began(80, spec=GANG), [runs("a", 80, 90), runs("b", 80, 81)], [(0, 81)], None),
]


@pytest.mark.parametrize(
    ("document", "pods", "intervals", "since"), [row[1:] for row in ROWS], ids=[r[0] for r in ROWS]
)
def test_when_it_waited_and_since_when_it_waits(
    document: Document, pods: list[Document], intervals: list[tuple[int, int]], since: int | None
) -> None:
    seen = observe(document, pods)
    assert waits_of(seen, 300) == intervals
    attempts = attempts_of(seen, moment(300), RULES)
    assert waits_since(seen, moment(300), attempts) == (None if since is None else moment(since))


def test_nothing_is_told_of_a_job_that_nobody_has_seen() -> None:
    nothing = Observation(job=None)
    assert waits_since(nothing, moment(300)) is None
    assert waited((), nothing, (), moment(300)) == ()


@pytest.mark.parametrize(
    ("document", "pods"), [(began(0), []), (began(0), [waiting()]), (suspended(0), [])], ids=["no pod", "pod", "queue"]
)
def test_a_job_that_is_gone_waits_no_more(document: Document, pods: list[Document]) -> None:
    assert waits_since(observe(document, [], gone_pods=pods, gone=True), moment(300)) is None


def test_ends_that_nobody_can_see_any_more_leave_open_since_when_it_waits() -> None:
    """Its pods were cleared away: it did not wait since it began."""
    assert waits_since(observe(began(0), []), moment(300)) == moment(0)
    counted = job(status={"startTime": at(0), "failed": 1})
    assert waits_since(observe(counted, []), moment(300)) is None


# One look after the other: what is known stays, whoever looks.


def look(
    record: LedgerJob, second: int, document: Document, *pods: Document, gone: Sequence[Document] = ()
) -> LedgerJob:
    seen = observe(document, pods, gone_pods=gone)
    attempts = attempts_of(seen, moment(second), RULES)
    return book(record, seen, attempts, now=moment(second), watched_since=moment(0))


def test_preempted_and_requeued_it_waits_anew_and_what_ran_between_is_no_wait() -> None:
    record = look(NEW, 30, suspended(0))
    record = look(record, 60, began(40), waiting("a", 41))
    record = look(record, 70, began(40), runs("a", 41, 50))
    assert seconds(record.waited) == [(0, 50)]
    record = look(record, 110, suspended(100), runs("a", 41, 50, deleting=True))
    record = look(record, 150, suspended(100), gone=[ended("a", 41, 50, 125)])
    assert seconds(record.waited) == [(0, 50), (125, 150)]
    record = look(record, 260, began(240), runs("b", 241, 250))
    assert seconds(record.waited) == [(0, 50), (125, 250)]
    assert record.wall_seconds(moment(260)) == (125 - 50) + (260 - 250)


def test_who_comes_after_the_next_start_counts_the_wait_and_not_what_ran_before() -> None:
    """The startTime of a Job that goes on is a new one, and the pods from before leave no trace."""
    record = look(NEW, 60, began(0), runs("a", 0, 10))
    record = look(record, 400, began(300), runs("b", 301, 320))
    # Where it ended is not known: nobody saw it, so that it is charged up to the next one.
    [ran, _] = record.attempts
    assert ran.ended_at == moment(301)
    assert seconds(record.waited) == [(0, 10), (301, 320)]


def test_a_pod_that_vanished_while_nobody_watched_is_no_wait_since_the_beginning() -> None:
    """A new watcher sees a Job that began long ago and has no pod; the ledger knows who ran."""
    ran = look(NEW, 60, began(0), runs("a", 0, 10))
    seen = observe(began(0), [])
    later = look(ran, 200, began(0))
    assert seconds(later.waited) == [(0, 10)]
    assert waits_since(seen, moment(200), later.attempts) is None
    assert waits_since(seen, moment(300), later.attempts) == moment(215)
    assert seconds(look(later, 300, began(0)).waited) == [(0, 10), (215, 300)]
    replaced = look(later, 300, began(0), runs("b", 210, 260))
    assert seconds(replaced.waited) == [(0, 10), (210, 260)]


def test_what_was_known_to_wait_turns_out_to_have_run() -> None:
    """The news of its node came late."""
    record = look(NEW, 100, began(0), waiting("a"))
    assert seconds(record.waited) == [(0, 100)]
    assert seconds(look(record, 120, began(0), runs("a", 0, 40)).waited) == [(0, 40)]


def test_a_pod_that_vanished_without_a_node_has_waited_as_long_as_it_was_seen() -> None:
    record = look(NEW, 100, began(0), waiting("a"))
    record = look(record, 130, began(0), waiting("b", 120), gone=[waiting("a")])
    assert seconds(record.waited) == [(0, 100), (120, 130)]


def test_a_gang_that_was_preempted_waits_for_its_next_first_node() -> None:
    first = [runs("a", 0, 10), runs("b", 0, 30)]
    record = look(NEW, 60, began(0, spec=GANG), *first)
    record = look(record, 100, suspended(70, **GANG), gone=[ended("a", 0, 10, 80), ended("b", 0, 30, 75)])
    assert seconds(record.waited) == [(0, 10), (80, 100)]
    again = [runs("c", 200, 260), waiting("d", 200)]
    assert seconds(look(record, 300, began(200, spec=GANG), *again).waited) == [(0, 10), (80, 260)]


# Properties.


@dataclass(frozen=True)
class Life:
    """What one pod really did, in seconds after it was due: it came late, waited, ran."""

    late: int
    waits: int
    runs: int
    stays: bool


lives = st.lists(
    st.builds(Life, st.sampled_from([0, 0, 30, 90]), st.integers(0, 60), st.integers(1, 90), st.booleans()),
    min_size=1,
    max_size=4,
)


@dataclass(frozen=True)
class Truth:
    """What happened.

    :param queued: seconds for which the Job was suspended first.
    """

    queued: int
    pods: tuple[tuple[int, int, int, bool], ...]

    def seen_at(self, second: int) -> Observation:
        """Give what can be seen then."""
        documents: list[Document] = []
        for n, (created, bound, end, stays) in enumerate(self.pods):
            if created <= second < bound:
                documents.append(waiting(f"p{n}", created))
            elif bound <= second < end:
                documents.append(runs(f"p{n}", created, bound))
            elif second >= end and stays:
                documents.append(ended(f"p{n}", created, bound, end))
        document = suspended(0) if second < self.queued else began(self.queued)
        return observe(document, documents)

    def on_node_within(self, intervals: Sequence[Interval]) -> float:
        return sum(seconds_within(intervals, moment(bound), moment(end)) for _, bound, end, _ in self.pods)

    def waited_until(self, second: int) -> float:
        """Give the seconds of which the documents tell that they were waits."""
        total, due = min(second, self.queued), self.queued
        for n, (created, bound, end, _) in enumerate(self.pods):
            kept = max(0, min(second, created) - due)
            total += (kept if n == 0 else max(0, kept - 5)) + max(0, min(second, bound) - created)
            due = end + 10 * 2**n
        last = 0 if second < self.pods[-1][2] else max(0, second - due - 5)
        return total + last


@st.composite
def truths(draw: st.DrawFn) -> Truth:
    queued = draw(st.sampled_from([0, 20, 100]))
    pods, due = [], queued
    for n, life in enumerate(draw(lives)):
        created = due + life.late
        bound, end = created + life.waits, created + life.waits + life.runs
        pods.append((created, bound, end, life.stays))
        due = end + 10 * 2**n
    return Truth(queued, tuple(pods))


def booked(record: LedgerJob, truth: Truth, second: int) -> LedgerJob:
    seen = truth.seen_at(second)
    attempts = attempts_of(seen, moment(second), RULES)
    return book(record, seen, attempts, now=moment(second), watched_since=moment(0))


@settings(max_examples=150)
@given(truths(), st.lists(st.integers(0, 900), min_size=1, max_size=8))
def test_however_rarely_somebody_looks_waits_are_disjoint_within_its_life_only_grow_and_none_is_on_a_node(
    truth: Truth, looks: list[int]
) -> None:
    record = NEW
    for second in sorted(looks):
        before, record = record, booked(record, truth, second)
        assert all(begin < end for begin, end in record.waited)
        assert all(one[1] < other[0] for one, other in pairwise(record.waited))
        assert all(moment(0) <= begin and end <= moment(second) for begin, end in record.waited)
        assert all(seconds_within(record.waited, *each) == each[1] - each[0] for each in before.waited)
        unseen = [n for n, each in enumerate(truth.pods) if f"uid-of-p{n}" not in {a.uid for a in record.attempts}]
        known = replace(truth, pods=tuple(each for n, each in enumerate(truth.pods) if n not in unseen))
        assert known.on_node_within(record.waited) == 0
        assert booked(record, truth, second) == record


@settings(max_examples=60)
@given(truths().filter(lambda truth: all(each[3] for each in truth.pods)), st.integers(0, 900))
@example(Truth(100, ((190, 220, 250, True), (350, 380, 400, True))), 900)
def test_one_look_at_what_is_still_there_tells_every_wait_to_the_second(truth: Truth, second: int) -> None:
    record = booked(NEW, truth, second)
    assert sum(end - begin for begin, end in record.waited) == truth.waited_until(second)


@settings(max_examples=60)
@given(truths(), st.integers(0, 900))
def test_since_when_it_waits_is_the_begin_of_the_last_wait_that_goes_on(truth: Truth, second: int) -> None:
    record, now = booked(NEW, truth, second), moment(second)
    since = waits_since(truth.seen_at(second), now, record.attempts)
    open_wait = record.waited[-1] if record.waited and record.waited[-1][1] == now else None
    if since is not None and since < now:
        assert open_wait is not None
        assert open_wait[0] <= since
    bound_now = any(each[1] == second for each in truth.pods)
    assert open_wait is None or since is not None or bound_now or second == truth.queued


@given(
    damaged(began(0), suspended(5), failed(second=40)),
    st.lists(damaged(waiting(), runs(), ended("a", 0, 1, 50), failed_pod(1, conditions=[disruption(5)])), max_size=3),
)
def test_whatever_the_documents_hold_intervals_are_intervals(document: Any, pods: list[Any]) -> None:
    seen = observe(document, pods)
    attempts = attempts_of(seen, moment(100), RULES)
    found = waited((), seen, attempts, moment(100))
    assert all(begin < end for begin, end in found)
    assert all(one[1] < other[0] for one, other in pairwise(found))
    since = waits_since(seen, moment(100), attempts)
    assert since is None or isinstance(since, float)


# Intervals.


@pytest.mark.parametrize(
    ("given_", "found"),
    [
        ([], ()),
        ([(1.0, 1.0), (3.0, 2.0)], ()),
        ([(5.0, 6.0), (1.0, 2.0)], ((1.0, 2.0), (5.0, 6.0))),
        ([(1.0, 3.0), (2.0, 4.0), (4.0, 5.0)], ((1.0, 5.0),)),
        ([(1.0, 9.0), (2.0, 3.0)], ((1.0, 9.0),)),
    ],
)
def test_intervals_that_meet_become_one(given_: list[Interval], found: tuple[Interval, ...]) -> None:
    assert merged(given_) == found


@pytest.mark.parametrize(
    ("begin", "end", "expected"), [(0, 10, 4), (2, 10, 3), (0, 6, 3), (3, 5, 0), (2, 6, 2), (9, 1, 0)]
)
def test_the_time_within_intervals_is_counted(begin: float, end: float, expected: float) -> None:
    assert seconds_within(((1.0, 3.0), (5.0, 7.0)), begin, end) == expected
