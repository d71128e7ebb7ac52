"""The control plane's programs: from the cache, else built once from the pinned go.mod files beside this module.

A release's published digests are not pinned here, so nothing is downloaded as a binary: go.sum pins all that is built.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sandbox.building import Build, Edit
from sandbox.errors import BuildError, SandboxError
from sandbox.locks import one_at_a_time
from sandbox.obstacles import explained
from sandbox.toolchain import SOURCES, Toolchain, find_toolchain

CACHE_VARIABLE = "GPU_TRAINING_CACHE"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "arm64": "arm64"}
MANIFEST = "complete.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Programs that are built together.

    :param folder: holds go.mod and go.sum.
    :param module: the module whose required version is these programs' version.
    :param programs: package to build by name of the program.
    :param version_variable: package whose variables carry the version, stamped as release builds do; None where the
        source states its own.
    :param files: folders of the module that lie beside the programs, under the same path.
    :param edits: made to the module's source text, for what it leaves no setting for.
    """

    name: str
    folder: Path
    module: str
    programs: tuple[tuple[str, str], ...]
    version_variable: str | None = None
    files: tuple[str, ...] = ()
    edits: tuple[Edit, ...] = ()

    @property
    def version(self) -> str:
        """Give the version that go.mod pins, `v1.37.2`."""
        found = re.search(
            rf"^\s*(?:require )?{re.escape(self.module)} (v\S+)", (self.folder / "go.mod").read_text(), re.M
        )
        if found is None:
            raise BuildError(f"{self.folder / 'go.mod'} requires no version of {self.module}")
        return found[1]

    @property
    def linker_flags(self) -> str:
        """Give the linker's flags: no debug information, and the version."""
        flags = ["-s", "-w"]
        if self.version_variable:
            major, minor, _ = self.version.removeprefix("v").split(".", 2)
            values = {"gitVersion": self.version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
            flags += [f"-X {self.version_variable}.{name}={value}" for name, value in values.items()]
        return " ".join(flags)

    def key(self) -> str:
        """Give the cache folder's name: another pin, platform or flag is another folder."""
        content = hashlib.sha256()
        for part in ((self.folder / "go.mod").read_bytes(), (self.folder / "go.sum").read_bytes()):
            content.update(hashlib.sha256(part).digest())
        content.update(f"{self.linker_flags} {self.programs}".encode())
        if self.files or self.edits:
            content.update(f"{self.files} {self.edits}".encode())
        return f"{self.name}-{self.version}-linux-{architecture()}-{content.hexdigest()[:12]}"


VERSION_VARIABLE = "K8S_VERSION"
DEFAULT_VERSION = "1.37"

ETCD = Source(
    name="etcd",
    folder=SOURCES / "etcd",
    module="go.etcd.io/etcd/server/v3",
    programs=(("etcd", "go.etcd.io/etcd/server/v3"),),
)


def kubernetes_sources(name: str, *programs: str) -> dict[str, Source]:
    """Give programs of Kubernetes by each minor version that has a folder: `name` or, for another one, `name-X.Y`."""

    def pinned_in(folder: Path) -> Source:
        return Source(
            name=name,
            folder=folder,
            module="k8s.io/kubernetes",
            programs=tuple((program, f"k8s.io/kubernetes/cmd/{program}") for program in programs),
            version_variable="k8s.io/component-base/version",
        )

    others = {folder.name.removeprefix(f"{name}-"): folder for folder in sorted(SOURCES.glob(f"{name}-*"))}
    return {minor: pinned_in(folder) for minor, folder in {DEFAULT_VERSION: SOURCES / name, **others}.items()}


KUBERNETES = kubernetes_sources("kubernetes", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
"""The Kubernetes that can be had, by minor version; another one is a folder that :mod:`sandbox.pinning` writes."""

KUBECTL = kubernetes_sources("kubectl", "kubectl")[DEFAULT_VERSION]
"""For people, and to compare with; nothing of the sandbox needs it."""

CONTROL_PLANE = (ETCD, KUBERNETES[DEFAULT_VERSION])


def control_plane(version: str) -> tuple[Source, ...]:
    """Give the programs of a cluster of a minor version of Kubernetes, such as `1.34`.

    :raises SandboxError: that version is not pinned here.
    """
    if version not in KUBERNETES:
        known = ", ".join(KUBERNETES)
        raise SandboxError(
            f"Kubernetes {version!r} ({VERSION_VARIABLE}) is not pinned here; known are {known}; "
            "`python -m sandbox pin X.Y` pins another one"
        )
    return (ETCD, KUBERNETES[version])


def architecture() -> str:
    """Give Go's name of this machine's architecture.

    :raises SandboxError: the sandbox does not run here.
    """
    system, machine = platform.system(), platform.machine()
    if system != "Linux" or machine not in ARCHITECTURES:
        raise SandboxError(
            f"the sandbox runs on Linux on x86_64 and arm64, this is {system} on {machine}: "
            "run it in a Linux virtual machine, or use a cluster of your own"
        )
    return ARCHITECTURES[machine]


def cache_folder() -> Path:
    """Give the folder of built binaries: `$GPU_TRAINING_CACHE`, else `~/.cache/gpu-training`, for all checkouts."""
    if named := os.environ.get(CACHE_VARIABLE):
        return Path(named).expanduser().absolute()
    try:
        return Path.home() / ".cache" / "gpu-training"
    except RuntimeError as error:
        raise SandboxError(f"this user has no home folder for the binary cache: set {CACHE_VARIABLE}") from error


def find_binaries(
    progress: Callable[[str], None], *, sources: tuple[Source, ...] = CONTROL_PLANE, cache: Path | None = None
) -> dict[str, Path]:
    """Give every program's path, built first where the cache has none; minutes the first time, then milliseconds.

    :param progress: told `subject: state` about once a second while something is built.
    :param cache: None: :func:`cache_folder`.
    :raises BuildError: a build failed, and the message ends with the compiler's words; or the cache can not be used.
    """
    architecture()
    cache = cache_folder() if cache is None else cache
    found: dict[str, Path] = {}
    with explained("binary cache", cache, f"set {CACHE_VARIABLE} to another folder", BuildError):
        for source in sources:
            target = cache / source.key()
            if not is_complete(target, source):
                with one_at_a_time(target, progress):
                    if not is_complete(target, source):
                        _make(source, target, find_toolchain(cache, progress), progress)
            found |= {name: target / name for name, _ in source.programs}
    return found


def is_complete(target: Path, source: Source) -> bool:
    """Tell whether a cache folder holds all that a source gives, each file with the size that its build recorded."""
    try:
        sizes: dict[str, int] = json.loads((target / MANIFEST).read_text())
        return {name for name, _ in source.programs} <= sizes.keys() and all(
            (target / name).stat().st_size == size for name, size in sizes.items()
        )
    except (OSError, ValueError, AttributeError):
        return False


def _make(source: Source, target: Path, toolchain: Toolchain, progress: Callable[[str], None]) -> None:
    """Build beside the target and rename, so that a folder under the target's name is whole."""
    for leftover in target.parent.glob(f".{target.name}.*"):
        shutil.rmtree(leftover, ignore_errors=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        packages = [package for _, package in source.programs]
        build = Build(
            title=f"{source.name} {source.version}",
            folder=source.folder,
            packages=packages,
            linker_flags=source.linker_flags,
            output=draft,
            module=source.module,
            edits=source.edits,
        )
        build.run(toolchain, progress)
        for name, package in source.programs:
            built = draft / Path(re.sub(r"/v\d+$", "", package)).name
            if built.name != name:
                built.rename(draft / name)
        build.copy(toolchain, source.files)
        sizes = {str(file.relative_to(draft)): file.stat().st_size for file in draft.rglob("*") if file.is_file()}
        (draft / MANIFEST).write_text(json.dumps(sizes))
        draft.chmod(0o755)
        # Whole under its name even after a power cut, since its size is all that is checked later.
        os.sync()
        shutil.rmtree(target, ignore_errors=True)
        draft.rename(target)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
