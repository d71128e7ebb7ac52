"""When a wait is worth it no more: a cause that no waiting cures, or a clock that has run out."""

from __future__ import annotations

from typing import Final

from gpu_training.core.clock_readings import Reading, run_out
from gpu_training.core.clocks import Clock
from gpu_training.core.pending_cause import Cause
from gpu_training.core.pending_report import Report
from gpu_training.core.verdict import Action, Category, Owner, Verdict

SURE_AFTER_S: Final = 5.0
"""A cause that no waiting cures ends the run when it has held for so long."""
NOTICED_AFTER_S: Final = 20.0
"""The same for what may be made a moment after the Job, as its Secret: so long it takes until that is noticed. The Job
controller tries again 2.5, 6, 13.5 s after its first try (measured with Kubernetes 1.37), the kubelet mounts after 0.5,
1.5, 3.5, 7.5, 15.5 s and looks for a container's Secret about every 10 s."""
_LATE_COMERS: Final = frozenset(
    {
        Cause.CONFIG_MAP_MISSING,
        Cause.SECRET_MISSING,
        Cause.VOLUME_CLAIM_MISSING,
        Cause.SERVICE_ACCOUNT_MISSING,
        Cause.RUNTIME_CLASS_MISSING,
        Cause.PRIORITY_CLASS_MISSING,
        Cause.ADMISSION_DENIED,
        Cause.POD_SECURITY,
        Cause.LIMIT_RANGE,
        Cause.QUOTA_EXCEEDED,
        Cause.QUOTA_NEEDS_RESOURCES,
        Cause.QUEUE_MISSING,
        Cause.POD_REFUSED,
        Cause.VOLUME_UNBOUND,
        Cause.CONTAINER_NOT_CREATED,
    }
)

_CATEGORY: Final = {
    Clock.QUEUE: Category.QUEUE_TIMEOUT,
    Clock.STARTUP: Category.STARTUP_TIMEOUT,
    Clock.RUN: Category.RUN_TIMEOUT,
    Clock.STALL: Category.STALLED,
    Clock.TOTAL: Category.TOTAL_TIMEOUT,
}
_SAID: Final = {
    Clock.QUEUE: "it got no node",
    Clock.STARTUP: "it had a node, and its training container did not start",
    Clock.RUN: "the attempt ran, and did not end",
    Clock.STALL: "the attempt ran, and reported no progress",
    Clock.TOTAL: "it was not done",
}
_REMEDY: Final = {
    Clock.QUEUE: "raise training.clocks.queue_seconds to wait for longer",
    Clock.STARTUP: "make the image smaller or keep it on the nodes, or raise training.clocks.startup_seconds; a retry "
    "tries again",
    Clock.RUN: "raise training.clocks.run_seconds if the training needs longer",
    Clock.STALL: "look at its last lines: where did it hang? A retry goes on from its checkpoint. Raise "
    "training.clocks.stall_seconds if it is merely slow between two progress lines",
    Clock.TOTAL: "raise training.clocks.total_seconds, or lower queue_seconds there to give up sooner",
}
# Another node may have the image, and another attempt may not hang; no other one is faster.
_AGAIN: Final = frozenset({Clock.STARTUP, Clock.STALL})
_OF_THE_CLUSTER: Final = frozenset(
    {Cause.NO_GPU_NODES, Cause.DEVICE_PLUGIN_DOWN, Cause.NODES_CORDONED, Cause.NODES_NOT_READY}
)


def verdict_on(
    report: Report | None, held_since: float | None, readings: tuple[Reading, ...], now: float
) -> Verdict | None:
    """Give why whoever waits gives up; None while the wait goes on.

    :param report: why the training waits; None where it does not.
    :param held_since: since when the report's cause is that one, in seconds since 1970.
    :param readings: the clocks that run.
    """
    if (
        report is not None
        and not report.curable
        and held_since is not None
        and now - held_since >= sure_after(report.cause)
    ):
        return Verdict(
            category=Category.CAN_NOT_START,
            owner=Owner.INFRASTRUCTURE if report.cause in _OF_THE_CLUSTER else Owner.CONFIGURATION,
            action=Action.FAIL,
            summary=f"waiting does not help ({report.cause}): {report.summary}",
            remedy=report.remedy,
        )
    over = run_out(readings)
    return _timed_out(over, report) if over is not None else None


def seconds_until_sure(report: Report | None, held_since: float | None, now: float) -> float | None:
    """Give the seconds after which a cause that no waiting cures has held for long enough; None where there is none."""
    if report is None or report.curable or held_since is None:
        return None
    return max(0.0, held_since + sure_after(report.cause) - now)


def sure_after(cause: Cause) -> float:
    """Give how long a cause has to hold that no waiting cures, in seconds, until it ends the run."""
    return NOTICED_AFTER_S if cause in _LATE_COMERS else SURE_AFTER_S


def _timed_out(over: Reading, report: Report | None) -> Verdict:
    why = f" ({report.cause}): {report.summary}" if report is not None and over.clock is not Clock.RUN else ""
    summary = f"{_SAID[over.clock]} within {over.limit} s (training.clocks.{over.clock}_seconds){why}"
    first = f"{report.remedy}; or " if report is not None and over.clock in (Clock.QUEUE, Clock.STARTUP) else ""
    return Verdict(
        category=_CATEGORY[over.clock],
        owner=Owner.APPLICATION if over.clock in (Clock.RUN, Clock.STALL) else Owner.INFRASTRUCTURE,
        action=Action.RETRY if over.clock in _AGAIN else Action.FAIL,
        summary=summary,
        remedy=first + _REMEDY[over.clock],
    )
