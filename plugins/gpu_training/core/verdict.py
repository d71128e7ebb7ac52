"""What an attempt's end means, and whose it is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Owner(StrEnum):
    """Who has to act. Stable names."""

    APPLICATION = "application"
    INFRASTRUCTURE = "infrastructure"
    CONFIGURATION = "configuration"


class Action(StrEnum):
    """What a rule asks for. Stable names."""

    FAIL = "fail"
    """No repetition helps: the Job fails at once, and Airflow does not retry."""
    RETRY = "retry"
    """Repeating may help: it spends one of the attempts in the budget."""
    RETRY_ELSEWHERE = "retry_elsewhere"
    """Repeating may help on another node: the Job ends, and the next one keeps away from this node."""
    RETRY_LARGER = "retry_larger"
    """Repeating may help with more memory: the Job ends, and the next one asks for more."""
    WAIT = "wait"
    """Not the program's fault: the replacement pod does not count."""


class Category(StrEnum):
    """What happened. Stable names: they reach XCom, labels and alerts, and are never renamed."""

    DISRUPTED = "disrupted"
    BAD_CONFIGURATION = "bad_configuration"
    BAD_DATA = "bad_data"
    CUDA_OUT_OF_MEMORY = "cuda_out_of_memory"
    NAN_LOSS = "nan_loss"
    COMMUNICATION_TIMEOUT = "communication_timeout"
    INTERRUPTED = "interrupted"
    OUT_OF_MEMORY = "out_of_memory"
    GPU_HARDWARE = "gpu_hardware"
    START_ERROR = "start_error"
    ADMISSION_FAILED = "admission_failed"
    DEADLINE_EXCEEDED = "deadline_exceeded"
    KILLED = "killed"
    APPLICATION_ERROR = "application_error"
    RESULT_MISSING = "result_missing"
    RESULT_INVALID = "result_invalid"
    DELETED = "deleted"
    REPLACED = "replaced"
    """A waiter of higher priority had the Job replaced before any of its pods started."""
    BUDGET_SPENT = "budget_spent"
    CAN_NOT_START = "can_not_start"
    """It waits for what no waiting brings (:mod:`gpu_training.core.pending`)."""
    QUEUE_TIMEOUT = "queue_timeout"
    STARTUP_TIMEOUT = "startup_timeout"
    RUN_TIMEOUT = "run_timeout"
    STALLED = "stalled"
    NOT_RESUMED = "not_resumed"
    """An attempt began anew though a checkpoint was there (:mod:`gpu_training.core.resume`)."""
    TOTAL_TIMEOUT = "total_timeout"
    UNREACHABLE = "unreachable"
    """Nobody could ask for the Job any longer than its deadline: whether it goes on is not known."""
    UNKNOWN = "unknown"


LEFT: Final = frozenset(
    {
        Category.CAN_NOT_START,
        Category.QUEUE_TIMEOUT,
        Category.STARTUP_TIMEOUT,
        Category.RUN_TIMEOUT,
        Category.STALLED,
        Category.TOTAL_TIMEOUT,
    }
)
"""Whoever waited has given up on the Job, which ends only if nobody else waits on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What happened, whose it is, and what to do.

    :param category: stable, for machines.
    :param summary: one sentence with the facts, for the task log.
    :param remedy: what the owner does next.
    :param action: whether repeating helps.
    """

    category: Category
    owner: Owner
    summary: str
    remedy: str
    action: Action
