"""A booster and its losses as the files of a checkpoint; where they lie and which one counts, the contract says."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass

from gpu_training import checkpoints
from gpu_training.attempt import Attempt, Interrupted
from gpu_training.checkpoints import Checkpoints
from trainer.failures import TrainingFailure
from trainer.storage import Folder

MODEL, STATE = "model.ubj", "state.json"
READ_PAUSES = (1.0, 3.0, 9.0)
"""Seconds between the tries of reading a store that does not answer."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """State after a step.

    :param model: the booster, as UBJSON.
    :param losses: by metric, its value after each step from the first to `step`.
    """

    step: int
    model: bytes
    losses: Mapping[str, tuple[float, ...]]

    @property
    def files(self) -> dict[str, bytes]:
        state = json.dumps({"step": self.step, "losses": self.losses}, separators=(",", ":"))
        return {MODEL: self.model, STATE: state.encode()}


def open_checkpoints(uri: str, *, writer: str, fingerprint: str) -> Checkpoints[bytes]:
    """Give the checkpoints at a URI of any store that fsspec knows."""
    return Checkpoints(Folder(uri), writer=writer, fingerprint=fingerprint, say=_log.warning)


def resume(attempt: Attempt, *, rounds: int) -> Checkpoint | None:
    """Give what the attempt goes on from; None to begin.

    A store that does not answer is asked again a few times. After that the training begins at its first step, which
    costs GPU time again but not the training: a warning says so.

    :raises Interrupted: SIGTERM arrived meanwhile.
    """
    for pause in (*READ_PAUSES, None):
        try:
            found = attempt.resume(last_step=rounds)
        except OSError as error:
            _log.warning("checkpoints can not be read: %s: %s", type(error).__name__, error)
            if pause is not None and attempt.should_stop(wait=pause):
                raise Interrupted("interrupted by SIGTERM while the checkpoints could not be read") from error
        else:
            return _read(found) if found is not None else None
    _log.warning("TRAINING FROM THE FIRST STEP: checkpoints that may exist are not used")
    attempt.resumed_from(0)
    return None


def _read(found: checkpoints.Checkpoint[bytes]) -> Checkpoint:
    losses = json.loads(found.files[STATE])["losses"]
    if any(len(values) != found.step for values in losses.values()):
        raise TrainingFailure(f"checkpoint {found.folder}: {STATE} does not hold the losses of {found.step} steps")
    _log.info("resuming after step %d from checkpoint %s", found.step, found.folder)
    return Checkpoint(
        step=found.step,
        model=found.files[MODEL],
        losses={name: tuple(float(value) for value in values) for name, values in losses.items()},
    )
