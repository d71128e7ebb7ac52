"""Which clocks of a training run, since when, and what is left of them: by what Kubernetes wrote, whoever watches."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.core.damage import damaged
from tests.unit.core.kubernetes_documents import (
    Document,
    at,
    complete,
    condition,
    container,
    disruption,
    job,
    moment,
    pod,
    running,
    succeeded_pod,
    terminated,
    waiting,
)
from tests.unit.core.ledgers import attempt

from gpu_training.core.clock_readings import Reading, read_clocks, run_out, soonest
from gpu_training.core.clocks import Clock, Clocks
from gpu_training.core.decide import Policy, decide
from gpu_training.core.observation import Observation, observe
from gpu_training.core.phase import Phase, Wait
from gpu_training.core.verdict import Action
from gpu_training.rule_table import built_in_rules

pytestmark = pytest.mark.core

POLICY = Policy(rules=built_in_rules())
EACH = Clocks(queue_seconds=1000, startup_seconds=2000, run_seconds=3000, stall_seconds=4000, total_seconds=5000)
GANG = {"parallelism": 2, "completions": 2}
NOW = 300


def phase_of(seen: Observation) -> Phase:
    decision = decide(seen, POLICY, moment(NOW))
    assert isinstance(decision, Wait)
    return decision.phase


def read(document: Document, *pods: Document, progress: int | None = None, **more: Any) -> tuple[Reading, ...]:
    """Give the clocks at second 300."""
    seen = observe(document, pods)
    progress_at = None if progress is None else moment(progress)
    return read_clocks(seen, phase_of(seen), more.pop("clocks", EACH), moment(NOW), progress_at=progress_at, **more)


def since(readings: tuple[Reading, ...]) -> dict[str, int]:
    """Give clock -> second after the Job was made since which it runs."""
    return {str(reading.clock): int(reading.since - moment(0)) for reading in readings}


def queued(name: str = "a", created: int = 3) -> Document:
    return pod("Pending", name=name, created=created, scheduled=None)


def starting(name: str = "a", scheduled: int = 20, **more: Any) -> Document:
    return pod("Pending", container(waiting("ContainerCreating")), name=name, scheduled=scheduled, **more)


def runs(name: str = "a", scheduled: int = 20, started: int = 60, **more: Any) -> Document:
    return pod("Running", container(running(started)), name=name, scheduled=scheduled, **more)


def failed(name: str, finished: int) -> Document:
    return pod("Failed", container(terminated(1, started=5, finished=finished)), name=name, scheduled=4)


SUSPENDED = job(condition("Suspended", second=30), spec={"suspend": True}, status={"startTime": None})
GANG_JOB = job(spec=GANG)

ROWS: list[tuple[str, Document, list[Document], dict[str, int]]] = [
    ("no pod", job(), [], {"queue": 0}),
    ("not taken up", job(status={"startTime": None}), [], {"queue": 0}),
    ("suspended", SUSPENDED, [], {"queue": 30}),
    ("a pod without a node", job(), [queued()], {"queue": 3}),
    ("on a node", job(), [starting()], {"startup": 20}),
    ("on a node, and the kubelet has said nothing", job(), [pod("Pending", name="a", scheduled=20)], {"startup": 20}),
    (
        "its init container runs",
        job(),
        [
            pod(
                "Pending",
                container(waiting("PodInitializing")),
                init=[container(running(25), name="download")],
                name="a",
                scheduled=20,
            )
        ],
        {"startup": 20},
    ),
    ("it runs", job(), [runs()], {"run": 60, "stall": 60}),
    ("it runs, and is being ended", job(), [runs(deleting=True)], {"run": 60, "stall": 60}),
    ("it runs, and is told to go", job(), [runs(conditions=[disruption(200)])], {"run": 60, "stall": 60}),
    ("it is on a node, and is being ended", job(), [starting(deleting=True)], {}),
    ("it has ended, and its pod has not", job(), [pod("Running", container(terminated(0)), name="a")], {}),
    ("it succeeded, and does not say so yet", job(), [succeeded_pod(name="a")], {}),
    ("its back-off", job(), [failed("a", 295)], {}),
    ("its replacement is kept from coming", job(), [failed("a", 100)], {"queue": 115}),
    ("its replacement waits", job(), [failed("a", 100), queued("b", 110)], {"queue": 110}),
    ("its replacement runs", job(), [failed("a", 100), runs("b", 112, 130)], {"run": 130, "stall": 130}),
    # Of a gang, who has waited or run the longest.
    ("a gang without a node", GANG_JOB, [queued("a", 5), queued("b", 3)], {"queue": 3}),
    (
        "a gang that waits for one node",
        GANG_JOB,
        [runs("a", 20, 60), queued("b", 3)],
        {"queue": 3, "run": 60, "stall": 60},
    ),
    (
        "a gang of which one starts",
        GANG_JOB,
        [runs("a", 20, 60), starting("b", 30)],
        {"startup": 30, "run": 60, "stall": 60},
    ),
    ("a gang that starts", GANG_JOB, [starting("a", 40), starting("b", 30)], {"startup": 30}),
    ("a gang that runs", GANG_JOB, [runs("a", 20, 60), runs("b", 20, 50)], {"run": 50, "stall": 50}),
    # Its end is decided, or it is going: all that is left is the whole.
    ("it is failing", job(condition("FailureTarget")), [], {}),
    ("it is being deleted", job(metadata={"deletionTimestamp": at(200)}), [], {}),
]


@pytest.mark.parametrize(("document", "pods", "expected"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_what_a_training_does_decides_which_clocks_run_and_since_when(
    document: Document, pods: list[Document], expected: dict[str, int]
) -> None:
    readings = read(document, *pods)
    assert since(readings) == {**expected, "total": 0}
    for reading in readings:
        assert reading.elapsed == moment(NOW) - reading.since
        assert reading.limit == EACH.limit(reading.clock)
        assert reading.left == reading.limit - reading.elapsed


def test_an_attempt_on_a_node_whose_clock_is_behind_runs_since_it_got_the_node() -> None:
    assert since(read(job(), runs(scheduled=20, started=-600)))["run"] == 20


def test_a_new_watcher_reads_the_same_clocks() -> None:
    """Nothing counts from when somebody began to watch: the same documents give the same clocks."""
    first, second = (read(job(), runs(), progress=200) for _ in range(2))
    assert first == second
    assert since(first) == {"run": 60, "stall": 200, "total": 0}


def test_a_new_watcher_does_not_take_a_training_that_ran_for_one_that_never_had_a_node() -> None:
    """Its pod was reclaimed and is gone; the ledger knows it."""
    ran = attempt("gone", start=moment(2), end=moment(290), action=Action.WAIT)
    assert since(read(job(), attempts=[ran])) == {"total": 0}
    long_ago = attempt("gone", start=moment(2), end=moment(100), action=Action.WAIT)
    assert since(read(job(), attempts=[long_ago])) == {"queue": 115, "total": 0}
    assert since(read(job())) == {"queue": 0, "total": 0}


@pytest.mark.parametrize(
    ("progress", "began"), [(None, 60), (10, 60), (60, 60), (61, 61), (299, 299)], ids=lambda value: str(value)
)
def test_a_stall_counts_from_the_last_progress_of_this_attempt_or_its_start(progress: int | None, began: int) -> None:
    assert since(read(job(), runs(), progress=progress))["stall"] == began


def test_a_progress_from_a_clock_that_is_ahead_is_no_stall() -> None:
    stalled = next(each for each in read(job(), runs(), progress=900) if each.clock is Clock.STALL)
    assert (stalled.elapsed, stalled.left) == (0.0, 4000)


def test_without_a_limit_no_stall_is_looked_for_and_the_others_are_shown_without_an_end() -> None:
    readings = read(job(), runs(), clocks=Clocks())
    assert since(readings) == {"run": 60, "total": 0}
    assert [(reading.limit, reading.left) for reading in readings] == [(None, None), (None, None)]
    assert run_out(readings) is None
    assert soonest(readings) is None


@pytest.mark.parametrize("phase", list(Phase))
def test_of_a_job_that_nobody_has_seen_no_clock_runs(phase: Phase) -> None:
    assert read_clocks(Observation(job=None), phase, EACH, moment(NOW)) == ()


def test_of_a_training_that_has_ended_only_the_whole_is_told() -> None:
    seen = observe(complete(), [succeeded_pod(name="a")])
    assert since(read_clocks(seen, Phase.FINISHING, EACH, moment(NOW))) == {"total": 0}


# What has run out.


def reading(clock: Clock, elapsed: float, limit: int | None) -> Reading:
    return Reading(clock=clock, since=0.0, elapsed=elapsed, limit=limit)


@pytest.mark.parametrize(
    ("elapsed", "limit", "left", "out"),
    [
        (0.0, 10, 10.0, False),
        (9.5, 10, 0.5, False),
        (10.0, 10, 0.0, True),
        (99.0, 10, 0.0, True),
        (1e9, None, None, False),
    ],
)
def test_a_clock_has_run_out_when_nothing_is_left(
    elapsed: float, limit: int | None, left: float | None, out: bool
) -> None:
    one = reading(Clock.QUEUE, elapsed, limit)
    assert one.left == left
    assert (run_out((one,)) is one) is out


def test_the_first_of_the_clocks_that_ran_out_is_told_and_the_soonest_wakes_whoever_waits() -> None:
    going, over = reading(Clock.STARTUP, 1.0, 10), reading(Clock.RUN, 10.0, 10)
    total = reading(Clock.TOTAL, 20.0, 10)
    assert run_out((going, over, total)) is over
    assert run_out((going,)) is None
    assert soonest((going, reading(Clock.RUN, 6.0, 10), reading(Clock.TOTAL, 0.0, None))) == 4.0
    assert soonest(()) is None


@given(
    damaged(job(), SUSPENDED, GANG_JOB),
    st.lists(damaged(queued(), starting(), runs(), failed("a", 9)), max_size=3),
    st.sampled_from(Phase),
    st.none() | st.floats(min_value=0, max_value=4e9),
)
def test_whatever_the_documents_hold_no_clock_goes_backwards(
    document: Any, pods: list[Any], phase: Phase, progress_at: float | None
) -> None:
    readings = read_clocks(observe(document, pods), phase, EACH, moment(NOW), progress_at=progress_at)
    assert len({each.clock for each in readings}) == len(readings)
    for each in readings:
        assert each.elapsed >= 0
        assert each.left is not None
        assert each.left >= 0
