"""The S3 server as a service that can be ended: unlike a real one it keeps nothing, so its objects are kept for it."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote, unquote
from xml.etree import ElementTree

from stack import object_store
from stack.object_store import FLIGHTS, MLFLOW, ObjectStore
from stack.service import Service

_S3 = "{http://s3.amazonaws.com/doc/2006-03-01/}"


class ObjectStoreService(Service):
    """The S3 server. Its objects are read before it is ended through here, and are there again after a restart.

    Uploads in parts that were under way are lost, as are all objects when it is ended while it is paused.
    """

    def kill(self, *, alone: bool = False) -> None:
        self._keep()
        super().kill(alone=alone)

    def stop(self) -> None:
        self._keep()
        super().stop()

    def restart(self) -> None:
        self._keep()
        super().restart()
        object_store.await_answer(self._host, self._record.store)
        object_store.make_buckets(self._record.store)
        _load(self._record.store, self._folder)

    @property
    def _folder(self) -> Path:
        return self._host.folder / "object-store"

    def _keep(self) -> None:
        if self.is_healthy():
            _save(self._record.store, self._folder)


def _save(store: ObjectStore, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for file in folder.iterdir():
        file.unlink()
    for bucket in (FLIGHTS, MLFLOW):
        for key in _keys(store, bucket):
            path = f"{bucket}/{quote(key)}"
            (folder / quote(path, safe="")).write_bytes(object_store.get(store, path))


def _load(store: ObjectStore, folder: Path) -> None:
    for file in sorted(folder.iterdir()) if folder.exists() else ():
        object_store.put(store, unquote(file.name), file.read_bytes())


def _keys(store: ObjectStore, bucket: str) -> list[str]:
    keys: list[str] = []
    page: dict[str, str] = {}
    while True:
        listing = ElementTree.fromstring(object_store.get(store, bucket, **{"list-type": "2"}, **page))  # noqa: S314
        keys += [str(each.text) for each in listing.iter(f"{_S3}Key")]
        token = listing.findtext(f"{_S3}NextContinuationToken")
        if token is None:
            return keys
        page = {"continuation-token": token}
