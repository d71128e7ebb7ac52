"""Images as containerd knows them: manifests and configurations over the layers of :mod:`sandbox.containerd.rootfs`."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sandbox.binaries import architecture
from sandbox.containerd.layers import Layer
from sandbox.containerd.rootfs import PROGRAM

REGISTRY = "docker.io/library/"
"""What a reference without a registry means to a container runtime."""
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
INDEX = "application/vnd.oci.image.index.v1+json"
NAME_ANNOTATION = "io.containerd.image.name"
UNPRIVILEGED = "1000:1000"
PATH = "PATH=/usr/local/bin:/usr/bin:/bin"

PAUSE = "sandbox-pause"
SHELL = "sandbox-shell"
TRAINER = "xgboost-trainer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """An image.

    :param name: its repository, without registry and tag.
    :param settings: `Cmd`, `Env`, `User` and so on, as the image specification has them.
    """

    name: str
    tags: tuple[str, ...]
    layers: Sequence[Layer]
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def configuration(self) -> bytes:
        """Give the configuration document."""
        return _encode(
            {
                "architecture": architecture(),
                "os": "linux",
                "config": self.settings,
                "rootfs": {"type": "layers", "diff_ids": [layer.diff_id for layer in self.layers]},
            }
        )

    @property
    def manifest(self) -> bytes:
        """Give the manifest document, whose digest is the image's."""
        layers = [{"mediaType": LAYER, "digest": layer.digest, "size": layer.size} for layer in self.layers]
        config = _descriptor(CONFIG, self.configuration)
        return _encode({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": layers})

    @property
    def digest(self) -> str:
        """Give the image's digest."""
        return _digest(self.manifest)

    @property
    def reference(self) -> str:
        """Give `name@sha256:...`, as a pod may ask for it."""
        return f"{self.name}@{self.digest}"

    @property
    def full_names(self) -> list[str]:
        """Give the names under which containerd is to know it."""
        return [*(f"{REGISTRY}{self.name}:{tag}" for tag in self.tags), f"{REGISTRY}{self.reference}"]


def standing(base: Layer, requirements: Layer) -> list[Image]:
    """Give what each node has whatever the checkout holds: a pause container's image, a shell, the trainer's ground."""
    return [
        Image(name=PAUSE, tags=("1",), layers=[base], settings={"Entrypoint": ["/bin/sleep", "infinity"]}),
        Image(
            name=SHELL,
            tags=("1",),
            layers=[base],
            settings={"Cmd": ["/bin/sh"], "Env": [PATH, "PYTHONUNBUFFERED=1"], "User": UNPRIVILEGED},
        ),
        Image(name=f"{TRAINER}-ground", tags=("1",), layers=[base, requirements]),
    ]


def trainer(base: Layer, requirements: Layer, program: Layer) -> Image:
    """Give the trainer's image, as `include/trainer/Dockerfile` has it but for the GPU."""
    environment = {
        "PYTHONPATH": f"/{PROGRAM}",
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "HOME": "/tmp",  # noqa: S108 - the one place in the image that may be written
        "TRAINER_DEVICE": "cpu",
    }
    settings = {
        "Env": [PATH, *(f"{key}={value}" for key, value in environment.items())],
        "User": UNPRIVILEGED,
        "WorkingDir": "/tmp",  # noqa: S108
    }
    return Image(name=TRAINER, tags=("0.1.0", "1"), layers=[base, requirements, program], settings=settings)


def write_archive(path: Path, images: Sequence[Image], layers: Iterable[Layer]) -> None:
    """Write an archive for `ctr images import`.

    :param layers: those that it brings; the others are known to whom it is given.
    """
    descriptors = []
    with tarfile.open(path, "w") as archive:
        for layer in layers:
            archive.add(layer.archive, _blob(layer.digest))
        for image in images:
            for content in (image.configuration, image.manifest):
                _add(archive, _blob(_digest(content)), content)
            names = [{"annotations": {NAME_ANNOTATION: name}} for name in image.full_names]
            descriptors += [{**_descriptor(MANIFEST, image.manifest), **name} for name in names]
        _add(archive, "oci-layout", _encode({"imageLayoutVersion": "1.0.0"}))
        index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": descriptors}
        _add(archive, "index.json", _encode(index))


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    header = tarfile.TarInfo(name)
    header.size = len(content)
    archive.addfile(header, io.BytesIO(content))


def _descriptor(media_type: str, content: bytes) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": _digest(content), "size": len(content)}


def _blob(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _encode(document: dict[str, Any]) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
