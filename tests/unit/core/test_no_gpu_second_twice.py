"""No GPU second twice: random schedules of failures and deaths, on a small Kubernetes and a small Airflow, drive the
pure core in the order in which trigger, operator and clean-up call it.

CI runs two hundred fixed schedules; `LINEAGE_SCHEDULES=5000` runs as many others.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.unit.core import specs
from tests.unit.core.lineage_airflow import Airflow, Process
from tests.unit.core.lineage_laws import Laws
from tests.unit.core.lineage_world import GRACE_S, Fate, World

from gpu_training.core.ledger import Ledger
from gpu_training.core.spec import TrainingSpec

pytestmark = pytest.mark.core

T = TypeVar("T")

_SCHEDULES = int(os.environ.get("LINEAGE_SCHEDULES", "200"))
_HORIZON_S = 200_000
_STEPS = 200_000


QUEUE_S = 120


@dataclass(frozen=True)
class Event:
    """Something that happens.

    :param gap: seconds after the event before it.
    :param which: of the task instances.
    """

    gap: float
    kind: str
    which: int = 0
    amount: int = 0
    flag: bool = False


@dataclass(frozen=True)
class Schedule:
    """:param deaths: steps before which processes die, one a process; -1 for one that lives.
    :param paces: seconds that a request takes, one a process.
    """

    attempts: int
    backoff_limit: int
    retries: int
    disruptions: int
    gpu_seconds: int | None
    deadline: int
    fates: tuple[Fate, ...]
    events: tuple[Event, ...]
    deaths: tuple[int, ...] = ()
    paces: tuple[float, ...] = ()
    fallback: bool = False

    @property
    def has_fallback(self) -> bool:
        return self.fallback and self.attempts > 1

    @property
    def spec(self) -> TrainingSpec:
        return specs.spec(
            deadline_seconds=self.deadline,
            clocks={"queue_seconds": QUEUE_S},
            backoff_limit=min(self.backoff_limit, self.attempts - 1),
            budget={
                "attempts": self.attempts,
                "disruptions": self.disruptions,
                **({} if self.gpu_seconds is None else {"gpu_seconds": self.gpu_seconds}),
            },
            spot_fallback={"node_selector": {"capacity": "on-demand"}} if self.has_fallback else None,
        )


class Story:
    """A schedule, played to its end."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        spec = schedule.spec
        self.world = World(_each(schedule.fates, Fate()))
        budget = spec.budget.resolve(
            backoff_limit=spec.backoff_limit, retries=schedule.retries, deadline_seconds=spec.deadline_seconds
        )
        self.laws = Laws(
            self.world,
            budget,
            queue_seconds=QUEUE_S,
            fallback=schedule.has_fallback,
            pace=max(schedule.paces, default=0.0),
        )
        deaths = _each(schedule.deaths, -1)
        self.airflow = Airflow(
            self.world,
            spec,
            budget,
            specs.identity(spec),
            schedule.retries,
            note=self.laws.written,
            dies_at=lambda: None if (step := deaths()) < 0 else step,
            pace=_each(schedule.paces, 0.05),
            cleaned=self.laws.run_is_cleaned_up,
        )
        self.laws.airflow = self.airflow
        self.world.on_pod = self.laws.pod_is_made
        wake = self.world.on_change

        def changed(job: Any) -> None:
            wake(job)
            self.laws.something_changed(job)

        self.world.on_change = changed

    def play(self) -> None:
        moment = self.world.now
        for event in self.schedule.events:
            moment += event.gap
            self.world.at(moment, lambda event=event: self._happens(event))  # type: ignore[misc]
        self.world.at(moment + 1, lambda: None)
        self._run_until(lambda: self.world.now > moment and self.airflow.quiet, moment + _HORIZON_S)
        self.laws.end(self._looked_at())

    def _run_until(self, over: Callable[[], bool], latest: float) -> None:
        for _ in range(_STEPS):
            if over():
                return
            assert self.world.step(), "nothing happens any more, and it is not over"
            assert self.world.now < latest, "it does not end"
        raise AssertionError("it goes round in circles")

    def _looked_at(self) -> Ledger:
        """Give the ledger after one more has looked, as the next run would."""
        if not self.airflow.tasks:
            return Ledger(model="", deployment="", fingerprint="")
        self.world.down_until = 0.0
        client = self.airflow.client(self.airflow.tasks[0])
        reader = Process(self.world, client.settle(), lambda _: None)
        self._run_until(lambda: not reader.alive, self.world.now + GRACE_S)
        assert client.ledger is not None
        return client.ledger

    def _happens(self, event: Event) -> None:
        airflow, tasks = self.airflow, self.airflow.tasks
        match event.kind:
            case "run":
                airflow.new_run(by_person=event.flag, retrain=event.amount == 1, priority=int(event.amount == 2))
            case "triggerer":
                airflow.kill_triggerer(event.amount)
            case "silence":
                self.world.down_until = max(self.world.down_until, self.world.now + event.amount)
            case "outsider":
                airflow.delete_job(background=event.flag)
            case _ if not tasks:
                return
            case "clear":
                airflow.clear(tasks[event.which % len(tasks)])
            case "worker":
                airflow.kill_worker(tasks[event.which % len(tasks)], zombie=event.flag)
            case "time out":
                airflow.time_out(tasks[event.which % len(tasks)])
            case state:
                airflow.mark(tasks[event.which % len(tasks)], state)


