"""Checkpoints that many pods share, kept in any store by the rules of `contract.py`; a folder is such a store.

Standard library only, and of this package only `contract.py`: both files go into training images.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from gpu_training.contract import (
    CHECKPOINT_MARKER,
    CHECKPOINTS_KEPT,
    Candidate,
    ContractError,
    Marker,
    TornCheckpointError,
    Variable,
    checkpoint_folder,
    content_sha256,
    find_candidates,
    is_file_name,
    parse_marker,
    plan_pruning,
    render_marker,
)

_LISTINGS = 10

_Content = TypeVar("_Content")
_Content_co = TypeVar("_Content_co", covariant=True)


class Store(Protocol[_Content_co]):
    """Where checkpoints are: files named by paths relative to `uri`. :class:`DirectoryStore` is one."""

    @property
    def uri(self) -> str: ...

    def ages(self) -> Mapping[str, float]:
        """Give every file, with the seconds since it was written (0: unknown); none when there is no folder yet."""

    def read(self, path: str) -> bytes:
        """Give a file's content.

        :raises FileNotFoundError: it is not there.
        """

    def fetch(self, path: str) -> tuple[_Content_co, str]:
        """Give a file as this store hands files out, in memory or as a local path, and its :func:`content_sha256`.

        :raises FileNotFoundError: it is not there.
        """

    def write(self, path: str, content: bytes) -> None:
        """Write a file whole, or not at all; when this returns, it is there for every reader."""

    def remove(self, path: str) -> None:
        """Remove a file, or a folder with all below it; what is not there is no error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint(Generic[_Content]):
    """A whole checkpoint.

    :param folder: relative to the checkpoint URI.
    :param files: by name, as the store hands files out: paths in a directory.
    """

    step: int
    folder: str
    files: Mapping[str, _Content]


def print_warning(text: str) -> None:
    """Print a warning to standard error. A closed pipe fails no training."""
    with suppress(OSError, ValueError):
        sys.stderr.write(f"WARNING {text}\n")
        sys.stderr.flush()


