"""Volumes hold what the pod asked for, and change as a whole."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from sandbox.agent.environment import Source, SourceKind
from sandbox.agent.volume_files import write_files
from sandbox.agent.volumes import (
    Token,
    VolumeError,
    VolumeFile,
    VolumeInputs,
    VolumeUnsupportedError,
    build_files,
    kind_of,
    memory_size,
    referenced_sources,
    referenced_tokens,
)

pytestmark = pytest.mark.unit

POD: dict[str, Any] = {
    "metadata": {"name": "p", "namespace": "ns", "uid": "u", "labels": {"a": "1"}},
    "spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "2"}}}]},
}
CONFIG, SECRET = Source(SourceKind.CONFIG_MAP, "cm"), Source(SourceKind.SECRET, "s")
TOKEN = Token(audience="", expiration_seconds=3607)
INPUTS = VolumeInputs(
    sources={CONFIG: {"a": b"A", "b": b"B"}, SECRET: {"k": b"K"}}, tokens={TOKEN: b"T"}, allocatable={}
)


def files(volume: dict[str, Any], inputs: VolumeInputs = INPUTS) -> dict[str, tuple[bytes, int]]:
    built = build_files(POD, {"name": "v", **volume}, inputs)
    return {path: (file.content, file.mode) for path, file in built.items()}


@pytest.mark.parametrize(
    ("volume", "expected"),
    [
        ({"configMap": {"name": "cm"}}, {"a": (b"A", 0o644), "b": (b"B", 0o644)}),
        (
            {"configMap": {"name": "cm", "defaultMode": 0o600, "items": [{"key": "a", "path": "x/y", "mode": 0o400}]}},
            {"x/y": (b"A", 0o400)},
        ),
        ({"secret": {"secretName": "s", "defaultMode": 0o400}}, {"k": (b"K", 0o400)}),
        (
            {"downwardAPI": {"items": [{"path": "n", "fieldRef": {"fieldPath": "metadata.name"}}]}},
            {"n": (b"p", 0o644)},
        ),
        (
            {
                "downwardAPI": {
                    "items": [{"path": "n", "resourceFieldRef": {"containerName": "c", "resource": "limits.cpu"}}]
                }
            },
            {"n": (b"2", 0o644)},
        ),
        (
            {
                "projected": {
                    "defaultMode": 0o640,
                    "sources": [
                        {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}},
                        {"configMap": {"name": "cm", "items": [{"key": "a", "path": "ca.crt"}]}},
                        {"secret": {"name": "s"}},
                    ],
                }
            },
            {"token": (b"T", 0o640), "ca.crt": (b"A", 0o640), "k": (b"K", 0o640)},
        ),
        ({"emptyDir": {}}, {}),
    ],
)
def test_volume_has_the_files_that_the_pod_names(
    volume: dict[str, Any], expected: dict[str, tuple[bytes, int]]
) -> None:
    assert files(volume) == expected


@pytest.mark.parametrize(
    ("volume", "words"),
    [
        ({"secret": {"secretName": "no"}}, 'MountVolume.SetUp failed for volume "v" : secret "no" not found'),
        ({"configMap": {"name": "no"}}, 'MountVolume.SetUp failed for volume "v" : configmap "no" not found'),
        (
            {"configMap": {"name": "cm", "items": [{"key": "z", "path": "z"}]}},
            "configmap references non-existent config key: z",
        ),
        (
            {"secret": {"secretName": "s", "items": [{"key": "z", "path": "z"}]}},
            "references non-existent secret key: z",
        ),
    ],
)
def test_missing_content_is_told_in_the_kubelet_s_words(volume: dict[str, Any], words: str) -> None:
    with pytest.raises(VolumeError, match=words):
        files(volume)


def test_optional_content_that_is_missing_leaves_the_volume_without_it() -> None:
    assert files({"secret": {"secretName": "no", "optional": True}}) == {}
    items = [{"key": "a", "path": "a"}, {"key": "z", "path": "z"}]
    assert set(files({"configMap": {"name": "cm", "optional": True, "items": items}})) == {"a"}


@pytest.mark.parametrize("kind", ["hostPath", "persistentVolumeClaim", "nfs", "csi", "ephemeral"])
def test_volume_of_another_kind_is_refused_by_name(kind: str) -> None:
    with pytest.raises(VolumeUnsupportedError, match=f'volume "v": {kind} is not available on nodes of kind process'):
        kind_of({"name": "v", kind: {}})


def test_objects_and_tokens_of_a_volume_are_named() -> None:
    volume = {
        "name": "v",
        "projected": {
            "sources": [
                {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}},
                {"configMap": {"name": "cm"}},
            ]
        },
    }
    assert referenced_sources(volume) == {CONFIG}
    assert referenced_tokens(volume) == {TOKEN}


@pytest.mark.parametrize(
    ("volume", "size"),
    [
        ({"emptyDir": {}}, None),
        ({"emptyDir": {"medium": "Memory"}}, ""),
        ({"emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}, "1Gi"),
        ({"emptyDir": None}, None),
    ],
)
def test_memory_volumes_are_told_from_others(volume: dict[str, Any], size: str | None) -> None:
    assert memory_size(volume) == size


def file(content: bytes, mode: int = 0o644) -> VolumeFile:
    return VolumeFile(content=content, mode=mode)


def test_files_are_replaced_as_a_whole(tmp_path: Path) -> None:
    folder = tmp_path / "v"
    assert write_files(folder, {"a": file(b"1"), "deep/b": file(b"2", 0o400)})
    first = os.readlink(folder / "..data")
    assert not write_files(folder, {"a": file(b"1"), "deep/b": file(b"2", 0o400)})
    assert ((folder / "a").read_bytes(), (folder / "deep" / "b").read_bytes()) == (b"1", b"2")
    assert (folder / "deep" / "b").stat().st_mode & 0o777 == 0o400
    assert write_files(folder, {"a": file(b"3")})
    assert sorted(path.name for path in folder.iterdir()) == sorted(["..data", os.readlink(folder / "..data"), "a"])
    assert (folder / "a").read_bytes() == b"3"
    assert os.readlink(folder / "..data") != first
