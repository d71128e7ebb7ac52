"""Tells in the task log what a training's pods say: each line once, within its share, and progress as words."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from time import monotonic
from types import MappingProxyType
from typing import Final

from gpu_training.core import progress_text
from gpu_training.core.hearing import Hearing
from gpu_training.core.log_allowance import Limits
from gpu_training.core.log_lines import START, Batch, Position
from gpu_training.core.log_marks import LogKey, told_by
from gpu_training.core.log_share import QUIET_S, LeftOut, Line, LogShare
from gpu_training.core.naming import TRAINING_CONTAINER
from gpu_training.core.progress_pace import Pace
from gpu_training.task_log import MarkedLog

Later = Callable[[float, Callable[[], None]], object]
"""Calls a function after so many seconds."""

_NONE: Final[Mapping[LogKey, Position]] = MappingProxyType({})
_KIB: Final = 1024
_RECORDS_A_TURN: Final = 100
"""Some 5 ms of the event loop, on a slow machine."""
_SPEAKER: Final = "log of pod %s, container %s:"
_LEFT_OUT: Final = (
    "left out: %d lines (%.1f KiB) that container %s of pod %s said faster than its share of the task log allows; the "
    "last ones follow; for all of them, while the pod is there: kubectl -n %s logs %s -c %s"
)


def in_this_loop(seconds: float, call: Callable[[], None]) -> object:
    """Have the running event loop call a function after so many seconds."""
    return asyncio.get_running_loop().call_later(seconds, call)


class LogTeller:
    """Tells one training's logs. A record with a line says in its field `loc` how far that container's log is told:
    whatever happens to this process, the task log itself knows.

    :param hearing: is given all news, and keeps what is not for the task log.
    :param namespace: of the pods, for who wants to read what was left out.
    :param told: how far earlier task logs of the same try hold each log.
    :param starts: from where the logs are followed; those that are not named are from their first line on.
    :param later: has this tell what was kept back.
    """

    def __init__(
        self,
        log: MarkedLog,
        hearing: Hearing,
        *,
        namespace: str = "",
        told: Mapping[LogKey, Position] = _NONE,
        starts: Mapping[LogKey, Position] = _NONE,
        limits: Limits | None = None,
        later: Later = in_this_loop,
    ) -> None:
        self._log = log
        self._hearing = hearing
        self._namespace = namespace
        self._share = LogShare(limits or Limits(), told, now=monotonic(), starts=starts)
        self._pace = Pace()
        self._later = later
        self._is_due = False
        self._is_over = False
        self._speaker: LogKey | None = None

    def take(self, batch: Batch) -> None:
        """Take news of a log: the sink of a :class:`~gpu_training.cluster.logs.LogFollower`."""
        key = batch.pod, batch.container
        news = self._share.news(key, batch.lines)
        if len(news) < len(batch.lines):
            known = batch.lines[: len(batch.lines) - len(news)]
            self._hearing.take(replace(batch, lines=known, frame=None))
            batch = replace(batch, lines=news)
        left = self._hearing.take(batch)
        if news:
            self._say(self._share.take(key, news, left, monotonic()))
        self._go_on()

    def position(self, key: LogKey) -> Position:
        """Give how far a log is told, or said to be left out."""
        return self._share.position(key)

    async def end(self) -> None:
        """Tell all that was kept back, and the last progress; nothing is told later on its own.

        Others have their turn meanwhile: at a triggerer's end, all its trainings tell what they kept back.
        """
        self._is_over = True
        while self._tell_held(at_once=True):  # noqa: ASYNC110 - nobody is waited for
            await asyncio.sleep(0)
        self._tell_progress(at_once=True)

    def _go_on(self) -> None:
        wait = self._tell_progress()
        if self._share.holds_back:
            wait = QUIET_S if wait is None else min(wait, QUIET_S)
        if wait is not None and not self._is_due and not self._is_over:
            self._is_due = True
            self._later(wait, self._come_back)

    def _come_back(self) -> None:
        self._is_due = False
        if self._is_over:
            return
        if self._tell_held():
            self._is_due = True
            self._later(0.0, self._come_back)
        else:
            self._go_on()

    def _tell_held(self, *, at_once: bool = False) -> bool:
        """Tell what was kept back and may be told now, log by log; whether there may be more, for another turn."""
        count = 0
        for key in self._share.held_back:
            if count >= _RECORDS_A_TURN:
                return True
            told = self._share.release_of(key, monotonic(), at_once=at_once)
            self._say(told)
            count += len(told)
        return False

    def _tell_progress(self, *, at_once: bool = False) -> float | None:
        """Tell progress if it is time to; gives the seconds until it is, None where there is nothing to tell."""
        progress, pod, now = self._hearing.progress, self._hearing.progress_pod, monotonic()
        wait = self._pace.seconds_until_due(progress, pod, now)
        if wait is None or progress is None or (wait > 0 and not at_once):
            return wait
        self._pace.told(progress, pod, now)
        key = pod or "", TRAINING_CONTAINER
        position = self._share.position(key)
        # What is held of this log is not told by this record.
        knows = position != START and not self._share.holds_back_of(key)
        fields = {"loc": told_by(key, position)} if knows else {}
        self._log.info("%s", progress_text.render(progress), **fields)
        return None

    def _say(self, told: Iterable[Line | LeftOut]) -> None:
        for each in told:
            if self._speaker != each.key:
                self._speaker = each.key
                self._log.info(_SPEAKER, *each.key)
                self._share.spend(1, len(_SPEAKER) + sum(map(len, each.key)))
            fields = {"loc": told_by(each.key, each.position)} if each.position != START else {}
            if isinstance(each, Line):
                self._log.info("%s", each.text, **fields)
            else:
                self._say_left_out(each, fields)

    def _say_left_out(self, left_out: LeftOut, fields: Mapping[str, str]) -> None:
        pod, container = left_out.key
        self._share.spend(1, len(_LEFT_OUT) + 2 * (len(pod) + len(container)))
        self._log.warning(
            _LEFT_OUT,
            left_out.lines,
            left_out.size / _KIB,
            container,
            pod,
            self._namespace,
            pod,
            container,
            **fields,
        )
