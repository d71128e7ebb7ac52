"""One run of the matrix: brought to its point, its victim killed there, followed to its end."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack

from tests.stack.faults import victims
from tests.stack.faults.gate import Gate, Hold
from tests.stack.faults.gpu_meter import Tally
from tests.stack.faults.matrix import Cell, Outcome, Point, Strike, Victim
from tests.stack.faults.pipeline_run import PipelineRun
from tests.stack.faults.room import Room
from tests.stack.faults.verdicts import Figures

from sandbox.processes import Process

RUN_S = 8.0
"""How long a pod trains. A pod's beginning and end on a busy machine differ by less than half of it."""

REACH_DEADLINE_S = 240.0
RECOVERY_DEADLINE_S = 120.0
END_DEADLINE_S = 300.0
SETTLE_DEADLINE_S = 20.0
_POLL_S = 0.5
_CLOSE_POLL_S = 0.1

_JOBS = r"/apis/batch/v1/namespaces/[^/]+/jobs"
_HOLDS = {
    Point.BEFORE_CREATE: Hold(method="POST", path=rf"{_JOBS}(\?(?!.*dryRun)|$)", answer=False),
    Point.BEFORE_DEFER: Hold(method="POST", path=rf"{_JOBS}(\?(?!.*dryRun)|$)", answer=True),
    Point.REGISTER: Hold(method="POST", path=r"/api/2.0/mlflow/model-versions/create$", answer=True),
    Point.CLEAN_UP: Hold(method="DELETE", path=rf"{_JOBS}/", answer=True),
}
_PARAMS = {
    Point.BEFORE_CREATE: "training_cluster",
    Point.BEFORE_DEFER: "training_cluster",
    Point.REGISTER: "registry",
    Point.CLEAN_UP: "clean_up_cluster",
}
_TASKS = {Point.REGISTER: "register", Point.CLEAN_UP: "clean_up"}


class NotReached(Exception):
    """The point of a cell did not come."""


