"""What the logs of a training's pods tell: how far it is, which steps each pod did, its result, and what ended it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from gpu_training.contract import Progress
from gpu_training.core.contract_lines import progress_in, result_in
from gpu_training.core.hearing_document import (
    LONGEST_RESULT,
    MOST_PODS,
    AllHeard,
    PodHeard,
    Shown,
    from_document,
    to_document,
)
from gpu_training.core.log_lines import Batch, stamp_of, text_of
from gpu_training.core.log_matcher import LogMatcher
from gpu_training.core.naming import TRAINING_CONTAINER
from gpu_training.core.progress_bar import Bar, may_hold_bars, parse_bar
from gpu_training.core.progress_document import ToldProgress
from gpu_training.core.progress_made import put
from gpu_training.core.rules import RuleTable
from gpu_training.core.steps import Steps

_MARK: Final = "GPU_TRAINING_"
_STALE_S: Final = 60.0
"""How long a bar that does not move hides one that began later, and does."""


class Hearing:
    """Takes in news of logs, in the order of each log, and keeps what they tell. Memory is bounded, whatever they hold.

    Progress is a progress line of the contract or a tqdm bar. Only lines of the contract are evidence of steps done:
    the bar of an epoch begins at 0 each time. Where a program prints both, its lines are shown, and bars only tell that
    it lives. What does not go beyond what was reported before is no progress (:mod:`gpu_training.core.progress_made`).

    :param rules: whose log patterns are looked for.
    """

    def __init__(self, rules: RuleTable) -> None:
        self._matcher = LogMatcher(rules)
        self._pods: dict[str, PodHeard] = {}
        self._shown: Shown | None = None
        self._progress_at: float | None = None

    def take(self, batch: Batch) -> Sequence[str]:
        """Take in news, and give the lines of it that are left for the task log: progress, bars and results are not."""
        if batch.container != TRAINING_CONTAINER:
            return batch.lines
        lines = batch.lines
        if lines:
            joined = "\n".join(lines)
            self._matcher.feed_all(batch.pod, lines, joined=joined, text_of=text_of)
            if _MARK in joined or may_hold_bars(joined):
                lines = [line for line in lines if not self._takes(batch, line)]
        if batch.frame is not None and (bar := parse_bar(batch.frame)) is not None:
            self._take_frame(batch, bar)
        return lines

    @property
    def findings(self) -> Mapping[str, str]:
        """Pod name -> name of the failure rule that its log matches."""
        return self._matcher.findings

    @property
    def steps(self) -> Mapping[str, Steps]:
        """Pod name -> which steps its progress lines say that it did."""
        return {pod: told.steps for pod, told in self._pods.items() if told.line is not None}

    @property
    def told_results(self) -> Mapping[str, str]:
        """Pod name -> text of the result document that it printed last, unread."""
        return {pod: told.result for pod, told in self._pods.items() if told.result is not None}

    @property
    def progress(self) -> Progress | None:
        """The newest that any pod has told; None when none has."""
        return self._shown.progress if self._shown is not None else None

    @property
    def progress_pod(self) -> str | None:
        """The pod that told the newest progress."""
        return self._shown.pod if self._shown is not None else None

    @property
    def progress_at(self) -> float | None:
        """When any pod made progress last, in seconds since 1970; None when none did, as far as that is known.

        It never goes back.
        """
        return self._progress_at

    @property
    def told(self) -> ToldProgress | None:
        """What the Job's annotation is to say of progress; None while there is none."""
        if self._shown is None or self._progress_at is None:
            return None
        return ToldProgress(at=self._progress_at, pod=self._shown.pod, progress=self._shown.progress, steps=self.steps)

    def to_document(self) -> dict[str, Any]:
        """Give what was heard as plain JSON data of bounded size, for :meth:`recall`."""
        heard = AllHeard(
            shown=self._shown, progress_at=self._progress_at, pods=self._pods, findings=self._matcher.findings
        )
        return to_document(heard)

    def recall(self, document: object, *, now: float = float("inf")) -> None:
        """Take in what another hearing of the same training wrote down, before any news. Anything else is ignored.

        :param now: seconds since 1970: nothing was heard later, whatever somebody wrote there.
        """
        heard = from_document(document, now)
        for pod, told in heard.pods.items():
            put(self._pods, pod, told, MOST_PODS)
        self._shown = heard.shown or self._shown
        if heard.progress_at is not None:
            self._move(heard.progress_at)
        self._matcher.recall(heard.findings)

    def _takes(self, batch: Batch, line: str) -> bool:
        text = text_of(line)
        if _MARK in text:
            if (progress := progress_in(text)) is not None:
                self._take_progress(batch.pod, progress, _said_at(batch, line))
                return True
            if (result := result_in(text)) is not None:
                return self._takes_result(batch.pod, result)
        if (bar := parse_bar(text)) is not None:
            self._take_bar(batch.pod, bar, _said_at(batch, line))
            return True
        return False

    def _takes_result(self, pod: str, document: str) -> bool:
        """Keep what stands in a result line. One that is no object, or does not say whose it is, is left for the log as
        well: somebody has to see it. It takes the place of none that does."""
        told = self._of(pod)
        if _is_signed(document) or told.result is None or not _is_signed(told.result):
            told.result = document[:LONGEST_RESULT]
        return _is_signed(document) and document.endswith("}")

    def _take_progress(self, pod: str, progress: Progress, at: float) -> None:
        told, shown = self._of(pod), self._shown
        progress = progress if told.line is None else _with_what_was_known(progress, told.line)
        if told.reached.by_line(progress, told.steps.checkpoint):
            self._move(at)
        told.steps, told.line = told.steps.after(progress), progress
        if shown is None or shown.bar_since is not None or pod == shown.pod or at >= shown.at:
            self._shown = Shown(progress=progress, pod=pod, at=at)

    def _take_bar(self, pod: str, bar: Bar, at: float) -> None:
        if not self._of(pod).reached.by_bar(bar, at):
            return
        self._move(at)
        self._show_bar(pod, bar, at)

    def _take_frame(self, batch: Batch, bar: Bar) -> None:
        """Take in what a bar shows that has not ended its line. When that was drawn is only known of news."""
        if batch.live:
            self._take_bar(batch.pod, bar, batch.now)
        elif self._of(batch.pod).reached.by_bar(bar, batch.now) and self.progress_pod in (None, batch.pod):
            self._show_bar(batch.pod, bar, batch.now)

    def _show_bar(self, pod: str, bar: Bar, at: float) -> None:
        if _is_to_show(self._shown, pod, bar, at):
            self._shown = Shown(progress=bar.progress, pod=pod, at=at, bar_since=at - bar.elapsed)

    def _of(self, pod: str) -> PodHeard:
        told = self._pods.get(pod) or PodHeard()
        put(self._pods, pod, told, MOST_PODS)
        return told

    def _move(self, at: float) -> None:
        self._progress_at = at if self._progress_at is None else max(at, self._progress_at)


