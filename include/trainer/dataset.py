"""A data version's files, read once and trusted only after size and digest were compared with the manifest."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from gpu_training.contract import ContractError, Manifest, ManifestFile, parse_manifest
from trainer.failures import ConfigurationFailure, DataFailure, StorageFailure, TrainingFailure
from trainer.storage import Folder


class DataVersion:
    """The manifest at a URI, of the id and digest that were asked for.

    :raises DataFailure: absent, malformed, or of another id or digest.
    :raises StorageFailure: the store did not answer.
    """

    def __init__(self, uri: str, *, version: str, digest: str) -> None:
        folder, _, name = uri.rpartition("/")
        if not folder or not name:
            raise ConfigurationFailure(f"GPU_TRAINING_DATA_URI={uri!r}: the URI of a manifest file is expected")
        self._folder = Folder(folder)
        self.manifest = _parse(self._read(name), uri)
        if self.manifest.id != version:
            raise DataFailure(f"{uri}: id={self.manifest.id!r}: the data version asked for is {version!r}")
        if self.manifest.digest != digest:
            raise DataFailure(f"{uri}: digest={self.manifest.digest}: the digest asked for is {digest}")

    def files(self) -> Iterator[tuple[str, bytes]]:
        """Give path and content of each file, in the manifest's order.

        :raises DataFailure: a file is absent, or has another size or digest than the manifest says.
        """
        for entry in self.manifest.files:
            content = self._read(entry.path)
            _compare(entry, content, f"{self._folder.uri}/{entry.path}")
            yield entry.path, content

    def _read(self, path: str) -> bytes:
        uri = f"{self._folder.uri}/{path}"
        try:
            return self._folder.read(path)
        except Exception as error:
            raise _failure(uri, error) from error


def _parse(content: bytes, uri: str) -> Manifest:
    try:
        return parse_manifest(content.decode())
    except (ContractError, UnicodeDecodeError) as error:
        raise DataFailure(f"{uri}: {error}") from error


def _failure(uri: str, error: Exception) -> TrainingFailure:
    if isinstance(error, (FileNotFoundError, IsADirectoryError, NotADirectoryError)):
        return DataFailure(f"{uri}: there is no such file")
    if isinstance(error, PermissionError):
        return ConfigurationFailure(f"{uri}: access denied: check the credentials that the training's Secret holds")
    return StorageFailure(f"{uri}: the store did not answer: {type(error).__name__}: {error}")


def _compare(entry: ManifestFile, content: bytes, uri: str) -> None:
    if len(content) != entry.size:
        raise DataFailure(f"{uri}: {len(content)} bytes: the manifest says {entry.size}")
    if (found := hashlib.sha256(content).hexdigest()) != entry.sha256:
        raise DataFailure(f"{uri}: sha256={found}: the manifest says {entry.sha256}")