class CellRun:
    """A run of one cell. :meth:`reach`, then the death, then :meth:`finish`; and :meth:`close`, whatever happened."""

    def __init__(self, room: Room, cell: Cell) -> None:
        self.cell = cell
        self._room = room
        self._resources = ExitStack()
        self._gate: Gate | None = None
        self._process: Process | None = None
        self._in_flight: list[str] = []
        self._run: PipelineRun | None = None
        self._begun = 0.0
        self._let_go = 0.0

    @property
    def run(self) -> PipelineRun:
        assert self._run is not None, "reach() begins the run"
        return self._run

    def reach(self) -> None:
        """Begin the run and bring it to its point, where it stays.

        :raises NotReached: the point did not come.
        :raises victims.TooLate: it came, and went before anything could be done.
        """
        cell, connections = self.cell, {}
        hold = _HOLDS.get(cell.point) if cell.point else None
        if hold is not None and cell.point is not None:
            open_gate = self._room.registry_gate if cell.point is Point.REGISTER else self._room.cluster_gate
            self._gate, conn_id = self._resources.enter_context(open_gate(cell.name, hold))
            connections[_PARAMS[cell.point]] = conn_id
        self._begun = time.monotonic()
        self._run = self._room.begin(cell.name, cell.outcome, seconds=RUN_S, connections=connections)
        if not cell.has_pod_in_flight:
            self._let_pods_go()
        if cell.point is not None:
            self._await_point(cell.point)

    def kill(self) -> None:
        """Kill what belongs to this run alone.

        :raises victims.TooLate: it has ended by itself.
        """
        assert self.cell.victim is not None
        process = self._process
        if process is None:
            task_id = _TASKS.get(self.cell.point or Point.DEFERRED, "train")
            pid = self.run.process(task_id)
            if pid is None:
                raise victims.TooLate(f"task {task_id} runs no more")
            process = victims.process_of(pid)
        self._note_in_flight()
        victims.kill_task(process, self.cell.victim)

    def note_strike(self) -> None:
        """Note what holds GPUs now that somebody else kills."""
        self._note_in_flight()

    def release(self) -> None:
        """Let go on what was held up and lives."""
        if self._gate is not None:
            self._gate.release(drop=self.cell.strike is Strike.ALONE)
        if self._process is not None:
            victims.thaw(self._process)
        if not self._outlives_recovery:
            self._let_pods_go()

    def finish(self) -> Figures:
        """Follow the run to its end and give its figures."""
        if self._outlives_recovery:
            self._await_recovery()
            self._let_pods_go()
        deadline = time.monotonic() + END_DEADLINE_S
        while not self.run.has_ended:
            if time.monotonic() > deadline:
                figures = self._figures(f"the run has not ended after {END_DEADLINE_S:g} s: {self.run.tasks()}")
                self.run.give_up()
                return figures
            time.sleep(2 * _POLL_S)
        seconds = time.monotonic() - self._begun
        settled = time.monotonic() + SETTLE_DEADLINE_S
        while self._tally().holding() and time.monotonic() < settled:
            time.sleep(_POLL_S)
        return self._figures("", seconds=seconds)

    def give_up(self, why: str) -> Figures:
        """End a run whose death can not be dealt."""
        self.release()
        self._let_pods_go()
        figures = self._figures(why)
        if self._run is not None:
            self._run.give_up()
        return figures

    def close(self) -> None:
        self._resources.close()

    @property
    def _outlives_recovery(self) -> bool:
        """Whether the pod goes on until somebody waits for it again, as it does where a training takes hours.

        Those that fail and those that are disrupted do so while nobody looks.
        """
        return self.cell.point is Point.BEFORE_DEFER and self.cell.outcome is Outcome.SUCCESS

    def _await_recovery(self) -> None:
        tries = 1 if self.cell.victim is Victim.TRIGGERER else 2
        deadline = time.monotonic() + RECOVERY_DEADLINE_S
        while time.monotonic() < deadline and not self.run.has_ended:
            task = self.run.task("train")
            if task["try_number"] >= tries and task["state"] == "deferred":
                return
            time.sleep(_POLL_S)

    def _await_point(self, point: Point) -> None:
        self._await(lambda: self.run.task("train")["state"] not in (None, "scheduled"), "the task begins")
        if self._gate is not None:
            gate = self._gate
            self._await(lambda: gate.holds_one, f"a request {_HOLDS[point].method} {_HOLDS[point].path} is held up")
            if self.cell.has_pod_in_flight:
                self._await(self._is_running, "the pod of the training has a node")
        elif point is Point.DEFERRED:
            self._await(lambda: self._is_deferred() and self._is_running(), "the task is deferred and its pod runs")
        else:
            self._await_resumption()

    def _await_resumption(self) -> None:
        self._await(self._is_deferred, "the task is deferred")
        before = self.run.task("train")["pid"]
        self._await(lambda: self._tally().jobs and not self._tally().live_jobs, "the Job ends")
        self._await(
            lambda: self.run.process("train", but=before) is not None, "the task begins again", pause_s=_CLOSE_POLL_S
        )
        pid = self.run.process("train", but=before)
        if pid is None:
            raise victims.TooLate("the task had ended before it could be stopped")
        process = victims.process_of(pid)
        victims.freeze(process)
        self._process = process
        if self.run.process("train", but=before) != pid:
            raise victims.TooLate("the task had ended before it could be stopped")

    def _await(self, condition: Callable[[], object], what: str, *, pause_s: float = _POLL_S) -> None:
        deadline = time.monotonic() + REACH_DEADLINE_S
        while not condition():
            if self.run.has_ended or time.monotonic() > deadline:
                raise NotReached(f"{self.cell.point} is not reached: {what}; tasks: {self.run.tasks()}")
            time.sleep(pause_s)

    def _is_deferred(self) -> bool:
        return bool(self.run.task("train")["state"] == "deferred")

    def _is_running(self) -> bool:
        """Whether a pod has begun to train: it counts itself."""
        return any(self._room.folder_of(self.cell.name).glob("attempt-*")) and bool(self._tally().holding())

    def _tally(self) -> Tally:
        return self._room.meter.read(self.cell.name)

    def _let_pods_go(self) -> None:
        self._let_go = self._let_go or time.monotonic()
        self._room.let_go(self.cell.name)

    def _note_in_flight(self) -> None:
        self._in_flight = self._tally().uids_holding()

    def _figures(self, trouble: str, *, seconds: float = 0.0) -> Figures:
        now, tally = time.monotonic(), self._tally()
        spent = {uid: hold.gpu_seconds(now) for uid, hold in tally.holds.items()}
        kept = {uid: hold.gpu_seconds_until(self._let_go, now) for uid, hold in tally.holds.items()}
        return Figures(
            trouble=trouble,
            state=self._run.state if self._run else "",
            tasks=self._run.tasks() if self._run else {},
            gpu_seconds=sum(spent.values()) - sum(kept.values()),
            kept_gpu_seconds=sum(kept.values()),
            in_flight_gpu_seconds=sum(spent[uid] - kept[uid] for uid in self._in_flight),
            attempts=len(tally.holds),
            jobs=tuple(tally.jobs),
            most_live_jobs=tally.most_live_jobs,
            holding=tuple(tally.holding()),
            seconds=seconds,
        )