class Checkpoints(Generic[_Content]):
    """The checkpoints of one lineage, by the rules of the contract.

    :param writer: name of this process's own folder: the pod's UID.
    :param fingerprint: work that a checkpoint must belong to; others are passed over, and left alone.
    :param keep: complete ones that stay, of whichever writer; at least 1.
    :param say: takes warnings.
    """

    def __init__(
        self,
        store: Store[_Content],
        *,
        writer: str,
        fingerprint: str = "",
        keep: int = CHECKPOINTS_KEPT,
        say: Callable[[str], object] = print_warning,
    ) -> None:
        if keep < 1:
            raise ContractError(f"keep={keep}: at least 1 checkpoint has to stay for whoever resumes")
        self._store, self._writer, self._fingerprint, self._keep = store, writer, fingerprint, keep
        self._say = say
        self._in_use: str | None = None
        self._damaged: set[str] = set()

    def newest(self, *, last_step: int | None = None) -> Checkpoint[_Content] | None:
        """Give the newest whole checkpoint of any writer; None when there is none.

        What is passed over is told, with the reason: no marker, or files that are not as the marker says.

        :param last_step: those of later steps are passed over; None: there is no last step.
        :raises OSError: the store does not answer as it should.
        """
        for _ in range(_LISTINGS):
            try:
                return self._newest_listed(last_step)
            except _RemovedMeanwhile:
                # Another writer prunes: it has newer ones, which the next listing shows.
                continue
        raise OSError(f"{self._store.uri}: checkpoints are removed faster than they can be read")

    def _newest_listed(self, last_step: int | None) -> Checkpoint[_Content] | None:
        denied: PermissionError | None = None
        for candidate in find_candidates(self._store.ages()):
            if last_step is not None and candidate.step > last_step:
                self._say(f"{self._name(candidate)} is passed over: the training ends at step {last_step}")
                continue
            try:
                checkpoint = self._read(candidate)
            except TornCheckpointError as error:
                if candidate.is_marked:
                    self._damaged.add(candidate.folder)
                self._say(f"{self._name(candidate)} is passed over: {error}")
                continue
            except PermissionError as error:
                self._say(f"{self._name(candidate)} is passed over: it may not be read: {error}")
                denied = error
                continue
            if checkpoint is not None:
                self._in_use = candidate.folder
                return checkpoint
        if denied is not None:
            # Nothing else is whole: no proof that there is nothing to go on from.
            raise denied
        return None

    def _name(self, candidate: Candidate) -> str:
        return f"checkpoint {self._store.uri}/{candidate.folder}"

    def _read(self, candidate: Candidate) -> Checkpoint[_Content] | None:
        if not candidate.is_marked:
            raise TornCheckpointError(f"{CHECKPOINT_MARKER} is absent: its writer was stopped in the middle, or writes")
        marker_path = f"{candidate.folder}/{CHECKPOINT_MARKER}"
        files, name = {}, CHECKPOINT_MARKER
        try:
            marker = parse_marker(self._store.read(marker_path), candidate.step)
            if marker.fingerprint != self._fingerprint:
                self._say(f"{self._name(candidate)} is passed over: it is of other work")
                return None
            for name, digest in marker.files.items():
                files[name], actual = self._store.fetch(f"{candidate.folder}/{name}")
                if actual != digest:
                    raise TornCheckpointError(f"{name} is not what {CHECKPOINT_MARKER} says")
        except FileNotFoundError:
            if marker_path not in self._store.ages():
                raise _RemovedMeanwhile from None
            raise TornCheckpointError(f"{name} is absent") from None
        except (IsADirectoryError, NotADirectoryError):
            raise TornCheckpointError(f"{name} is no file") from None
        return Checkpoint(step=candidate.step, folder=candidate.folder, files=files)

    def save(self, step: int, files: Mapping[str, bytes] | Callable[[Path], object]) -> bool:
        """Write a checkpoint; tells whether it is there. A store that refuses is a warning: the training goes on.

        What a function of the program raises is an error of the program, but for OSError.

        :param files: contents by name; or, where the store has `write_by` as a directory has, what writes files there.
        """
        folder = checkpoint_folder(self._writer, step)
        try:
            if not self._is_whole(folder, step):
                self._write(folder, step, files)
        except ContractError:
            raise
        except Exception as error:
            # A store has errors of its own kinds; of a directory all are OSError, and others the program's.
            if not isinstance(error, OSError) and not isinstance(files, Mapping):
                raise
            self._say(f"checkpoint {self._store.uri}/{folder} was not written: {type(error).__name__}: {error}")
            return False
        self._damaged.discard(folder)
        self._in_use = folder
        return True

    def _is_whole(self, folder: str, step: int) -> bool:
        """Tell whether an earlier container of this pod has left it: writing it anew would tear it for a while."""
        marker = self._marker(folder, step)
        if marker is None or marker.fingerprint != self._fingerprint:
            return False
        with suppress(FileNotFoundError, IsADirectoryError, NotADirectoryError):
            return all(self._store.fetch(f"{folder}/{name}")[1] == digest for name, digest in marker.files.items())
        return False

    def _marker(self, folder: str, step: int) -> Marker | None:
        with suppress(FileNotFoundError, TornCheckpointError):
            return parse_marker(self._store.read(f"{folder}/{CHECKPOINT_MARKER}"), step)
        return None

    def _write(self, folder: str, step: int, files: Mapping[str, bytes] | Callable[[Path], object]) -> None:
        self._store.remove(f"{folder}/{CHECKPOINT_MARKER}")
        if isinstance(files, Mapping):
            _check_names(files)
            if odd := [name for name, content in files.items() if not isinstance(content, (bytes, bytearray))]:
                raise ContractError(f"files[{odd[0]!r}] is a {type(files[odd[0]]).__name__}: bytes are expected")
            for name, content in files.items():
                self._store.write(f"{folder}/{name}", content)
            digests = {name: content_sha256(content) for name, content in files.items()}
        elif (write_by := getattr(self._store, "write_by", None)) is not None:
            digests = write_by(folder, files)
        else:
            raise ContractError(f"files={files!r}: {self._store.uri} is no directory: contents by name are expected")
        marker = Marker(step=step, fingerprint=self._fingerprint, files=digests)
        self._store.write(f"{folder}/{CHECKPOINT_MARKER}", render_marker(marker).encode())

    def prune(self) -> None:
        """Remove what the rules allow to go. A store that refuses is a warning."""
        try:
            for candidate in self._prunable():
                # The marker first: what is left of a removal that breaks off is then torn, and not taken for whole.
                self._store.remove(f"{candidate.folder}/{CHECKPOINT_MARKER}")
                self._store.remove(candidate.folder)
        except Exception as error:
            self._say(f"old checkpoints at {self._store.uri} were not removed: {type(error).__name__}: {error}")

    def _prunable(self) -> list[Candidate]:
        candidates = find_candidates(self._store.ages())
        # What was found damaged counts for nobody, and is left to its writer: it may have been written anew meanwhile.
        complete, foreign = set(), set(self._damaged)
        for candidate in candidates:
            marker = self._marker(candidate.folder, candidate.step) if candidate.is_marked else None
            # A marker that is not understood may be of a newer release: only what has none is torn.
            if candidate.is_marked and (marker is None or marker.fingerprint != self._fingerprint):
                foreign.add(candidate.folder)
            elif marker is not None and candidate.names >= marker.files.keys():
                complete.add(candidate.folder)
        return plan_pruning(candidates, complete, keep=self._keep, in_use=self._in_use, foreign=foreign)


