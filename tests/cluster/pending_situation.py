"""A training that waits, how it comes to that, and what has to be told of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.cluster.pending_scene import MAIN, Scene, training

from gpu_training.core.pending_cause import Cause, Cure
from gpu_training.core.pending_report import Report
from sandbox.api import Document


@dataclass(frozen=True, kw_only=True)
class Situation:
    """A training that waits, and what has to be told of it.

    :param make: makes it wait, and gives its Job.
    :param ran: name of its Job where that ran before, so that it is watched since; empty: it is made by `make`.
    :param second: whether it waits with the next pod of its Job, once the Job controller's back-off is over.
    :param says: parts of the summary.
    :param nearest: parts of the nearest change; none: whatever it is.
    :param holders: parts of who holds what it wants, in this order; none: whoever does.
    :param remedy: parts of what to do.
    """

    name: str
    make: Callable[[Scene], Document]
    cause: Cause
    cure: Cure
    says: tuple[str, ...] = ()
    nearest: tuple[str, ...] = ()
    holders: tuple[str, ...] = ()
    remedy: tuple[str, ...] = ()
    namespace: str = MAIN
    ran: str = ""
    second: bool = False

    def lacks(self, report: Report) -> list[str]:
        """Give what a report should tell and does not."""
        told = {"says": report.summary, "nearest": report.nearest, "remedy": report.remedy}
        missing = [f"{name}: {part}" for name in told for part in getattr(self, name) if part not in told[name]]
        who = [holder.who for holder in report.holders] + [""] * len(self.holders)
        missing += [f"holders: {part}" for part, holder in zip(self.holders, who, strict=False) if part not in holder]
        return missing if report.remedy else [*missing, "a remedy"]

    def __str__(self) -> str:
        return self.name


def waiting(
    name: str,
    cause: Cause,
    cure: Cure,
    *,
    says: tuple[str, ...] = (),
    nearest: tuple[str, ...] = (),
    holders: tuple[str, ...] = (),
    remedy: tuple[str, ...] = (),
    namespace: str = MAIN,
    then: Callable[[Scene, Document], None] | None = None,
    **fields: Any,
) -> Situation:
    """Give the situation of a training of these fields.

    :param then: what else happens once its Job is there.
    """

    def make(scene: Scene) -> Document:
        job = scene.create(training(name.replace(" ", "-"), **fields), namespace)
        if then is not None:
            then(scene, job)
        return job

    return Situation(
        name=name,
        make=make,
        cause=cause,
        cure=cure,
        says=says,
        nearest=nearest,
        holders=holders,
        remedy=remedy,
        namespace=namespace,
    )
