"""The images that a node's containerd begins with, unpacked once into the cache and shared by all nodes."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sandbox.binaries import cache_folder
from sandbox.containerd.cached import cached, run
from sandbox.containerd.images import Image, standing, trainer, write_archive
from sandbox.containerd.layers import Layer
from sandbox.containerd.rootfs import base_layer, program_layer, requirements_layer
from sandbox.errors import SandboxError
from sandbox.obstacles import explained

METADATA = Path("io.containerd.metadata.v1.bolt/meta.db")
SNAPSHOTS = Path("io.containerd.snapshotter.v1.overlayfs")
BLOBS = Path("io.containerd.content.v1.content/blobs/sha256")

CONFIGURATION = """\
version = 2
root = "{root}"
state = "{state}"
disabled_plugins = ["io.containerd.grpc.v1.cri"]
[grpc]
  address = "{state}/containerd.sock"
"""
IMPORT = """\
set -eu
containerd --config "$1/config.toml" >"$1/log" 2>&1 &
containerd=$!
trap 'kill $containerd; wait' EXIT
client="ctr --address $1/containerd.sock --namespace k8s.io"
until $client version >/dev/null 2>&1; do
    kill -0 $containerd 2>/dev/null || { tail -n 5 "$1/log" >&2; exit 1; }
    sleep 0.1
done
$client images import --digests=false "$2" >/dev/null
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """What the cache holds for nodes.

    :param folder: a containerd's root with what is the same whatever the checkout's trainer is.
    """

    folder: Path
    base: Layer
    requirements: Layer

    @classmethod
    def prepare(cls, progress: Callable[[str], None], cache: Path | None = None) -> Store:
        """Give the store, made first where the cache has none: minutes the first time, then milliseconds.

        :raises BuildError: Debian's mirror or the package index does not answer, or a program failed.
        """
        cache = cache_folder() if cache is None else cache
        base = base_layer(cache, progress)
        requirements = requirements_layer(cache, base, progress)
        images = standing(base, requirements)
        key = "-".join(layer.digest.removeprefix("sha256:")[:12] for layer in (base, requirements))
        target = cache / f"containerd-store-{key}"

        def make(draft: Path) -> None:
            progress("container images: unpacking")
            with explained("cache", cache, "name another one in $GPU_TRAINING_CACHE"):
                _import(draft, images, [base, requirements])

        return cls(folder=cached(target, progress, make), base=base, requirements=requirements)

    def reference(self, name: str) -> str:
        """Give `name@sha256:...` of an image, the trainer's being of the checkout as it is now.

        :raises SandboxError: there is no such image.
        """
        with tempfile.TemporaryDirectory() as scratch:
            mine = [*standing(self.base, self.requirements), self.trainer(Path(scratch))]
        known = {image.name: image.reference for image in mine}
        if name not in known:
            raise SandboxError(f"no image is named {name!r}; known are {', '.join(known)}")
        return known[name]

    def trainer(self, scratch: Path) -> Image:
        """Give the trainer's image as the checkout has it, its own layer in a folder."""
        return trainer(self.base, self.requirements, program_layer(scratch))

    def furnish(self, root: Path, archive: Path) -> None:
        """Fill a new containerd's root from the store, and write what it has to import for the trainer's image.

        The files stay the cache's: containerd never writes to a layer or a blob that it has.
        """
        image = self.trainer(archive.parent)
        write_archive(archive, [image], image.layers[-1:])
        if (root / METADATA).exists():
            return
        for database in (METADATA, SNAPSHOTS / "metadata.db"):
            (root / database).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self.folder / database, root / database)
        for place in (SNAPSHOTS / "snapshots", BLOBS):
            (root / place).mkdir(parents=True, exist_ok=True)
            for entry in (self.folder / place).iterdir():
                (root / place / entry.name).symlink_to(entry)


def _import(draft: Path, images: list[Image], layers: list[Layer]) -> None:
    # A folder with a short name for the sockets: unix(7).
    with tempfile.TemporaryDirectory() as scratch:
        archive = draft / "images.tar"
        write_archive(archive, images, layers)
        configuration = CONFIGURATION.format(root=draft, state=scratch)
        Path(scratch, "config.toml").write_text(configuration)
        command = ["unshare", "--mount", "--propagation", "private", "--", "sh", "-c", IMPORT, "sh", scratch, archive]
        run("importing container images", command)
        archive.unlink()
    for leftover in ("tmpmounts", "io.containerd.runtime.v2.task", "io.containerd.runtime.v1.linux"):
        shutil.rmtree(draft / leftover, ignore_errors=True)
    os.sync()
