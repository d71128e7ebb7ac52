"""Kueue on request: Jobs that wait for a quota, in queues, cohorts and by priority."""

from sandbox.kueue.controller import KUEUE, install
from sandbox.kueue.pending import Pending, pending_workloads, queue_position
from sandbox.kueue.queues import (
    PRIORITY_LABEL,
    QUEUE_LABEL,
    ClusterQueue,
    Flavor,
    LocalQueue,
    Preempt,
    Priority,
)

__all__ = [
    "KUEUE",
    "PRIORITY_LABEL",
    "QUEUE_LABEL",
    "ClusterQueue",
    "Flavor",
    "LocalQueue",
    "Pending",
    "Preempt",
    "Priority",
    "install",
    "pending_workloads",
    "queue_position",
]
