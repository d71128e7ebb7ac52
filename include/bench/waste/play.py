"""A scenario on the stage: begun, hit, watched to its end or to the horizon, measured, cleared away."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import httpx

from bench.waste import settings
from bench.waste.faults import FAULTS
from bench.waste.figures import Baseline, Figure, Line, useful_seconds
from bench.waste.meter import gpu_seconds
from bench.waste.rows import ALL_NODES, LABEL, Column, Row, Scenario
from bench.waste.run import Run
from bench.waste.stage import Stage
from bench.waste.view import JOBS, has_ended
from sandbox.api import ApiError
from sandbox.waiting import wait_for

HORIZON_S = 480.0
"""Seconds after its begin until which a scenario is watched, in every column: two deadlines of a Job that has one."""
STAGGER_S = 20.0
"""Between the begins of two rows: each start of a task takes five seconds of processor time, and a machine that is busy
with them makes whoever trains twice begin so late that the checkpoint has nothing left to train."""
_LOOK_S = 0.5
_CLEARED_S = 90.0
_BASELINE_DEADLINE_S = 300.0


@dataclass(slots=True)
class Ended:
    """A scenario as it was when it ended."""

    run: Run
    until: float
    tries: int
    state: str
    cut: bool
    fault: BaseException | None = None


@dataclass(slots=True)
class Performance:
    """All rows, played on one stage.

    :ivar ended: scenarios by their key.
    :ivar baselines: GPU-seconds of uninterrupted trainings.
    """

    stage: Stage
    ended: dict[str, Ended] = field(default_factory=dict)
    baselines: list[float] = field(default_factory=list)

    def play(self, rows: Sequence[Row]) -> None:
        """Play all rows: those that hit what all share one after another, the others together."""
        for row in (row for row in rows if row.shared):
            self._together([row])
        self._together([row for row in rows if not row.shared])

    def _together(self, rows: Sequence[Row]) -> None:
        threads = [threading.Thread(target=self._baseline, daemon=True)] if rows else []
        threads += [threading.Thread(target=self._row, args=(row,), daemon=True) for row in rows]
        for thread in threads:
            thread.start()
            time.sleep(STAGGER_S)
        for thread in threads:
            thread.join()

    def _row(self, row: Row) -> None:
        runs = []
        for column in Column:
            scenario = Scenario(row, column)
            began = time.monotonic()
            run_id = self.stage.tasks.begin(scenario)
            runs.append(Run(self.stage, scenario, run_id, began=began, horizon=began + HORIZON_S))
        faults: dict[str, BaseException] = {}
        groups = [runs] if row.shared else [[run] for run in runs]
        hits = [threading.Thread(target=_hit, args=(row, group, faults), daemon=True) for group in groups]
        watches = [threading.Thread(target=self._watch, args=(run,), daemon=True) for run in runs]
        for thread in (*hits, *watches):
            thread.start()
        for thread in (*hits, *watches):
            thread.join()
        for run in runs:
            self.ended[run.scenario.key].fault = faults.get(run.scenario.key)

    def _watch(self, run: Run) -> None:
        while not run.is_over():
            time.sleep(_LOOK_S)
        until = time.monotonic()
        task = run.task()
        cut = not (run.has_ended() and self.stage.view.is_quiet(run.scenario.key))
        self.ended[run.scenario.key] = Ended(run, until=until, tries=task.tries, state=task.state, cut=cut)
        holds = self.stage.view.holds(run.scenario.key)
        held = gpu_seconds(holds, until)
        told = f"{run.scenario.key}: {task.state} after {until - run.began:.0f} s, {task.tries} tries, "
        told += f"{len(holds)} pods, {held:.1f} GPU-seconds{', still going on' if cut else ''}\n"
        # In one piece: other threads tell, too.
        print(told, end="", flush=True)
        clear_away(self.stage, run)

    def _baseline(self) -> None:
        """Train once without Airflow and without anything that goes wrong."""
        key = f"baseline.{len(self.baselines)}"
        self.stage.sandbox.api.request("POST", JOBS, _bare_job(key, self.stage))
        view = self.stage.view
        wait_for(
            lambda: view.holds(key) and view.is_quiet(key), _BASELINE_DEADLINE_S, f"the training {key}", pause_s=_LOOK_S
        )
        self.baselines.append(gpu_seconds(view.holds(key), time.monotonic()))

    def line(self, row: Row, baseline: Baseline) -> Line:
        """Give a row that was played, as figures."""
        return Line(row=row, figures={column: self._figure(Scenario(row, column), baseline) for column in Column})

    def _figure(self, scenario: Scenario, baseline: Baseline) -> Figure:
        ended = self.ended[scenario.key]
        holds = self.stage.view.holds(scenario.key)
        useful = useful_seconds(
            scenario.row,
            holds,
            baseline.median,
            until=ended.until,
            ended_at=ended.run.ended_at,
            trained=ended.state == "success",
        )
        return Figure(
            held=gpu_seconds(holds, ended.until),
            useful=useful,
            pods=len(holds),
            tries=ended.tries,
            state=ended.state,
            cut=ended.cut,
        )


def _hit(row: Row, runs: Sequence[Run], faults: dict[str, BaseException]) -> None:
    try:
        FAULTS[row.name](runs)
    except Exception as error:  # whatever it is, the row was not what it is to be, and that is told
        for run in runs:
            faults[run.scenario.key] = error
    finally:
        for run in runs:
            run.is_hit.set()


def clear_away(stage: Stage, run: Run) -> None:
    """End whatever a scenario still holds, so that it is in no other's way."""
    with suppress(httpx.HTTPError):
        if not run.has_ended():
            stage.tasks.end(run.scenario, run.run_id)
    deadline = time.monotonic() + _CLEARED_S
    while time.monotonic() < deadline and not stage.view.is_quiet(run.scenario.key):
        for job in stage.view.jobs(run.scenario.key):
            if not has_ended(job) and "deletionTimestamp" not in job["metadata"]:
                with suppress(ApiError):
                    options = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Foreground"}
                    stage.sandbox.api.request("DELETE", f"{JOBS}/{job['metadata']['name']}", options)
        time.sleep(_LOOK_S)


def _bare_job(key: str, stage: Stage) -> dict[str, Any]:
    environment = {
        "WASTE_ROW": "baseline",
        "WASTE_CHECKPOINTS": str(stage.shared / "checkpoints" / key),
        "WASTE_SIGNALS": str(stage.signals),
    }
    container = {
        "name": "base",
        "image": settings.IMAGE,
        "command": list(settings.COMMAND),
        "env": [
            *({"name": name, "value": value} for name, value in environment.items()),
            *settings.environment_from_pod(),
        ],
        "resources": {"requests": settings.REQUESTS, "limits": settings.LIMITS},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    pod = {
        "restartPolicy": "Never",
        "nodeSelector": {LABEL: ALL_NODES},
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        "securityContext": {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
    }
    labels = {LABEL: key}
    template = {"metadata": {"labels": labels}, "spec": pod}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": key.replace(".", "-"), "labels": labels},
        "spec": {"backoffLimit": 0, "template": template},
    }
