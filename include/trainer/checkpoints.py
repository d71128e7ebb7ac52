"""Checkpoints of a lineage: written by many pods, each below its own name, and read by whoever comes next.

Layout: `<uri>/<writer>/step-00000040/{model.ubj, state.json, COMPLETE}`. COMPLETE is written last and holds the digests
of the other two, so that a checkpoint that a dying pod left half written is told from a whole one in any store.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from trainer.storage import Folder

MODEL, STATE, MARKER = "model.ubj", "state.json", "COMPLETE"
KEEP = 3
READ_PAUSES = (1.0, 3.0, 9.0)
"""Seconds between the tries of reading a store that does not answer."""

_STEP = re.compile(r"(?P<folder>[^/]+/step-(?P<step>[0-9]{8}))/(?P<name>[^/]+)")
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


class TornCheckpointError(ValueError):
    """A checkpoint that is not whole."""


class Checkpoints:
    """The checkpoints of one lineage.

    :param folder: where all writers have their folders.
    :param writer: name of this process's own.
    :param fingerprint: work that a checkpoint must belong to; others are passed over.
    """

    def __init__(self, folder: Folder, *, writer: str, fingerprint: str) -> None:
        self._folder = folder
        self._writer = writer
        self._fingerprint = fingerprint
        self._own: list[int] = []

    def newest(self, *, rounds: int, wait: Callable[[float], object]) -> Checkpoint | None:
        """Give the newest complete checkpoint of any writer; None when there is none.

        A store that does not answer is asked again a few times. After that the training begins at its first step,
        which costs GPU time again but not the training: a warning says so.
        """
        for pause in (*READ_PAUSES, None):
            try:
                return self._read_newest(rounds)
            except Exception as error:
                _log.warning("checkpoints at %s can not be read: %s: %s", self._folder.uri, type(error).__name__, error)
                if pause is not None:
                    wait(pause)
        _log.warning("TRAINING FROM THE FIRST STEP: checkpoints that may exist at %s are not used", self._folder.uri)
        return None

    def _read_newest(self, rounds: int) -> Checkpoint | None:
        matches = [match for path in self._folder.paths() if (match := _STEP.fullmatch(path))]
        found = {(int(match["step"]), match["folder"]) for match in matches}
        complete = {match["folder"] for match in matches if match["name"] == MARKER}
        for step, folder in sorted(found, reverse=True):
            try:
                if folder not in complete:
                    raise TornCheckpointError(f"{MARKER} is absent")
                checkpoint = self._read(folder, step)
            except (TornCheckpointError, FileNotFoundError) as error:
                _log.warning("checkpoint %s/%s is passed over: %s", self._folder.uri, folder, error)
                continue
            if checkpoint is not None and step <= rounds:
                _log.info("resuming after step %d from checkpoint %s/%s", step, self._folder.uri, folder)
                return checkpoint
        return None

    def _read(self, folder: str, step: int) -> Checkpoint | None:
        marker, state = self._document(folder, MARKER), self._document(folder, STATE)
        if state.get("fingerprint") != self._fingerprint:
            _log.warning("checkpoint %s/%s is of another training and is passed over", self._folder.uri, folder)
            return None
        model = self._folder.read(f"{folder}/{MODEL}")
        for name, digest in ((MODEL, _digest(model)), (STATE, _digest(_dump(state)))):
            if marker.get(name) != digest:
                raise TornCheckpointError(f"{name} is not what {MARKER} says")
        return Checkpoint(step=step, model=model, losses=_losses(state.get("losses"), step))

    def _document(self, folder: str, name: str) -> dict:  # type: ignore[type-arg]
        try:
            body = json.loads(self._folder.read(f"{folder}/{name}"))
        except ValueError as error:
            raise TornCheckpointError(f"{name} is not JSON: {error}") from error
        if not isinstance(body, dict):
            raise TornCheckpointError(f"{name} is not a JSON object")
        return body

    def save(self, checkpoint: Checkpoint) -> bool:
        """Write a checkpoint and remove this writer's older ones but the last few; tells whether it was written.

        A store that refuses is a warning: the training goes on, with more to lose.
        """
        folder = self._path(checkpoint.step)
        state = _dump({"step": checkpoint.step, "fingerprint": self._fingerprint, "losses": checkpoint.losses})
        marker = _dump({MODEL: _digest(checkpoint.model), STATE: _digest(state)})
        try:
            for name, content in ((MODEL, checkpoint.model), (STATE, state), (MARKER, marker)):
                self._folder.write(f"{folder}/{name}", content)
        except Exception as error:
            _log.warning(
                "checkpoint %s/%s was not written: %s: %s", self._folder.uri, folder, type(error).__name__, error
            )
            return False
        self._own.append(checkpoint.step)
        self._remove_old()
        return True

    def _remove_old(self) -> None:
        while len(self._own) > KEEP:
            folder = self._path(self._own.pop(0))
            try:
                # The marker first: what is left of a removal that breaks off is then torn, and not taken for whole.
                self._folder.remove(f"{folder}/{MARKER}")
                self._folder.remove(folder)
            except Exception as error:
                _log.warning("old checkpoint %s/%s was not removed: %s", self._folder.uri, folder, error)

    def _path(self, step: int) -> str:
        return f"{self._writer}/step-{step:08d}"


def _losses(value: object, step: int) -> dict[str, tuple[float, ...]]:
    if not isinstance(value, dict) or any(not isinstance(v, list) or len(v) != step for v in value.values()):
        raise TornCheckpointError(f"{STATE} does not hold the losses of {step} steps")
    return {str(name): tuple(float(v) for v in values) for name, values in value.items()}


def _dump(body: Mapping[str, object]) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode()


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"