def _each(values: Sequence[T], last: T) -> Callable[[], T]:
    rest = chain(values, repeat(last))
    return lambda: next(rest)


seconds = st.sampled_from([1, 2, 5, 12, 30, 80, 200])
fates = st.builds(
    Fate,
    kind=st.sampled_from(
        ["succeed", "succeed", "exit", "exit", "oom", "xid", "evict", "node", "delete", "refuse", "hang"]
    ),
    after=seconds,
    code=st.sampled_from([1, 1, 1, 80, 82, 84, 139]),
    queue=st.sampled_from([1, 1, 3, 60]),
    takes=st.sampled_from([0, 1, 5, GRACE_S]),
    on_term=st.sampled_from([85, 143, 137, 0]),
)
quick = st.builds(
    Fate,
    kind=st.sampled_from(["exit", "exit", "exit", "xid", "evict", "refuse", "node"]),
    after=st.sampled_from([1, 5, 30]),
    takes=st.sampled_from([1, GRACE_S]),
    on_term=st.sampled_from([85, 0]),
)
gaps = st.sampled_from([0.0, 0.3, 1.1, 2.7, 6.4, 15.2, 40.9, 120.6, 400.0])
events = st.builds(
    Event,
    gap=gaps,
    kind=st.sampled_from(
        [
            *["run", "triggerer", "clear", "worker", "failed"] * 2,
            *["success", "removed", "time out", "outsider", "silence"],
        ]
    ),
    which=st.integers(0, 3),
    amount=st.sampled_from([0, 1, 2, 5, 20, 90, 300]),
    flag=st.booleans(),
)
limits = {
    "attempts": st.integers(1, 4),
    "backoff_limit": st.integers(0, 3),
    "retries": st.integers(0, 3),
    "disruptions": st.integers(0, 3),
    "gpu_seconds": st.sampled_from([None, 60, 200]),
    "deadline": st.sampled_from([100, 400, 900]),
    "fallback": st.booleans(),
}
rough = st.builds(
    Schedule,
    **limits,
    fates=st.lists(fates, max_size=8).map(tuple),
    events=st.lists(events, max_size=10).map(lambda rest: (Event(0.0, "run"), *rest)),
    deaths=st.lists(st.sampled_from([-1, -1, *range(12)]), max_size=8).map(tuple),
    paces=st.lists(st.sampled_from([0.05, 0.4, 1.3, 4.1]), max_size=8).map(tuple),
)
# Failure after failure, watched or not, and nobody dies beside.
steady = st.builds(
    Schedule,
    **limits,
    fates=st.lists(st.one_of(quick, fates), min_size=6, max_size=12).map(tuple),
    events=st.lists(
        st.builds(
            Event,
            gap=gaps,
            kind=st.sampled_from(["run", "triggerer", "clear", "failed"]),
            which=st.integers(0, 3),
            amount=st.sampled_from([0, 20, 90, 300]),
            flag=st.sampled_from([False, False, True]),
        ),
        max_size=5,
    ).map(lambda rest: (Event(0.0, "run"), *rest)),
    paces=st.lists(st.sampled_from([0.05, 0.4]), max_size=4).map(tuple),
)
schedules = st.one_of(rough, steady)


ELSEWHERE = Fate(kind="xid", after=80)
FAILS = Fate(kind="exit", after=5)
# The second Job has what the first one left, of attempts and of wall time.
SECOND_JOB = Schedule(3, 2, 2, 1, None, 400, (ELSEWHERE, FAILS, FAILS, FAILS, FAILS), (Event(0.0, "run"),))
UNWATCHED = Schedule(
    3,
    0,
    2,
    1,
    None,
    400,
    (Fate(kind="xid", after=200), Fate("hang")),
    (Event(0.0, "run"), Event(240.6, "triggerer", 0, 300)),
)


@settings(
    max_examples=_SCHEDULES,
    derandomize="LINEAGE_SCHEDULES" not in os.environ,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
@example(SECOND_JOB)
@example(UNWATCHED)
@given(schedules)
def test_whatever_fails_and_whoever_dies_no_gpu_second_is_spent_twice(schedule: Schedule) -> None:
    Story(schedule).play()
