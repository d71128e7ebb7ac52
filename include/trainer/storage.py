"""A folder in any store that fsspec knows, such as s3:// or file://, by whole files."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any

import fsspec
from fsspec.utils import get_protocol

from gpu_training.checkpoints import DirectoryStore
from gpu_training.contract import content_sha256
from trainer.failures import ConfigurationFailure

_S3_CLIENT = {"connect_timeout": 5, "read_timeout": 30}
"""Seconds. The default of a minute each would hold a GPU for several minutes when the store is unreachable."""


class Folder:
    """Files below a URI, named by paths relative to it.

    Reading raises FileNotFoundError for what is not there, PermissionError where access is denied, and whatever the
    store's client raises else. Writing a file replaces it whole. Checkpoints can be kept there
    (:class:`gpu_training.checkpoints.Store`).
    """

    def __init__(self, uri: str) -> None:
        self.uri = uri.rstrip("/")
        protocol = get_protocol(uri)
        options: dict[str, Any] = {}
        if protocol in ("s3", "s3a"):
            # A cached listing would hide what another attempt wrote meanwhile.
            options = {"use_listings_cache": False, "config_kwargs": _S3_CLIENT}
        try:
            self._files, self._root = fsspec.url_to_fs(self.uri, **options)
        except (ValueError, ImportError) as error:
            raise ConfigurationFailure(f"{uri}: no store of this kind can be opened here: {error}") from error
        self._directory = DirectoryStore(self._root) if protocol in ("file", "local") else None

    def read(self, path: str) -> bytes:
        data: bytes = self._files.cat_file(f"{self._root}/{path}")
        return data

    def fetch(self, path: str) -> tuple[bytes, str]:
        """Give a file's content and its digest."""
        content = self.read(path)
        return content, content_sha256(content)

    def write(self, path: str, content: bytes) -> None:
        """Write a file whole, or not at all, as stores of objects do by themselves."""
        if self._directory is not None:
            self._directory.write(path, content)
        else:
            self._files.pipe_file(f"{self._root}/{path}", content)

    def remove(self, path: str) -> None:
        """Remove a file, or a folder with all below it; what is not there is no error."""
        with suppress(FileNotFoundError):
            self._files.rm(f"{self._root}/{path}", recursive=True)

    def ages(self) -> Mapping[str, float]:
        """Give every file below the folder, with the seconds since it was written; none when it does not exist."""
        try:
            found = self._files.find(self._root, detail=True)
        except FileNotFoundError:
            return {}
        now = time.time()
        return {path.removeprefix(self._root).lstrip("/"): age_of(entry, now) for path, entry in found.items()}


def age_of(entry: Mapping[str, Any], now: float) -> float:
    """Give the seconds since a file was written, which stores tell under different names; 0 where this one does not.

    Of a local file `created` is when its name, times or content last changed: the time of a copy that kept the others.
    """
    said = [entry.get(name) for name in ("mtime", "created", "LastModified")]
    times = [when.timestamp() if isinstance(when, datetime) else when for when in said]
    return now - max((when for when in times if isinstance(when, (int, float))), default=now)
