"""How often progress is told: fast while somebody looks whether it works, seldom once a training has run for long."""

from __future__ import annotations

from typing import Final

from gpu_training.contract import Progress

SOONEST_S: Final = 2.0
_SELDOM_S: Final = 60.0
_PART: Final = 30
"""A line after each thirtieth of the time: about a hundred in the first half hour, and then one a minute."""


class Pace:
    """Decides when progress is told. A new checkpoint, the last step and another pod are told soon. Moments are seconds
    of any monotonic clock."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._told_at = float("-inf")
        self._told: tuple[str | None, Progress] | None = None

    def seconds_until_due(self, progress: Progress | None, pod: str | None, now: float) -> float | None:
        """Give how long this progress is not to be told yet: 0 for now; None where it is told, or there is none."""
        if progress is None or (pod, progress) == self._told:
            return None
        if self._since is None:
            self._since = now
        pause = SOONEST_S if self._is_news(progress, pod) else self._pause(now)
        return max(0.0, self._told_at + pause - now)

    def told(self, progress: Progress, pod: str | None, now: float) -> None:
        """Take note that it was told."""
        self._told, self._told_at = (pod, progress), now

    def _is_news(self, progress: Progress, pod: str | None) -> bool:
        if self._told is None:
            return True
        last_pod, last = self._told
        is_done = 0 < progress.total <= progress.step
        return pod != last_pod or progress.checkpoint_step != last.checkpoint_step or is_done

    def _pause(self, now: float) -> float:
        passed = now - self._since if self._since is not None else 0.0
        return min(_SELDOM_S, max(SOONEST_S, passed / _PART))
