"""Pins another Kubernetes: the go.mod files that its programs are built from, by what the Go module proxy has.

Kubernetes' own go.mod replaces its staging modules with folders of its repository, which no other module can use, so
each is replaced with its published version here: https://github.com/kubernetes/kubernetes/issues/79384.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from sandbox.binaries import DEFAULT_VERSION, cache_folder
from sandbox.errors import BuildError, SandboxError
from sandbox.obstacles import explained
from sandbox.toolchain import SOURCES, Toolchain, find_toolchain

MODULE = "k8s.io/kubernetes"
NAMES = ("kubernetes", "kubelet", "kubectl")
"""The folders whose programs are of Kubernetes' version: control plane, kubelet and kubectl."""


def pin(minor: str, progress: Callable[[str], None], *, sources: Path = SOURCES) -> str:
    """Pin the newest patch release of a minor version; one that is pinned is brought up to date.

    :param minor: such as `1.36`.
    :param sources: the folder of the pins; tells by its folders of the default version what is built.
    :returns: the version that is pinned now, `v1.36.3`.
    :raises SandboxError: there is no such version, or its modules can not be had.
    """
    if not re.fullmatch(r"1\.\d+", minor):
        raise SandboxError(f"Kubernetes {minor!r} is no minor version: give one such as {DEFAULT_VERSION}")
    go = find_toolchain(cache_folder(), progress)
    progress(f"Kubernetes {minor}: asking for its newest release")
    version = newest_patch(minor, _go(go, sources, "list", "-m", "-versions", MODULE).split())
    refusal = explained("the folder of pins", sources, "run this in a checkout of your own")
    with refusal, tempfile.TemporaryDirectory(prefix=".pin.", dir=sources) as drafts:
        for name in NAMES:
            progress(f"Kubernetes {version}: pinning the modules of {name}")
            _write(go, version, Path(drafts) / name, sources / name)
        for name in NAMES:
            target = sources / (name if minor == DEFAULT_VERSION else f"{name}-{minor}")
            target.mkdir(exist_ok=True)
            for file in (Path(drafts) / name).iterdir():
                file.replace(target / file.name)
    progress(f"Kubernetes {version}: pinned")
    return version


def newest_patch(minor: str, versions: list[str]) -> str:
    """Give the newest release of a minor version among these; pre-releases do not count.

    :raises SandboxError: there is none.
    """
    patches = [int(found[1]) for each in versions if (found := re.fullmatch(rf"v{re.escape(minor)}\.(\d+)", each))]
    if not patches:
        minors = {int(found[1]) for each in versions if (found := re.fullmatch(r"v1\.(\d+)\.\d+", each))}
        newest = ", ".join(f"1.{each}" for each in sorted(minors, reverse=True)[:5])
        raise SandboxError(f"Kubernetes {minor} has no release that can be had; the newest are {newest or 'unknown'}")
    return f"v{minor}.{max(patches)}"


def module_file(version: str, name: str, upstream: str) -> str:
    """Give a go.mod of one requirement, with each staging module replaced by its published version.

    :param upstream: Kubernetes' own go.mod.
    """
    settings = re.findall(r"^(?:go|godebug) .*$", upstream, re.M)
    staging = re.findall(r"^\s*(\S+) => \./staging/", upstream, re.M)
    published = version.replace("v1.", "v0.", 1)
    replaced = "".join(f"\t{each} => {each} {published}\n" for each in sorted(staging))
    parts = [
        f"module gpu-training.io/sandbox/{name}",
        *settings,
        f"require {MODULE} {version}",
        f"replace (\n{replaced})",
    ]
    return "\n\n".join(parts) + "\n"


def _write(go: Toolchain, version: str, draft: Path, pinned: Path) -> None:
    draft.mkdir()
    shutil.copy(pinned / "tools.go", draft)
    downloaded = json.loads(_go(go, draft, "mod", "download", "-json", f"{MODULE}@{version}"))
    (draft / "go.mod").write_text(module_file(version, pinned.name, Path(downloaded["GoMod"]).read_text()))
    _go(go, draft, "mod", "tidy")


def _go(go: Toolchain, folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [go.go, *arguments], cwd=folder, env=go.environment(os.environ), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise BuildError(f"go {' '.join(arguments)} failed: {(done.stderr or done.stdout).strip()}")
    return done.stdout
