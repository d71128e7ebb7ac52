"""What containers see as their root: a small Debian, the trainer's pinned requirements, the trainer.

Each is one layer. The first two are made once and kept in the cache; the third is made from the checkout each time.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from sandbox.binaries import architecture
from sandbox.containerd.cached import cached, run
from sandbox.containerd.layers import Layer, folders, tree, write_layer
from sandbox.errors import BuildError
from sandbox.obstacles import explained

ROOT = Path(__file__).resolve().parents[3]
TRAINER = ROOT / "include" / "trainer"
REQUIREMENTS = TRAINER / "requirements.txt"
CONTRACT = ROOT / "plugins" / "gpu_training"

SUITE = "bookworm"
"""Its Python is 3.11, for which the trainer's requirements are pinned."""
PACKAGES = ("python3", "ca-certificates", "libgomp1")
PYTHON_VERSION = "3.11"
PLATFORM = "manylinux_2_36"
"""The suite's C library."""
MIRROR_VARIABLE = "GPU_TRAINING_DEBIAN_MIRROR"
DEFAULT_MIRROR = "http://deb.debian.org/debian"
PRIVATE = ("unshare", "--mount", "--propagation", "private", "--")
"""What is mounted below it is gone with it, also when it is killed half way."""
RECIPE = 1
"""Counts the changes of what is done below, so that the cache has what this version would make."""

SITE = f"usr/local/lib/python{PYTHON_VERSION}/dist-packages"
PROGRAM = "opt/program"
UNWANTED = (
    *("dev/", "proc/", "sys/", "debootstrap", "var/cache/apt/", "var/lib/apt/lists/", "var/log/"),
    *("usr/share/doc/", "usr/share/man/", "usr/share/locale/", "usr/share/info/"),
)
SOURCE_SUFFIX = ".py"


def base_layer(cache: Path, progress: Callable[[str], None]) -> Layer:
    """Give a minimal Debian with Python; a minute or two the first time.

    :raises BuildError: Debian's mirror does not answer, or what it sent can not be installed.
    """
    key = _key(SUITE, *PACKAGES, architecture(), str(RECIPE))
    target = cache / f"container-base-{SUITE}-{key}"
    return Layer.read(cached(target, progress, lambda draft: _make_base(draft, progress)))


def requirements_layer(cache: Path, base: Layer, progress: Callable[[str], None]) -> Layer:
    """Give the trainer's pinned requirements, compiled by the base's Python.

    :raises BuildError: the package index does not answer, or what it sent is not what was pinned.
    """
    key = _key(base.digest, REQUIREMENTS.read_text(), str(RECIPE))
    target = cache / f"container-requirements-{key}"
    return Layer.read(cached(target, progress, lambda draft: _make_requirements(draft, base, progress)))


def program_layer(folder: Path) -> Layer:
    """Write the trainer and the contract as they lie in the checkout; milliseconds."""
    files = [(path, f"trainer/{path.name}") for path in sorted(TRAINER.glob(f"*{SOURCE_SUFFIX}"))]
    names = ("__init__.py", "attempt.py", "checkpoints.py", "contract.py")
    files += [(CONTRACT / name, f"gpu_training/{name}") for name in names]
    entries = [*folders(f"{PROGRAM}/trainer", TRAINER), (TRAINER, f"{PROGRAM}/gpu_training")]
    return write_layer(folder, [*entries, *((path, f"{PROGRAM}/{name}") for path, name in files)])


def _make_base(draft: Path, progress: Callable[[str], None]) -> None:
    mirror = os.environ.get(MIRROR_VARIABLE, DEFAULT_MIRROR)
    progress(f"container images: a base of Debian {SUITE} from {mirror}")
    root = draft / "root"
    command = ["debootstrap", "--variant=minbase", "--force-check-gpg", f"--include={','.join(PACKAGES)}"]
    with explained("cache", draft.parent, "name another one in $GPU_TRAINING_CACHE"):
        run(
            f"debootstrap of {SUITE} from {mirror}",
            [*PRIVATE, *command, SUITE, root, mirror],
            remedy=f"see whether {mirror} answers, or name another mirror in ${MIRROR_VARIABLE}",
        )
        (root / "usr/local/bin/python").symlink_to("/usr/bin/python3")
        write_layer(draft, tree(root, keep=_is_wanted))
        shutil.rmtree(root)


def _make_requirements(draft: Path, base: Layer, progress: Callable[[str], None]) -> None:
    progress("container images: the trainer's requirements")
    root, site = draft / "root", draft / "root" / SITE
    root.mkdir()
    run("unpacking the base", ["tar", "--extract", "--gzip", "--file", base.archive, "--directory", root])
    with explained("cache", draft.parent, "name another one in $GPU_TRAINING_CACHE"):
        install = [_uv(), "pip", "install", "--quiet", "--no-deps", "--require-hashes", "--link-mode", "copy"]
        machine = {"arm64": "aarch64"}.get(platform.machine(), platform.machine())
        meant = ["--python-version", PYTHON_VERSION, "--python-platform", f"{machine}-{PLATFORM}"]
        target = ["--target", site, "--python", sys.executable, *meant]
        run(
            "installing the trainer's requirements",
            [*install, *target, "--requirement", REQUIREMENTS],
            remedy="see whether the package index answers",
        )
        progress("container images: compiling the requirements")
        # Else each container would do it anew, as its root is not kept. Many at once need the devices' shared memory.
        compiling = f"python3 -m compileall -q -j 0 --invalidation-mode unchecked-hash /{SITE}"
        inside = f'mount --rbind /dev "$0/dev" && exec chroot "$0" {compiling}'
        run("compiling the trainer's requirements", [*PRIVATE, "sh", "-c", inside, root])
        write_layer(draft, [*folders(SITE, root / "usr"), *tree(site, at=SITE)])
        shutil.rmtree(root)


def _uv() -> str:
    if found := shutil.which("uv") or shutil.which("uv", path=str(ROOT / ".uv" / "bin")):
        return found
    raise BuildError("uv installs the trainer's requirements and is missing: run make install first")


def _is_wanted(path: str) -> bool:
    return not any(f"{path}/".startswith(part) and f"{path}/" != part for part in UNWANTED)


def _key(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]
