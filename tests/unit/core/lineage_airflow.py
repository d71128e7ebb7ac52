"""A small Airflow: task instances of several runs that ask for one training, their workers, triggers and clean-ups, and
what people and platforms do to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tests.unit.core.lineage_actors import Change, Client, Ended, Failed, Steps, Unavailable, Watch, waiters_on
from tests.unit.core.lineage_world import Job, World

from gpu_training.core.budget import Budget
from gpu_training.core.consequence import Request
from gpu_training.core.decide import OutcomeKind
from gpu_training.core.ledger import Ledger, LedgerJob, Trained
from gpu_training.core.naming import Identity, TaskTry
from gpu_training.core.spec import TrainingSpec

HEARTBEAT_S: Final = 10
"""After which the scheduler takes a worker for dead."""
_KILL_S: Final = 5
_CLEAN_UP_TRIES: Final = 3
ENDED: Final = ("success", "failed", "removed")


class Process:
    """Steps taken one after another, until they end or the process dies.

    :param done: told what the steps gave, or raised.
    :param dies_at: step before which it dies; None for no such.
    :param died: told when it does.
    """

    def __init__(
        self,
        world: World,
        steps: Steps[Any],
        done: Callable[[Any], None],
        *,
        dies_at: int | None = None,
        died: Callable[[], None] = lambda: None,
    ) -> None:
        self.alive, self.stopped = True, False
        self._world, self._steps, self._done, self._dies_at, self._died = world, steps, done, dies_at, died
        self._taken = self._turn = 0
        self._waits = self._watches = self._news = False
        self._wake_after(0.0)

    def wake(self) -> None:
        """Something of a Job has changed."""
        self._news = True
        if self._waits:
            self._waits = False
            self._wake_after(0.05)

    def kill(self) -> None:
        if self.alive:
            self.alive = False
            self._steps.close()

    def _wake_after(self, seconds: float) -> None:
        self._turn += 1
        turn = self._turn
        self._world.after(seconds, lambda: self._go_on(turn))

    def _go_on(self, turn: int) -> None:
        if not self.alive or turn != self._turn:
            return
        self._waits = False
        if self._taken == self._dies_at:
            self.kill()
            self._died()
            return
        self._taken += 1
        waited, self._watches = self._watches, False
        self._news = self._news and not waited
        try:
            wait = next(self._steps)
        except StopIteration as end:
            self.alive = False
            self._done(end.value)
        except (Failed, Unavailable) as error:
            self.alive = False
            self._done(error)
        else:
            self._wait(wait)

    def _wait(self, wait: float | Change) -> None:
        if not isinstance(wait, Change):
            self._wake_after(wait)
            return
        self._watches = True
        if self._news:
            self._wake_after(0.05)
            return
        if wait.timeout is not None:
            self._wake_after(wait.timeout)
        else:
            self._turn += 1
        self._waits = True


@dataclass
class Task:
    """A task instance, the only one of its run that trains.

    :ivar token: of the process whose report counts.
    :ivar clears: by a person, after it was green.
    """

    n: int
    by_person: bool
    retrain: bool
    priority: int
    retries: int
    max_tries: int
    state: str = "scheduled"
    try_number: int = 0
    token: int = 0
    worker: Process | None = None
    trigger: Process | None = None
    watch: Watch | None = None
    held: LedgerJob | None = None
    teardown: Process | None = None
    clears: int = 0
    ended_by_itself: bool = False

    @property
    def waiter(self) -> TaskTry:
        return TaskTry(dag_id="d", run_id=f"r{self.n}", task_id="train", map_index=-1, try_number=self.try_number)


@dataclass
class Airflow:
    """:ivar dies_at: gives the step before which the next process dies.
    :ivar pace: gives the seconds that a request of the next process takes.
    """

    world: World
    spec: TrainingSpec
    budget: Budget
    identity: Identity
    retries: int
    note: Callable[[Ledger, Ledger], None]
    dies_at: Callable[[], int | None]
    pace: Callable[[], float]
    cleaned: Callable[[Task], None] = lambda _: None
    tasks: list[Task] = field(default_factory=list)
    processes: list[Process] = field(default_factory=list)
    triggerer_down_until: float = 0.0
    deaths: int = 0
    early_clears: int = 0

    def __post_init__(self) -> None:
        self.world.on_change = self._wake

    def _wake(self, _: Job) -> None:
        for process in self.processes:
            process.wake()

    # What people and platforms do.

    def new_run(self, *, by_person: bool, retrain: bool, priority: int) -> None:
        task = Task(len(self.tasks), by_person, retrain, priority, self.retries, self.retries)
        self.tasks.append(task)
        self._schedule(task, 0.5)

    def clear(self, task: Task) -> None:
        if task.state == "removed" or not task.try_number:
            return
        if task.teardown is not None:
            task.teardown.kill()
        task.token += 1
        if task.state == "running":
            worker = task.worker
            self.world.after(_KILL_S / 2, lambda: worker.kill() if worker else None)
            self._schedule(task, _KILL_S)
            return
        task.clears += task.state == "success"
        self.early_clears += task.state != "success"
        task.max_tries = task.try_number + task.retries
        self._end_trigger(task)
        self._schedule(task, 1.0)

    def mark(self, task: Task, state: str) -> None:
        """Mark failed or success, or delete the run."""
        if task.state in ENDED:
            return
        before, task.state, task.ended_by_itself = task.state, state, False
        task.token += 1
        if before == "running" and task.worker is not None and task.worker.alive:
            self._kill_worker_softly(task, task.worker)
        if before == "deferred":
            self._end_trigger(task)
        if state != "removed":
            self._clean_up_later(task)

    def kill_worker(self, task: Task, *, zombie: bool) -> None:
        """Have a worker die; or only seem so, and work on."""
        if task.state != "running" or task.worker is None or not task.worker.alive:
            return
        if zombie:
            task.token += 1
        else:
            task.worker.kill()
        self.deaths += 1
        self._report_later(task)

    def kill_triggerer(self, seconds: float) -> None:
        """Have all triggers die, and begin anew a while later."""
        self.triggerer_down_until = max(self.triggerer_down_until, self.world.now + seconds)
        for task in self.tasks:
            if task.trigger is not None:
                task.trigger.kill()
                task.trigger = None
                self._watch_later(task)

    def time_out(self, task: Task) -> None:
        """Have the task's own time be over while it is deferred: it leaves its Job, and tries again if it may."""
        if task.state != "deferred":
            return
        if task.trigger is not None:
            task.trigger.kill()
            task.trigger = None
        self._run_worker(task, self._leave_and_fail(task))

    def delete_job(self, *, background: bool) -> None:
        """Have somebody else delete the Job that lives."""
        for job in self.world.jobs:
            if job.live:
                job.by_outsider = True
                self.world.delete(job, background=background)

    @property
    def quiet(self) -> bool:
        """Whether nothing goes on any more."""
        return (
            all(task.state in ENDED for task in self.tasks)
            and not any(process.alive for process in self.processes)
            and not any(pod.holds for pod in self.world.pods())
            and not any(job.live for job in self.world.jobs)
        )

    def watched_since(self, job: Job) -> float | None:
        """Give since when a trigger has watched a Job without a pause; None while none does."""
        begun = [
            task.watch.begun
            for task in self.tasks
            if task.watch is not None and task.trigger is not None and task.trigger.alive and task.watch.job is job
        ]
        return max(min(begun), self.world.down_until + _KILL_S + 1) if begun else None

    def is_alive(self, waiter: TaskTry) -> bool:
        return self.tasks[int(waiter.run_id[1:])].state not in ENDED

    # Processes.

    def client(self, task: Task) -> Client:
        identity = replace(self.identity, owner=task.waiter)
        return Client(self.world, self.spec, self.budget, identity, self.pace(), alive=self.is_alive, note=self.note)

    def _start(
        self, steps: Steps[Any], done: Callable[[Any], None], died: Callable[[], None] = lambda: None
    ) -> Process:
        def dead() -> None:
            self.deaths += 1
            died()

        process = Process(self.world, steps, done, dies_at=self.dies_at(), died=dead)
        self.processes = [*(process for process in self.processes if process.alive), process]
        return process

    def _schedule(self, task: Task, seconds: float) -> None:
        task.state = "scheduled"
        task.token += 1
        token = task.token

        def begin() -> None:
            if task.token == token and task.state == "scheduled":
                task.try_number += 1
                self._run_worker(task, self._execute(task))

        self.world.after(seconds, begin)

    def _run_worker(self, task: Task, steps: Steps[Any]) -> None:
        task.state = "running"
        task.token += 1
        token = task.token
        task.worker = self._start(
            steps,
            lambda result: self._report(task, result) if task.token == token else None,
            lambda: self._report_later(task) if task.token == token else None,
        )

    def _report_later(self, task: Task) -> None:
        token = task.token
        failed = Failed(final=False)
        self.world.after(HEARTBEAT_S, lambda: self._report(task, failed) if task.token == token else None)

    def _report(self, task: Task, result: Any) -> None:
        if isinstance(result, LedgerJob):
            task.state, task.held = "deferred", result
            self._watch_later(task)
        elif not isinstance(result, Exception):
            self._end(task, "success")
        elif task.try_number <= task.max_tries and not (isinstance(result, Failed) and result.final):
            self._schedule(task, 3.0)
        else:
            self._end(task, "failed")

    def _end(self, task: Task, state: str) -> None:
        task.state, task.ended_by_itself = state, True
        self._clean_up_later(task)

    def _execute(self, task: Task) -> Steps[LedgerJob | bool]:
        client = self.client(task)
        waiter, last = task.waiter, task.try_number > task.max_tries
        request = Request(
            task=waiter,
            max_tries=task.max_tries,
            by_person=task.by_person,
            retrain=task.retrain,
            budget=self.budget,
            has_fallback=self.spec.spot_fallback is not None,
        )
        own = task.worker
        try:
            held = yield from client.hold(request, task.priority)
        except (Failed, Unavailable) as error:
            if not (own and own.stopped) and (last or (isinstance(error, Failed) and error.final)):
                yield from _quietly(client.depart_from_all(waiter))
            raise
        if isinstance(held, Trained):
            return True
        if own and own.stopped:
            yield from _quietly(client.depart_from_all(waiter))
            raise Failed(final=False)
        return held

    def _resume(self, task: Task, ended: Ended) -> Steps[LedgerJob | bool]:
        yield 0.3
        if ended.replaced:
            return (yield from self._execute(task))
        if ended.kind is OutcomeKind.SUCCEEDED:
            yield from _quietly(self.client(task).deliver(task.waiter))
            return True
        raise Failed(final=ended.final)

    def _leave_and_fail(self, task: Task) -> Steps[None]:
        yield from _quietly(self.client(task).depart_from_all(task.waiter))
        raise Failed(final=False)

    def _watch_later(self, task: Task) -> None:
        token = task.token

        def begin() -> None:
            if task.token != token or task.held is None or task.trigger is not None:
                return
            if self.world.now < self.triggerer_down_until:
                self.world.at(self.triggerer_down_until, begin)
                return
            job = next(job for job in self.world.jobs if job.uid == (task.held.uid if task.held else ""))
            task.watch = Watch(self.client(task), job, task.held.number)
            task.trigger = self._start_trigger(task, task.watch, token)

        self.world.after(0.4, begin)

    def _start_trigger(self, task: Task, watch: Watch, token: int) -> Process:
        def done(ended: Any) -> None:
            task.trigger = None
            if task.token == token:
                assert isinstance(ended, Ended)
                self._run_worker(task, self._resume(task, ended))

        def died() -> None:
            task.trigger = None
            self._watch_later(task)

        return self._start(watch.run(), done, died)

    def _end_trigger(self, task: Task) -> None:
        """Have the trigger's on_kill called, if there is a triggerer to do so."""
        watch, task.watch = task.watch, None
        if task.trigger is None or watch is None:
            return
        task.trigger.kill()
        task.trigger = None
        waiter, job = task.waiter, watch.job

        def on_kill() -> Steps[None]:
            yield 0.6
            if task.state in ENDED:
                yield from _quietly(self.client(task).depart(job, waiter))

        self._start(on_kill(), lambda _: None)

    def _kill_worker_softly(self, task: Task, worker: Process) -> None:
        waiter, client = task.waiter, self.client(task)

        def on_kill() -> Steps[None]:
            yield 1.0
            worker.stopped = True
            yield from _quietly(client.depart_from_all(waiter))

        self._start(on_kill(), lambda _: None)
        self.world.after(1 + _KILL_S, worker.kill)

    def _clean_up_later(self, task: Task) -> None:
        token, tries = task.token, 0

        def begin() -> None:
            nonlocal tries
            if task.token == token and tries < _CLEAN_UP_TRIES:
                tries += 1
                task.teardown = self._start(self._clean_up(task), done, lambda: self.world.after(HEARTBEAT_S, begin))

        def done(result: Any) -> None:
            if isinstance(result, Exception):
                self.world.after(3.0, begin)
            elif task.token == token:
                self.cleaned(task)

        self.world.after(2.0, begin)

    def _clean_up(self, task: Task) -> Steps[None]:
        client = self.client(task)
        yield from client.request()
        for job in [job for job in self.world.jobs if job.gone_at is None]:
            own = [waiter for waiter in waiters_on(job) or () if waiter.run_id == task.waiter.run_id]
            if own and any(condition["type"] == "Failed" for condition in job.conditions):
                continue
            for waiter in own:
                if (yield from client.depart(job, waiter)):
                    break


def _quietly(steps: Steps[Any]) -> Steps[None]:
    try:
        yield from steps
    except Unavailable:
        return
