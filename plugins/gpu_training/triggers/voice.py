"""What a waiting training says of itself in the task log, and how often. Its pods speak for themselves
(:mod:`gpu_training.triggers.log_teller`)."""

from __future__ import annotations

from time import monotonic
from typing import Final

from gpu_training.core.decide import Outcome
from gpu_training.core.pending_cause import Cause
from gpu_training.core.pending_report import Report
from gpu_training.core.pending_text import line
from gpu_training.core.phase import Phase, Wait
from gpu_training.task_log import TaskLog

_DETAIL_EVERY_S: Final = 5.0
_REASON_EVERY_S: Final = 60.0


class Voice:
    """Writes to one task log.

    :param log: the task's.
    """

    def __init__(self, log: TaskLog) -> None:
        self._log = log
        self._said: Wait | None = None
        self._said_at = 0.0
        self._trouble: str | None = None
        self._cause: tuple[Phase, Cause] | None = None
        self._reason, self._reason_at = "", 0.0
        self._told: dict[str, float] = {}

    def phase(self, wait: Wait) -> float | None:
        """Say a phase when it changes, and a change of its detail alone at most every few seconds.

        :returns: seconds after which to call this again for a detail that is not said yet; None when all is said.
        """
        self._cause = None
        if wait == self._said:
            return None
        if self._said is None or self._said.phase is not wait.phase:
            self._told.clear()
        if self._said is not None and self._said.phase is wait.phase:
            early = self._said_at + _DETAIL_EVERY_S - monotonic()
            if early > 0:
                return early
        self._said, self._said_at = wait, monotonic()
        self._log.info("%s: %s", wait.phase, wait.detail)
        return None

    def waiting(self, wait: Wait, report: Report | None) -> float | None:
        """Say why the training waits when the cause changes, and other words for the same cause once a minute at most.

        :param report: None where the cause is not known; the phase is said then.
        :returns: as :meth:`phase`.
        """
        if report is None:
            return self.phase(wait)
        text = line(report)
        if (wait.phase, report.cause) != self._cause or (
            text != self._reason and monotonic() >= self._reason_at + _REASON_EVERY_S
        ):
            self._cause, self._reason, self._reason_at = (wait.phase, report.cause), text, monotonic()
            self._said, self._said_at = wait, monotonic()
            if monotonic() < self._told.get(text, float("-inf")) + _REASON_EVERY_S:
                return None  # causes that alternate are not told at every turn
            self._told = {each: at for each, at in self._told.items() if monotonic() < at + _REASON_EVERY_S}
            self._told[text] = monotonic()
            (self._log.info if report.curable else self._log.warning)("%s (%s): %s", wait.phase, report.cause, text)
        return None

    def trouble(self, trouble: str | None) -> None:
        """Say once that the API server can not be asked, and once that it can again."""
        if trouble is not None and self._trouble is None:
            self._log.warning("%s; the training goes on, and so does the waiting", trouble)
        elif trouble is None and self._trouble is not None:
            self._log.info("the API server answers again")
        self._trouble = trouble

    def end(self, outcome: Outcome) -> None:
        """Say the end."""
        self._log.info("%s%s", outcome.kind, f": {outcome.verdict.summary}" if outcome.verdict else "")
