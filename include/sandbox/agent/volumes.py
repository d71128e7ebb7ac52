"""What is in a pod's volumes: ConfigMaps, Secrets, the downward API, tokens. Pure; :mod:`volume_files` writes it.

https://kubernetes.io/docs/concepts/storage/volumes/
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sandbox.agent.environment import (
    ContainerConfigError,
    Source,
    SourceKind,
    Sources,
    field_value,
    resource_value,
)

Document = Mapping[str, Any]

DEFAULT_MODE = 0o644

_EMPTY_DIR = "emptyDir"
_PLAIN = ("configMap", "secret", "downwardAPI")
_CONTENT = (*_PLAIN, "projected")

_MISSING_KEY = {
    SourceKind.CONFIG_MAP: "configmap references non-existent config key: ",
    SourceKind.SECRET: "references non-existent secret key: ",
}


class VolumeError(Exception):
    """A volume is not ready; it may be later. The message is the kubelet's, for a FailedMount event."""


class VolumeUnsupportedError(Exception):
    """A volume that this kind of node can never give."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeFile:
    """One file of a volume."""

    content: bytes
    mode: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A service account token that the pod asks for. `audience` is empty for the API server's own."""

    audience: str
    expiration_seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeInputs:
    """What the pod's volumes are made from: objects, tokens, the node's allocatable resources."""

    sources: Sources
    tokens: Mapping[Token, bytes]
    allocatable: Mapping[str, str]


def kind_of(volume: Document) -> str:
    """Return the kind of a volume.

    :raises VolumeUnsupportedError: for those that nodes of kind `process` do not have.
    """
    kind = next((key for key in volume if key != "name"), _EMPTY_DIR)
    if kind == _EMPTY_DIR or kind in _CONTENT:
        return kind
    remedy = {
        "persistentVolumeClaim": "nothing here provides the storage; use an object store or another node kind",
        "ephemeral": "nothing here provides the storage; use emptyDir",
        "hostPath": "containers see the machine's files anyway; drop the volume, or use emptyDir",
    }
    raise VolumeUnsupportedError(
        f'volume "{volume["name"]}": {kind} is not available on nodes of kind process '
        f"({remedy.get(kind, 'they have emptyDir, ' + ', '.join(_CONTENT))})"
    )


def memory_size(volume: Document) -> str | None:
    """Return the size limit of a memory volume, empty for none; None when the volume is no memory volume."""
    folder = volume.get(_EMPTY_DIR) or {}
    return str(folder.get("sizeLimit", "")) if folder.get("medium") == "Memory" else None


def referenced_sources(volume: Document) -> set[Source]:
    """Return the objects that a volume shows."""
    return {_source(kind, part) for kind, part in _parts(volume) if kind in ("configMap", "secret")}


def referenced_tokens(volume: Document) -> set[Token]:
    """Return the service account tokens that a volume shows."""
    return {_token(part) for kind, part in _parts(volume) if kind == "serviceAccountToken"}


def _parts(volume: Document) -> Iterator[tuple[str, Document]]:
    for kind in _PLAIN:
        if kind in volume:
            yield kind, volume[kind] or {}
    for source in (volume.get("projected") or {}).get("sources") or ():
        for kind, part in source.items():
            yield kind, part or {}


def _source(kind: str, part: Document) -> Source:
    name = part.get("secretName") or part.get("name") or ""
    return Source(SourceKind.CONFIG_MAP if kind == "configMap" else SourceKind.SECRET, name)


def _token(part: Document) -> Token:
    return Token(audience=part.get("audience", ""), expiration_seconds=int(part.get("expirationSeconds", 3600)))


def build_files(pod: Document, volume: Document, inputs: VolumeInputs) -> dict[str, VolumeFile]:
    """Return the files of a volume by their path in it.

    :raises VolumeError: when an object or key that is not optional is missing.
    :raises VolumeUnsupportedError: for a projection that is not known here.
    """
    mode = (volume.get(kind_of(volume)) or {}).get("defaultMode", DEFAULT_MODE)
    files: dict[str, VolumeFile] = {}
    for kind, part in _parts(volume):
        try:
            files.update(_files_of(pod, kind, part, mode, inputs))
        except VolumeError as error:
            raise VolumeError(f'MountVolume.SetUp failed for volume "{volume["name"]}" : {error}') from error
    return files


def _files_of(
    pod: Document, kind: str, part: Document, mode: int, inputs: VolumeInputs
) -> Iterable[tuple[str, VolumeFile]]:
    match kind:
        case "configMap" | "secret":
            return _object_files(pod, _source(kind, part), part, mode, inputs.sources)
        case "downwardAPI":
            return [_downward_file(pod, item, mode, inputs.allocatable) for item in part.get("items") or ()]
        case "serviceAccountToken":
            return [(part["path"], VolumeFile(content=inputs.tokens[_token(part)], mode=mode))]
    raise VolumeUnsupportedError(f"projected source {kind} is not available on nodes of kind process")


def _object_files(
    pod: Document, source: Source, part: Document, mode: int, sources: Sources
) -> Iterator[tuple[str, VolumeFile]]:
    content, optional = sources.get(source), bool(part.get("optional"))
    if content is None:
        if not optional:
            raise VolumeError(f'{source.kind} "{source.name}" not found')
        return
    items = part.get("items") or [{"key": key, "path": key} for key in content]
    for item in items:
        if item["key"] in content:
            yield item["path"], VolumeFile(content=content[item["key"]], mode=item.get("mode", mode))
        elif not optional:
            raise VolumeError(_MISSING_KEY[source.kind] + item["key"])


def _downward_file(pod: Document, item: Document, mode: int, allocatable: Mapping[str, str]) -> tuple[str, VolumeFile]:
    try:
        if field := item.get("fieldRef"):
            text = field_value(pod, field["fieldPath"])
        else:
            text = resource_value(pod, {}, item["resourceFieldRef"], allocatable)
    except ContainerConfigError as error:
        raise VolumeError(str(error)) from error
    return item["path"], VolumeFile(content=text.encode(), mode=item.get("mode", mode))
