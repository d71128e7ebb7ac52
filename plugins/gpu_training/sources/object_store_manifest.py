"""Data versions in an object store: one folder a version, `<uri>/<id>/manifest.json` beside the files it lists."""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any, Final, TypeVar

from gpu_training.contract import ContractError, Manifest, ManifestFile, parse_manifest
from gpu_training.core.dataversion import (
    VERSION_ID,
    DataVersion,
    KnownVersion,
    check_reference,
    select_version,
)
from gpu_training.core.errors import ConfigurationError, DataVersionError, GpuTrainingError
from gpu_training.core.model import DataSettings, Verification
from gpu_training.sources.resolution import DataSourceUnavailable

MANIFEST_NAME: Final = "manifest.json"
MAX_MANIFEST_BYTES: Final = 32 * 1024 * 1024
_THREADS: Final = 16
# s3fs tries 5 times what botocore tries 5 times, a minute each: a store that is gone would hold a worker for an hour.
_S3_LIMITS: Final = {"connect_timeout": 5, "read_timeout": 30, "retries": {"max_attempts": 1}}
_S3_TRIES: Final = 2
_CHUNK_BYTES: Final = 4 * 1024 * 1024
_SHOWN: Final = 5

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class ObjectStoreManifests:
    """The versions below one URI, through Airflow's connection.

    A folder without a manifest is no version yet: who publishes writes the manifest last. Finding the latest reads
    every manifest, since only a manifest says when its version was made; that is done by sixteen at once. A manifest
    that can not be read or is malformed is an error, not passed over: it might be the one asked for, and `latest` must
    not change when somebody repairs it.

    :param settings: the model's.
    """

    def __init__(self, settings: DataSettings) -> None:
        self._settings = settings
        self._uri = settings.uri.rstrip("/")
        self._fs: Any = None
        self._root = ""

    def resolve(self, ref: str, *, run_after: float) -> DataVersion:
        """Give the version, verified: every file is there with its size and, unless the settings say `verify: sizes`,
        its digest, for which all of it is read, in bounded memory. Parameters and errors are those of `DataSource`."""
        ref = check_reference(ref)
        self._open()
        manifest = self._find(ref, run_after)
        self._verify(manifest)
        return DataVersion(
            source=self._uri,
            ref=ref,
            id=manifest.id,
            digest=manifest.digest,
            uri=f"{self._uri}/{manifest.id}/{MANIFEST_NAME}",
            created_at=manifest.created_at,
        )

    def _open(self) -> None:
        from airflow.sdk import Connection, ObjectStoragePath

        def opened() -> None:
            if self._settings.conn_id is not None:
                # The AWS hook takes a connection that is missing for an empty one, and goes on without keys.
                Connection.get(self._settings.conn_id)
            path = ObjectStoragePath(self._uri, conn_id=self._settings.conn_id)
            self._fs, self._root = path.fs, path.path.rstrip("/")
            self._fs.invalidate_cache()
            if isinstance(limits := getattr(self._fs, "config_kwargs", None), dict):
                for name, value in _S3_LIMITS.items():
                    limits.setdefault(name, value)
                self._fs.retries = _S3_TRIES

        self._asking(opened)

    def _find(self, ref: str, run_after: float) -> Manifest:
        if re.fullmatch(VERSION_ID, ref) and ref != "latest" and (named := self._manifest(ref)) is not None:
            return named
        found = {manifest.id: manifest for manifest in self._all()}
        if not found:
            raise DataVersionError(
                f"data version {ref!r}: {self._where} holds no versions; publish one, or check the URI"
            )
        known = [KnownVersion(id=entry.id, created_at=_made_at(entry)) for entry in found.values()]
        try:
            return found[select_version(known, ref, run_after).id]
        except DataVersionError as exc:
            raise DataVersionError(f"{exc} ({self._where})") from exc

    def _all(self) -> Iterable[Manifest]:
        entries: list[dict[str, Any]] = self._asking(lambda: self._fs.ls(self._root, detail=True))
        names = (posixpath.basename(entry["name"].rstrip("/")) for entry in entries if entry["type"] == "directory")
        ids = [name for name in names if re.fullmatch(VERSION_ID, name)]
        return [manifest for manifest in _in_parallel(self._manifest, ids) if manifest is not None]

    def _manifest(self, version: str) -> Manifest | None:
        """Give the manifest in a version's folder; None when there is none."""
        path = f"{self._root}/{version}/{MANIFEST_NAME}"

        def content() -> bytes | None:
            with self._fs.open(path, "rb", block_size=_CHUNK_BYTES) as stream:
                return bytes(stream.read(MAX_MANIFEST_BYTES + 1))

        raw = self._asking(content, missing=None)
        if raw is None:
            return None
        shown = f"manifest {self._uri}/{version}/{MANIFEST_NAME}"
        if len(raw) > MAX_MANIFEST_BYTES:
            raise DataVersionError(f"{shown}: at most {MAX_MANIFEST_BYTES} bytes are read: list fewer, larger files")
        try:
            manifest = parse_manifest(raw.decode())
            _made_at(manifest)
        except (ContractError, UnicodeDecodeError) as exc:
            raise DataVersionError(f"{shown}: {exc}; publish the version anew, or remove its folder") from exc
        if manifest.id != version:
            raise DataVersionError(f"{shown}: id={manifest.id!r}: the name of its folder, {version!r}, is expected")
        return manifest

    def _verify(self, manifest: Manifest) -> None:
        """Compare what is there with what the manifest lists, sizes first, since they cost one listing."""
        folder = f"{self._root}/{manifest.id}"
        sizes: dict[str, int] = self._asking(
            lambda: {name: entry["size"] for name, entry in self._fs.find(folder, detail=True).items()}
        )
        faults = []
        for entry in manifest.files:
            size = sizes.get(f"{folder}/{entry.path}")
            if size is None:
                faults.append(f"{entry.path} is missing")
            elif size != entry.size:
                faults.append(f"{entry.path} has {size} bytes, not {entry.size}")
        if not faults and self._settings.verify is Verification.CONTENT:
            faults = [fault for fault in _in_parallel(lambda e: self._digest_fault(folder, e), manifest.files) if fault]
        if faults:
            more = f" and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
            raise DataVersionError(
                f"data version {manifest.id!r} is not what its manifest says: {', '.join(faults[:_SHOWN])}{more} "
                f"({self._where}); publish it anew under another id"
            )

    def _digest_fault(self, folder: str, entry: ManifestFile) -> str | None:
        def digest() -> str:
            hasher = hashlib.sha256()
            with self._fs.open(f"{folder}/{entry.path}", "rb", block_size=_CHUNK_BYTES) as stream:
                while chunk := stream.read(_CHUNK_BYTES):
                    hasher.update(chunk)
            return hasher.hexdigest()

        found: str = self._asking(digest)
        return None if found == entry.sha256 else f"{entry.path} has digest sha256:{found}, not sha256:{entry.sha256}"

    @property
    def _where(self) -> str:
        return f"{self._uri}, connection {self._settings.conn_id!r}"

    def _asking(self, question: Callable[[], _Result], **missing: _Result) -> _Result:
        """Give the store's answer, or `missing` (if given) where nothing is; every fault of it becomes one of ours."""
        try:
            return question()
        except GpuTrainingError:
            raise
        except FileNotFoundError as exc:
            if "missing" in missing:
                return missing["missing"]
            raise DataVersionError(
                f"{self._where}: not found: {exc}; check bucket and path of data.uri, or publish a first version"
            ) from exc
        except PermissionError as exc:
            raise DataVersionError(
                f"{self._where}: access denied: {exc}; check the connection's keys and their rights to list and read"
            ) from exc
        except Exception as exc:
            raise self._translated(exc) from exc

    def _translated(self, exc: Exception) -> GpuTrainingError:
        cause = f"{type(exc).__name__}: {exc}"
        if type(exc).__name__ in ("AirflowNotFoundException", "AirflowRuntimeError"):
            return ConfigurationError(
                "data.conn_id", self._settings.conn_id, f"an Airflow connection is expected: {cause}"
            )
        if isinstance(exc, (ValueError, ImportError)):
            return ConfigurationError("data.uri", self._uri, f"an object store that fsspec knows is expected: {cause}")
        check = "check that the store runs, and the connection's endpoint_url and keys"
        return DataSourceUnavailable(f"{self._where} can not be read: {cause}; {check}")


def _made_at(manifest: Manifest) -> float:
    try:
        made = datetime.fromisoformat(manifest.created_at)
    except ValueError:
        made = None
    if made is None or made.tzinfo is None:
        raise ContractError(f"manifest: created_at={manifest.created_at!r}: ISO 8601 with an offset is expected")
    return made.timestamp()


def _in_parallel(work: Callable[[_Item], _Result], items: Iterable[_Item]) -> list[_Result]:
    with ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(work, items))
