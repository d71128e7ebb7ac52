"""Whether a run of the matrix kept the promise: its figures against those of a run in which nobody died. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.stack.faults.matrix import Cell


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What was seen of one run.

    :param trouble: why the cell's death was not dealt, or the run did not end; empty when all went as planned.
    :param state: of the run, in the end.
    :param tasks: state and number of tries of each task.
    :param gpu_seconds: of all pods of the training, but for those kept.
    :param kept_gpu_seconds: for which we kept pods from training, so that a death found one at work.
    :param in_flight_gpu_seconds: of the pods that held GPUs when the victim died, over their whole lives.
    :param attempts: pods that held GPUs.
    :param most_live_jobs: at any moment.
    :param holding: pods that held GPUs after the run's end.
    :param seconds: from the run's beginning to its end.
    """

    trouble: str = ""
    state: str = ""
    tasks: dict[str, tuple[str, int]] = field(default_factory=dict)
    gpu_seconds: float = 0.0
    kept_gpu_seconds: float = 0.0
    in_flight_gpu_seconds: float = 0.0
    attempts: int = 0
    jobs: tuple[str, ...] = ()
    most_live_jobs: int = 0
    holding: tuple[str, ...] = ()
    seconds: float = 0.0


def faults_of(cell: Cell, figures: Figures, uninterrupted: Figures | None, *, tolerance_s: float) -> list[str]:
    """Give what the run did wrong, a sentence each; none when it kept the promise.

    :param uninterrupted: of the same outcome, without a death; None for such a run itself.
    :param tolerance_s: GPU-seconds by which two runs may differ because a machine is busy; an attempt has more.
    """
    if figures.trouble:
        return [figures.trouble]
    faults = []
    if figures.state != "success":
        faults.append(f"the run ended as {figures.state or 'nothing'}: {_words(figures)}")
    if figures.most_live_jobs != 1:
        faults.append(f"{figures.most_live_jobs} Jobs of one training lived at once: {', '.join(figures.jobs)}")
    if figures.holding:
        faults.append(f"after the end GPUs are held by {', '.join(figures.holding)}")
    if uninterrupted is not None:
        allowed = uninterrupted.gpu_seconds + figures.in_flight_gpu_seconds + tolerance_s
        if figures.gpu_seconds > allowed:
            faults.append(
                f"{figures.gpu_seconds:.1f} GPU-seconds in {figures.attempts} attempts; undisturbed it is "
                f"{uninterrupted.gpu_seconds:.1f} in {uninterrupted.attempts}, in flight were "
                f"{figures.in_flight_gpu_seconds:.1f}"
            )
    return faults


def _words(figures: Figures) -> str:
    return ", ".join(f"{task} {state} in try {tries}" for task, (state, tries) in figures.tasks.items())
