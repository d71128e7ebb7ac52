"""Data versions in a folder and in a real S3 server: which one a reference means, and that it is what it says."""

from __future__ import annotations

import hashlib
import json
import socket
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.mlflow_service import free_port
from tests.object_store_service import ObjectStoreServer

from gpu_training.contract import Manifest, ManifestFile, render_manifest
from gpu_training.core.dataversion import parse_data_version
from gpu_training.core.errors import ConfigurationError, DataVersionError
from gpu_training.core.model import DataSettings, DataSourceKind, Verification
from gpu_training.sources.resolution import DataSourceUnavailable, source_for

pytestmark = pytest.mark.unit

CONNECTION = "flights_under_test"


@dataclass(frozen=True)
class Store:
    """A store of versions, of either kind."""

    settings: DataSettings
    write: Callable[[str, bytes], None]
    remove: Callable[[str], None]

    def publish(self, version: str, created_at: str, **files: bytes) -> Manifest:
        """Publish a version of files; by default of one whose content is the version's id."""
        contents = {name.replace("__", "/"): content for name, content in files.items()} or {
            "part.csv": version.encode()
        }
        manifest = Manifest(
            id=version,
            created_at=created_at,
            files=tuple(
                ManifestFile(path=path, size=len(content), sha256=hashlib.sha256(content).hexdigest())
                for path, content in contents.items()
            ),
        )
        for path, content in contents.items():
            self.write(f"{version}/{path}", content)
        self.write(f"{version}/manifest.json", render_manifest(manifest).encode())
        return manifest

    def resolve(self, ref: str, run_after: str = "2026-06-01T00:00:00+00:00") -> dict[str, str]:
        moment = datetime.fromisoformat(run_after).timestamp()
        return source_for(self.settings).resolve(ref, run_after=moment).to_document()


def folder_store(tmp_path: Path) -> Store:
    root = tmp_path / "versions"
    root.mkdir()

    def write(path: str, content: bytes) -> None:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)

    settings = DataSettings(source=DataSourceKind.OBJECT_STORE_MANIFEST, uri=f"file://{root}", conn_id=None)
    return Store(settings=settings, write=write, remove=lambda path: (root / path).unlink())


def bucket_store(server: ObjectStoreServer, monkeypatch: pytest.MonkeyPatch) -> Store:
    bucket = f"flights-{uuid.uuid4().hex[:12]}"
    client = server.client
    client.create_bucket(Bucket=bucket)
    monkeypatch.setenv(f"AIRFLOW_CONN_{CONNECTION.upper()}", server.connection)
    settings = DataSettings(
        source=DataSourceKind.OBJECT_STORE_MANIFEST, uri=f"s3://{bucket}/versions", conn_id=CONNECTION
    )
    return Store(
        settings=settings,
        write=lambda path, content: client.put_object(Bucket=bucket, Key=f"versions/{path}", Body=content),
        remove=lambda path: client.delete_object(Bucket=bucket, Key=f"versions/{path}"),
    )


