"""A scenario that was begun: what its fault needs to know of it."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bench.waste.meter import Hold
from bench.waste.rows import Scenario
from bench.waste.tasks import TASK, TaskState
from sandbox.waiting import wait_for

if TYPE_CHECKING:
    from bench.waste.stage import Stage

_LOOK_S = 0.2


@dataclass(slots=True)
class Run:
    """One Airflow run of a scenario's DAG. Moments are those of `time.monotonic`.

    :param horizon: the moment until which it is watched.
    :ivar ended_at: when a person ended it; None where none did.
    :ivar is_hit: set once nothing more will be done to it.
    """

    stage: Stage
    scenario: Scenario
    run_id: str
    began: float
    horizon: float
    ended_at: float | None = None
    is_hit: threading.Event = field(default_factory=threading.Event)

    def task(self, task_id: str = TASK) -> TaskState:
        return self.stage.tasks.task(self.scenario, self.run_id, task_id)

    def has_ended(self) -> bool:
        return self.stage.tasks.has_ended(self.scenario, self.run_id)

    def is_over(self) -> bool:
        """Tell whether there is nothing more to measure: all has ended, or the horizon has come."""
        if time.monotonic() >= self.horizon:
            return True
        return self.is_hit.is_set() and self.has_ended() and self.stage.view.is_quiet(self.scenario.key)

    def holds(self) -> list[Hold]:
        return self.stage.view.holds(self.scenario.key)

    def await_training(self, seconds: float, *, attempt: int = 1) -> None:
        """Wait until the n-th attempt has trained for so many seconds.

        :raises DeadlineError: not before the horizon.
        """

        def has_trained() -> bool:
            holds = self.holds()
            return len(holds) >= attempt and time.monotonic() - holds[attempt - 1].since >= seconds

        what = f"attempt {attempt} of {self.scenario.key} to train for {seconds:g} s"
        wait_for(has_trained, self.left(), what, pause_s=_LOOK_S)

    def left(self) -> float:
        """Give the seconds until the horizon."""
        return max(0.0, self.horizon - time.monotonic())
