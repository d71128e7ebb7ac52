"""Volumes of a training: what is mounted, and where."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gpu_training.core.fields import Fields
from gpu_training.core.resources import check_amount
from gpu_training.core.syntax import A_NAME, DNS_LABEL, DNS_SUBDOMAIN, MOUNT_PATH

SHARED_MEMORY_VOLUME: Final = "shared-memory"
SHARED_MEMORY_PATH: Final = "/dev/shm"  # noqa: S108 - a mount point in the pod

_SYSTEM_FOLDERS: Final = ("/dev", "/proc", "/sys")
"""/dev also holds the termination message, which is the training's result."""


class VolumeSource(StrEnum):
    """Kinds of volume. Public values: teams write them in YAML."""

    CLAIM = "claim"
    CONFIG_MAP = "config_map"
    SECRET = "secret"  # noqa: S105 - the name of a volume kind, not a secret
    EMPTY_DIR = "empty_dir"


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """A volume and where it is mounted.

    :param source: kind of volume.
    :param reference: name of the claim, ConfigMap or Secret; for an emptyDir its size limit, or "".
    """

    name: str
    mount_path: str
    source: VolumeSource
    reference: str
    read_only: bool = False


def parse_volumes(fields: Fields) -> tuple[Volume, ...]:
    """Give the volumes in the field `volumes`.

    :raises ConfigurationError: the first fault found.
    """
    volumes: list[Volume] = []
    names: dict[str, str] = {}
    paths: dict[str, str] = {}
    for body in fields.sections("volumes"):
        volume = _volume(body)
        if not body.templated:
            _claim(body, "name", volume.name, names)
            _claim(body, "mount_path", volume.mount_path, paths)
        volumes.append(volume)
    return tuple(volumes)


def _claim(fields: Fields, name: str, value: str, taken: dict[str, str]) -> None:
    if value in taken:
        raise fields.refuse(name, f"is used twice, in {taken[value]} too")
    taken[value] = fields.path(name)


def _volume(fields: Fields) -> Volume:
    name = fields.text("name", pattern=DNS_LABEL, allowed="a volume name (a DNS label of at most 63 characters)")
    if name == SHARED_MEMORY_VOLUME:
        raise fields.refuse("name", "is the operator's own volume: choose another name")
    mount_path = fields.text("mount_path", pattern=MOUNT_PATH, allowed="an absolute path below / without `:`")
    if mount_path == SHARED_MEMORY_PATH:
        raise fields.refuse("mount_path", "is the operator's own memory-backed volume: set shared_memory instead")
    if any(mount_path == folder or mount_path.startswith(f"{folder}/") for folder in _SYSTEM_FOLDERS):
        raise fields.refuse("mount_path", f"a path outside {', '.join(_SYSTEM_FOLDERS)} is expected")
    read_only = fields.flag("read_only", default=False)
    source = _source(fields)
    reference = _reference(fields, source)
    fields.finish()
    return Volume(name=name, mount_path=mount_path, source=source, reference=reference, read_only=read_only)


def _source(fields: Fields) -> VolumeSource:
    given = [source for source in VolumeSource if fields.take(source.value, None) is not None]
    if len(given) != 1:
        name = given[1].value if given else VolumeSource.CLAIM.value
        raise fields.refuse(name, f"exactly one of {', '.join(VolumeSource)} is expected")
    return given[0]


def _reference(fields: Fields, source: VolumeSource) -> str:
    if source is not VolumeSource.EMPTY_DIR:
        return fields.text(source.value, pattern=DNS_SUBDOMAIN, allowed=A_NAME)
    body = fields.section(source.value)
    size = body.optional_text("size_limit", allowed="a Kubernetes quantity, e.g. 10Gi,")
    body.finish()
    if size is not None and not body.templated:
        check_amount(body.path("size_limit"), size)
    return size or ""
