"""Which steps of the training an attempt did, by what it says of itself: the evidence that a retry went on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from gpu_training.contract import Progress, Result


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """What one pod said of its steps.

    :param first: first step that it did; None when it did not say so in so many words.
    :param least: least step that it reported as done; it may have done some before. That nothing is done yet (step 0)
        is no such report: programs say it while they load.
    :param last: greatest step that it reported as done.
    :param checkpoint: step of the newest complete checkpoint that it reported.
    """

    first: int | None = None
    least: int | None = None
    last: int | None = None
    checkpoint: int | None = None

    def after(self, progress: Progress) -> Steps:
        """Give the steps with those of one more progress line; nothing that was said once is taken back."""
        return self.joined(
            Steps(
                first=progress.first_step,
                least=progress.step or None,
                last=progress.step,
                checkpoint=progress.checkpoint_step,
            )
        )

    def joined(self, other: Steps) -> Steps:
        """Give what either of two sights of the same pod knows."""
        return Steps(
            first=self.first if self.first is not None else other.first,
            least=_of(min, self.least, other.least),
            last=_of(max, self.last, other.last),
            checkpoint=_of(max, self.checkpoint, other.checkpoint),
        )


def steps_of_result(result: Result) -> Steps:
    """Give the steps that a result document tells."""
    return Steps(first=result.first_step, last=result.last_step, checkpoint=result.checkpoint_step)


def _of(choose: Callable[[Iterable[int]], int], *sights: int | None) -> int | None:
    known = [each for each in sights if each is not None]
    return choose(known) if known else None
