"""Make the project's virtual environments from the pinned requirements; standard library only.

`python3 include/install.py` installs, `--lock` pins anew, `--wheel` builds the package. uv is
used from PATH, else installed into `.uv` of the checkout.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import time
import venv
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
UV_VERSION = "0.13.9"
PYTHON_FLOOR = (3, 11)


@dataclass(frozen=True)
class Environment:
    """A virtual environment, the lock it is made from, and what that lock is compiled from."""

    folder: str
    lock: str
    sources: tuple[str, ...]
    editable: bool = False


ENVIRONMENTS = (
    Environment(
        ".venv",
        "requirements-dev.txt",
        ("pyproject.toml", "--extra", "s3", "--extra", "postgres", "--group", "dev"),
        editable=True,
    ),
    Environment(".venv-core", "requirements-core.txt", ("--group", "core-test")),
    Environment(".venv-trainer", "include/trainer/requirements.txt", ("include/trainer/requirements.in",)),
    Environment(".venv-services", "include/stack/requirements.txt", ("include/stack/requirements.in",)),
)
LOCK_ONLY = (
    ("requirements.txt", ("pyproject.toml", "--extra", "s3", "--extra", "postgres")),
    ("include/trainer/requirements-cuda.txt", ("include/trainer/requirements-cuda.in",)),
)


def find_uv() -> str:
    """Give the path of uv; installs the pinned version into `.uv` when the machine has none."""
    if found := shutil.which("uv"):
        return found
    folder = ROOT / ".uv"
    uv = folder / "bin" / "uv"
    if not uv.exists():
        print("uv is missing: installing it into .uv", flush=True)
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([folder / "bin" / "pip", "install", "--quiet", f"uv=={UV_VERSION}"], check=True)
    return str(uv)


def install(uv: str) -> None:
    for environment in ENVIRONMENTS:
        started = time.monotonic()
        folder = ROOT / environment.folder
        if not (folder / "bin" / "python").exists():
            subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, folder], check=True, cwd=ROOT)
        python = str(folder / "bin" / "python")
        # Compiled now, once: services start several times faster, also where PYTHONDONTWRITEBYTECODE is set.
        sync = [uv, "pip", "sync", "--quiet", "--require-hashes", "--compile-bytecode", "--python", python]
        subprocess.run([*sync, environment.lock], check=True, cwd=ROOT)
        if environment.editable:
            editable = [uv, "pip", "install", "--quiet", "--no-deps", "--python", python, "--editable", "."]
            subprocess.run(editable, check=True, cwd=ROOT)
        print(f"{environment.folder:<16} {time.monotonic() - started:6.1f} s", flush=True)
    (ROOT / ".venv" / ".installed").touch()


def lock(uv: str) -> None:
    targets = [(environment.lock, environment.sources) for environment in ENVIRONMENTS] + list(LOCK_ONLY)
    for target, sources in targets:
        compile_command = [uv, "pip", "compile", "--quiet", "--universal", "--generate-hashes", "--python-version=3.11"]
        header = ["--custom-compile-command", "make lock", "--no-emit-index-url", "--no-emit-find-links"]
        subprocess.run([*compile_command, *header, *sources, "--output-file", target], check=True, cwd=ROOT)
        print(target, flush=True)


def wheel(uv: str) -> None:
    subprocess.run([uv, "build", "--quiet", "--wheel", "--out-dir", "build/dist", "."], check=True, cwd=ROOT)
    for path in sorted((ROOT / "build" / "dist").glob("*.whl")):
        print(path.relative_to(ROOT), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    action = parser.add_mutually_exclusive_group()
    for function in (lock, wheel):
        action.add_argument(f"--{function.__name__}", dest="action", action="store_const", const=function)
    arguments = parser.parse_args()
    if sys.version_info < PYTHON_FLOOR:
        wanted, found = ".".join(map(str, PYTHON_FLOOR)), sys.version.split()[0]
        print(
            f"Python {wanted} or newer is needed, this is {found}: run make PYTHON=python3.12 install", file=sys.stderr
        )
        return 2
    (arguments.action or install)(find_uv())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