@pytest.fixture(params=["file", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    if request.param == "file":
        yield folder_store(tmp_path)
    else:
        yield bucket_store(request.getfixturevalue("object_store_server"), monkeypatch)


@pytest.fixture
def weeks(store: Store) -> Store:
    """Three versions whose names do not sort by time."""
    store.publish("c-first", "2026-01-05T00:00:00+00:00")
    store.publish("b-second", "2026-01-12T00:00:00+01:00", a=b"1", folder__b=b"22")
    store.publish("a-third", "2026-01-19T00:00:00+00:00")
    return store


@pytest.mark.parametrize(
    ("ref", "run_after", "expected"),
    [
        ("latest", "2026-06-01T00:00:00+00:00", "a-third"),
        ("latest", "2026-01-18T23:59:59+00:00", "b-second"),
        ("latest", "2026-01-12T00:00:00+01:00", "b-second"),
        ("b-second", "2020-01-01T00:00:00+00:00", "b-second"),
        ("as of 2026-01-06T00:00:00+00:00", "2026-06-01T00:00:00+00:00", "c-first"),
    ],
)
def test_a_reference_means_one_version(weeks: Store, ref: str, run_after: str, expected: str) -> None:
    document = weeks.resolve(ref, run_after)
    assert document["id"] == expected
    assert document["ref"] == ref
    assert document["uri"] == f"{weeks.settings.uri}/{expected}/manifest.json"
    assert parse_data_version(json.loads(json.dumps(document))).to_document() == document


def test_latest_stays_what_it_was_when_newer_data_arrives(weeks: Store) -> None:
    before = weeks.resolve("latest")
    weeks.publish("d-fourth", "2026-06-01T00:00:01+00:00")
    assert weeks.resolve("latest") == before
    assert weeks.resolve("latest", "2026-06-01T00:00:01+00:00")["id"] == "d-fourth"


def test_the_digest_is_of_the_content_alone(store: Store) -> None:
    store.publish("one", "2026-01-05T00:00:00+00:00", x=b"1", y=b"2")
    store.publish("two", "2026-01-06T00:00:00+00:00", y=b"2", x=b"1")
    store.publish("three", "2026-01-06T00:00:00+00:00", y=b"2", x=b"3")
    one, two, three = (store.resolve(version)["digest"] for version in ("one", "two", "three"))
    assert one == two != three


@pytest.mark.parametrize(
    ("ref", "message"),
    [
        (
            "b-secnd",
            r"data version 'b-secnd' is unknown \(did you mean 'b-second'\?\); the newest are: a-third, b-second",
        ),
        ("as of 2020-01-01T00:00:00+00:00", "none was there at 2020-01-01T00:00:00.*the oldest is c-first"),
        ("", "data version '': `latest`, an id"),
        ("as of 2026-01-01", "`latest`, an id"),
        ("../c-first", "`latest`, an id"),
    ],
)
def test_a_reference_that_means_nothing_is_told_with_what_there_is(weeks: Store, ref: str, message: str) -> None:
    with pytest.raises(DataVersionError, match=message):
        weeks.resolve(ref)


def test_a_store_without_versions_is_told(store: Store) -> None:
    for ref in ("latest", "some-id"):
        with pytest.raises(DataVersionError, match="versions"):
            store.resolve(ref)


def test_a_version_whose_manifest_is_not_written_yet_is_none(weeks: Store) -> None:
    weeks.write("z-unfinished/part.csv", b"half")
    weeks.write(".staging/manifest.json", b"not one")
    assert weeks.resolve("latest")["id"] == "a-third"
    with pytest.raises(DataVersionError, match="data version 'z-unfinished' is unknown"):
        weeks.resolve("z-unfinished")


def test_missing_files_are_told_before_anything_else(weeks: Store) -> None:
    weeks.remove("b-second/folder/b")
    with pytest.raises(DataVersionError, match=r"'b-second' is not what its manifest says: folder/b is missing \("):
        weeks.resolve("b-second")


def test_another_size_is_told(weeks: Store) -> None:
    weeks.write("b-second/a", b"11")
    with pytest.raises(DataVersionError, match="a has 2 bytes, not 1"):
        weeks.resolve("b-second")


def test_another_content_of_the_same_size_is_told(weeks: Store) -> None:
    weeks.write("b-second/a", b"2")
    with pytest.raises(DataVersionError, match=r"a has digest sha256:d4735.*, not sha256:6b86b"):
        weeks.resolve("b-second")


def test_a_long_list_of_faults_is_cut(store: Store) -> None:
    store.publish("many", "2026-01-05T00:00:00+00:00", **{f"f{n}": b"x" for n in range(9)})
    for n in range(9):
        store.remove(f"many/f{n}")
    with pytest.raises(DataVersionError, match="f4 is missing and 4 more"):
        store.resolve("many")


BAD_MANIFESTS = [
    (b"", "manifest is not JSON"),
    (b"{", "manifest is not JSON"),
    (b"\xff", "utf-8"),
    (b'{"v": 99}', "manifest"),
    (b'{"v": 1, "id": "bad", "created_at": "2026-01-05T00:00:00+00:00", "files": []}', "at least one file is expected"),
]


@pytest.mark.parametrize(("content", "message"), BAD_MANIFESTS)
def test_a_broken_manifest_is_told_and_not_passed_over(weeks: Store, content: bytes, message: str) -> None:
    weeks.write("bad/manifest.json", content)
    for ref in ("bad", "latest"):
        with pytest.raises(DataVersionError, match=f"(?s)versions/bad/manifest.json: .*{message}"):
            weeks.resolve(ref)
    assert weeks.resolve("c-first")["id"] == "c-first"


@pytest.mark.parametrize("created_at", ["2026-01-05T00:00:00", "yesterday"])
def test_a_time_without_an_offset_is_refused(store: Store, created_at: str) -> None:
    store.publish("v", created_at)
    with pytest.raises(DataVersionError, match=r"created_at=.*ISO 8601 with an offset is expected"):
        store.resolve("v")


def test_a_manifest_under_another_name_is_refused(weeks: Store) -> None:
    manifest = weeks.publish("copied", "2026-01-05T00:00:00+00:00")
    weeks.write("renamed/manifest.json", render_manifest(manifest).encode())
    with pytest.raises(DataVersionError, match="id='copied': the name of its folder, 'renamed', is expected"):
        weeks.resolve("renamed")


def test_sizes_alone_are_compared_where_the_model_says_so(tmp_path: Path) -> None:
    store = folder_store(tmp_path)
    store.publish("v", "2026-01-05T00:00:00+00:00", a=b"1")
    store.write("v/a", b"2")
    sizes_only = DataSettings(
        source=store.settings.source, uri=store.settings.uri, conn_id=None, verify=Verification.SIZES
    )
    assert source_for(sizes_only).resolve("v", run_after=0.0).id == "v"


def test_large_files_are_read_in_bounded_memory(store: Store) -> None:
    content = bytes(range(256)) * 4096 * 24
    store.publish("large", "2026-01-05T00:00:00+00:00", a=content, b=content[::-1])
    assert store.resolve("large")["id"] == "large"


def test_many_versions_are_read_side_by_side(store: Store) -> None:
    for n in range(60):
        store.publish(f"v{n:02d}", datetime.fromtimestamp(1_700_000_000 + 97 * (n * 37 % 60), UTC).isoformat())
    newest = next(n for n in range(60) if n * 37 % 60 == 59)
    assert store.resolve("latest")["id"] == f"v{newest:02d}"


def s3_settings(uri: str = "s3://flights/versions", conn_id: str | None = CONNECTION) -> DataSettings:
    return DataSettings(source=DataSourceKind.OBJECT_STORE_MANIFEST, uri=uri, conn_id=conn_id)


def test_a_missing_bucket_is_told(object_store_server: ObjectStoreServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"AIRFLOW_CONN_{CONNECTION.upper()}", object_store_server.connection)
    for ref in ("latest", "some-id"):
        with pytest.raises(
            DataVersionError, match=f"s3://no-such/x, connection '{CONNECTION}': not found.*check bucket"
        ):
            source_for(s3_settings("s3://no-such/x")).resolve(ref, run_after=0.0)


def test_a_missing_connection_is_told_and_not_taken_for_an_empty_one() -> None:
    with pytest.raises(ConfigurationError, match=r"data\.conn_id='nobody_made_it': an Airflow connection is expected"):
        source_for(s3_settings(conn_id="nobody_made_it")).resolve("latest", run_after=0.0)


def test_a_scheme_that_nobody_knows_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match=r"data\.uri='flub://flights/versions'"):
        source_for(s3_settings("flub://flights/versions", conn_id=None)).resolve("latest", run_after=0.0)


@pytest.mark.parametrize("fault", ["refused", "silent"])
def test_a_store_that_is_away_is_told_in_time_and_may_be_tried_again(
    monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1] if fault == "silent" else free_port()
        connection = {
            "conn_type": "aws",
            "login": "test",
            "password": "test",
            "extra": {"endpoint_url": f"http://127.0.0.1:{port}", "config_kwargs": {"read_timeout": 2}},
        }
        monkeypatch.setenv(f"AIRFLOW_CONN_AWAY_{fault.upper()}", json.dumps(connection))
        started = time.monotonic()
        with pytest.raises(DataSourceUnavailable, match=f"connection 'away_{fault}' can not be read.*endpoint_url"):
            source_for(s3_settings(conn_id=f"away_{fault}")).resolve("latest", run_after=0.0)
    assert time.monotonic() - started < 60


def test_a_folder_that_may_not_be_read_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = folder_store(tmp_path)
    store.publish("v", "2026-01-05T00:00:00+00:00")
    from fsspec.implementations.local import LocalFileSystem

    def denied(*_: object, **__: object) -> None:
        raise PermissionError("permission denied")

    # A test may run as root, to whom nothing is denied.
    monkeypatch.setattr(LocalFileSystem, "open", denied)
    with pytest.raises(DataVersionError, match="access denied: permission denied; check the connection's keys"):
        store.resolve("v")