def _check_names(names: Collection[str]) -> None:
    if odd := [name for name in names if not is_file_name(name)]:
        raise ContractError(
            f"files={odd!r}: each file's name in its folder is expected, and none is {CHECKPOINT_MARKER}"
        )
    if not names:
        raise ContractError("files: no file was given: at least one file is expected")


class _RemovedMeanwhile(Exception):
    """A checkpoint has gone between the listing that showed it and its reading."""


class DirectoryStore:
    """A folder of a plain file system; what it hands out are paths.

    :param uri: `file://` and the path from the root on, or that alone. It is taken as it stands, `%` too, as fsspec
        does, and as a shell can.
    :param clock: gives the seconds since 1970.
    :raises ContractError: a URI of another kind, or a path from somewhere else on.
    """

    def __init__(self, uri: str, *, clock: Callable[[], float] = time.time) -> None:
        path = uri.removeprefix("file://")
        if not path.startswith("/"):
            raise ContractError(
                f"{Variable.CHECKPOINT_URI}={uri!r}: a folder is expected, as file:///path or /path; for other stores "
                "give Attempt the Checkpoints of a Store of your own"
            )
        self._root, self._clock = Path(path), clock
        self.uri = uri.rstrip("/")

    def ages(self) -> Mapping[str, float]:
        ages, now = {}, self._clock()
        for folder, _, names in os.walk(self._root, onerror=_refuse):
            for name in names:
                path = Path(folder, name)
                with suppress(FileNotFoundError):
                    # Files copied with their times seem to have been written long ago; they have come just now.
                    status = path.stat()
                    ages[path.relative_to(self._root).as_posix()] = now - max(status.st_mtime, status.st_ctime)
        return ages

    def read(self, path: str) -> bytes:
        return (self._root / path).read_bytes()

    def fetch(self, path: str) -> tuple[Path, str]:
        with (self._root / path).open("rb") as file:
            return self._root / path, f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"

    def write(self, path: str, content: bytes) -> None:
        target = self._root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.with_name(f".{target.name}.draft")
        with draft.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(target)
        _sync(target.parent)

    def write_by(self, folder: str, write: Callable[[Path], object]) -> dict[str, str]:
        """Have the files of a folder written; gives the digest of each.

        :raises ContractError: none was written, or one of a name that no checkpoint may have.
        """
        target = self._root / folder
        if target.exists():
            shutil.rmtree(target)
        target.mkdir(parents=True)
        write(target)
        paths = {path.relative_to(target).as_posix(): path for path in sorted(target.rglob("*")) if path.is_file()}
        if not paths:
            raise ContractError(f"{target}: no file was written there: a checkpoint has at least one")
        try:
            _check_names(paths)
        except ContractError:
            # What is named as the marker must not stay there.
            shutil.rmtree(target)
            raise
        digests = {}
        for name, path in paths.items():
            _sync(path)
            digests[name] = self.fetch(f"{folder}/{name}")[1]
        return digests

    def remove(self, path: str) -> None:
        target = self._root / path
        with suppress(FileNotFoundError):
            shutil.rmtree(target) if target.is_dir() else target.unlink()


def _refuse(error: OSError) -> None:
    """Have a folder that can not be listed be an error: the training would begin at its first step, silently."""
    if not isinstance(error, FileNotFoundError):
        raise error


def _sync(path: Path) -> None:
    """Have a file's content, or a folder's list, on the disk before anything says that it is there."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
