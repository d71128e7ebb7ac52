"""Trainings that wait at the same time, each watched as the triggerer would, and what their tasks make of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Thread
from typing import Any

from tests.cluster.trainings import RecordedTrigger, TaskInstance, defer, fire, operator, recorded, spec

from sandbox.cluster import Sandbox
from sandbox.waiting import wait_for

DEADLINE_S = 60.0


@dataclass
class Wait:
    """One training that is waited for."""

    task: Any
    instance: TaskInstance
    trigger: RecordedTrigger
    payloads: list[dict[str, Any]] = field(default_factory=list)

    @property
    def path(self) -> str:
        return f"/apis/batch/v1/namespaces/{self.trigger.job['namespace']}/jobs/{self.trigger.job['name']}"

    def log(self, part: str) -> list[str]:
        """Give the lines of the task log that have this part."""
        return self.trigger.record.about(part)

    def await_line(self, part: str) -> str:
        """Give the first line of the task log with this part, once it is there."""
        return wait_for(
            lambda: self.log(part), DEADLINE_S, f"a line with {part!r}; the log: {self.trigger.record.lines}"
        )[0]

    def await_end(self) -> dict[str, Any]:
        """Give what the trigger tells, once it does."""
        return wait_for(
            lambda: self.payloads, DEADLINE_S, f"the end of {self.path}; the log: {self.trigger.record.lines}"
        )[0]

    def conclude(self) -> Any:
        """Give, or raise, what the task makes of the end."""
        return self.task.execute_complete(self.instance.context, self.await_end())


@contextmanager
def waits(sandbox: Sandbox, namespace: str, script: str) -> Iterator[Callable[..., Wait]]:
    """Give a function that begins a training of these fields of a spec; those that go on are ended with the block.

    A parameter of the operator comes in `task`.
    """
    begun: list[tuple[Wait, Thread]] = []

    def begin(*, task: dict[str, Any] | None = None, **changes: Any) -> Wait:
        made, instance = operator(spec(namespace, script, **changes), **(task or {})), TaskInstance()
        wait = Wait(task=made, instance=instance, trigger=recorded(defer(made, instance)))
        thread = Thread(target=lambda: wait.payloads.append(fire(wait.trigger, limit=2 * DEADLINE_S)), daemon=True)
        thread.start()
        begun.append((wait, thread))
        return wait

    try:
        yield begin
    finally:
        for wait, _ in begun:
            if sandbox.api.exists(wait.path):
                sandbox.api.request("DELETE", wait.path, {"propagationPolicy": "Background"})
        for _, thread in begun:
            thread.join()