def _is_to_show(shown: Shown | None, pod: str, bar: Bar, at: float) -> bool:
    """Whether a bar tells more than what is shown: of nested bars the outer one does, which began first."""
    if shown is None:
        return True
    if shown.bar_since is None:
        return False
    if pod != shown.pod:
        return at >= shown.at
    full = 0 < shown.progress.total <= shown.progress.step
    # Bars tell whole seconds.
    return full or at - bar.elapsed < shown.bar_since + 1 or at > shown.at + _STALE_S


def _is_signed(document: str) -> bool:
    """Whether a result line may hold a document that says whose it is; it is not read here."""
    return document.startswith("{") and '"pod_uid"' in document[:LONGEST_RESULT]


def _said_at(batch: Batch, line: str) -> float:
    if batch.live:
        return batch.now  # whatever the node's clock says
    moment = stamp_of(line)
    return batch.now if moment is None else min(moment[0] + moment[1] / 1e9, batch.now)


def _with_what_was_known(progress: Progress, before: Progress) -> Progress:
    """Give progress with what the pod said before: a program need not say its loss or checkpoint in each line."""
    return replace(
        progress,
        total=progress.total or before.total,
        loss=progress.loss if progress.loss is not None else before.loss,
        checkpoint_step=progress.checkpoint_step if progress.checkpoint_step is not None else before.checkpoint_step,
        first_step=progress.first_step if progress.first_step is not None else before.first_step,
    )
