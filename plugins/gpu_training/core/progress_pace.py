"""How often progress is told: fast while somebody looks whether it works, seldom once a training has run for long."""

from __future__ import annotations

from typing import Final

from gpu_training.contract import Progress

SOONEST_S: Final = 2.0
_SELDOM_S: Final = 60.0
_PART: Final = 30
"""A line after each thirtieth of the time: about a hundred in the first half hour, and then one a minute."""
_MOST_PODS: Final = 1000
"""Pods that are known to have been told."""


class Pace:
    """Decides when progress is told. A new checkpoint, a pod's last step and a pod that was not told before are told
    soon; pods that take turns are no news. Moments are seconds of any monotonic clock."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._told_at = float("-inf")
        self._told: tuple[str | None, Progress] | None = None
        self._pods: dict[str | None, Progress] = {}
        self._checkpoint: int | None = None

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
        checkpoint = progress.checkpoint_step
        if pod not in self._pods or self._is_newer(checkpoint):
            # A pod that begins may begin before what others have reached.
            self._checkpoint = checkpoint
        self._told, self._told_at = (pod, progress), now
        self._pods.pop(pod, None)
        self._pods[pod] = progress
        if len(self._pods) > _MOST_PODS:
            del self._pods[next(iter(self._pods))]

    def _is_news(self, progress: Progress, pod: str | None) -> bool:
        last = self._pods.get(pod)
        if last is None:
            return True
        is_done = 0 < progress.total <= progress.step
        return self._is_newer(progress.checkpoint_step) or (is_done and progress.step != last.step)

    def _is_newer(self, checkpoint: int | None) -> bool:
        return checkpoint is not None and (self._checkpoint is None or checkpoint > self._checkpoint)

    def _pause(self, now: float) -> float:
        passed = now - self._since if self._since is not None else 0.0
        return min(_SELDOM_S, max(SOONEST_S, passed / _PART))
