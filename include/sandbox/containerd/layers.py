"""Layers of container images: a tree of files as a tar archive that is the same for the same files."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import stat
import tarfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

ARCHIVE = "layer.tar.gz"
RECORD = "layer.json"
CHUNK = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """A layer in the cache.

    :param digest: of the compressed archive, as is `size` in bytes.
    :param diff_id: digest of the archive itself.
    """

    folder: Path
    digest: str
    diff_id: str
    size: int

    @property
    def archive(self) -> Path:
        """Give the compressed archive."""
        return self.folder / ARCHIVE

    @classmethod
    def read(cls, folder: Path) -> Layer:
        """Read what :func:`write_layer` wrote."""
        return cls(folder=folder, **json.loads((folder / RECORD).read_text()))


class _Sink(Protocol):
    def write(self, data: bytes, /) -> int: ...
    def flush(self) -> None: ...


class _Hashing:
    """A file to write to that hashes what passes."""

    def __init__(self, file: _Sink) -> None:
        self._file = file
        self._hash = hashlib.sha256()
        self.size = 0

    def write(self, data: bytes) -> int:
        self._hash.update(data)
        self.size += len(data)
        return self._file.write(data)

    def flush(self) -> None:
        self._file.flush()

    @property
    def digest(self) -> str:
        return f"sha256:{self._hash.hexdigest()}"


def write_layer(folder: Path, entries: Iterable[tuple[Path, str]]) -> Layer:
    """Write files as a layer into a folder.

    :param entries: each a file and its path in the image, folders before what is in them. Owner, mode and links are
        kept; times are not, so that the same content gives the same digest.
    """
    with (folder / ARCHIVE).open("wb") as file:
        packed = _Hashing(file)
        # Level 1: half a second of a node's start matters, a few megabytes of the cache do not.
        with gzip.GzipFile(filename="", mode="wb", compresslevel=1, fileobj=packed, mtime=0) as compressing:
            plain = _Hashing(compressing)
            with tarfile.open(mode="w|", fileobj=plain, format=tarfile.GNU_FORMAT) as archive:  # type: ignore[call-overload]
                _fill(archive, entries)
    layer = Layer(folder=folder, digest=packed.digest, diff_id=plain.digest, size=packed.size)
    record = {key: value for key, value in asdict(layer).items() if key != "folder"}
    (folder / RECORD).write_text(json.dumps(record))
    return layer


def tree(root: Path, *, at: str = "", keep: Callable[[str], bool] = lambda _: True) -> Iterator[tuple[Path, str]]:
    """Give what lies below a folder, in a fixed order, for :func:`write_layer`.

    :param at: the folder's own path in the image.
    :param keep: asked with each path in the image; what is below a folder that is not kept is left out, too.
    """
    for entry in sorted(os.scandir(root), key=lambda each: each.name):
        name = f"{at}/{entry.name}".lstrip("/")
        if not keep(name):
            continue
        yield Path(entry.path), name
        if entry.is_dir(follow_symlinks=False):
            yield from tree(Path(entry.path), at=name, keep=keep)


def folders(path: str, model: Path) -> Iterator[tuple[Path, str]]:
    """Give the folders that lead to a path of the image, with the owner and mode of another folder."""
    parts = path.split("/")
    for end in range(1, len(parts) + 1):
        yield model, "/".join(parts[:end])


def _fill(archive: tarfile.TarFile, entries: Iterable[tuple[Path, str]]) -> None:
    seen: dict[tuple[int, int], str] = {}
    for path, name in entries:
        status = path.lstat()
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode) or stat.S_ISLNK(status.st_mode)):
            continue
        header = tarfile.TarInfo(name)
        header.mode, header.uid, header.gid = stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid
        if stat.S_ISDIR(status.st_mode):
            header.type = tarfile.DIRTYPE
            archive.addfile(header)
        elif stat.S_ISLNK(status.st_mode):
            header.type, header.linkname = tarfile.SYMTYPE, os.readlink(path)
            archive.addfile(header)
        elif (first := seen.get((status.st_dev, status.st_ino))) is not None:
            header.type, header.linkname = tarfile.LNKTYPE, first
            archive.addfile(header)
        else:
            if status.st_nlink > 1:
                seen[status.st_dev, status.st_ino] = name
            header.size = status.st_size
            with path.open("rb") as content:
                archive.addfile(header, content)
