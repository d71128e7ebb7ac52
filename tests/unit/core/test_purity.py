"""The core needs the standard library alone, and takes time, chance and environment as arguments."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.core

ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "plugins" / "gpu_training"
MODULES = [
    "gpu_training.contract",
    *(f"gpu_training.core.{path.stem}" for path in sorted((PACKAGE / "core").glob("*.py"))),
]

# Third parties are blocked for everybody; of the standard library only for our own modules, since re, enum and
# dataclasses rest on os themselves.
IMPORT_BLOCKED = """
import builtins, sys
FOREIGN = {"airflow", "kubernetes", "kubernetes_asyncio", "mlflow", "yaml", "requests", "pydantic"}
IMPURE = {"time", "os", "random", "logging", "secrets", "uuid", "socket", "subprocess", "pathlib", "io", "asyncio",
          "threading"}
real = builtins.__import__
def guarded(name, globals=None, locals=None, fromlist=(), level=0):
    top, importer = name.partition(".")[0], (globals or {}).get("__name__", "")
    if top in FOREIGN or (top in IMPURE and importer.startswith("gpu_training")):
        raise ImportError(f"{importer} imports {name}")
    return real(name, globals, locals, fromlist, level)
builtins.__import__ = guarded
sys.path.insert(0, sys.argv[1])
import importlib
for module in sys.argv[2:]:
    importlib.import_module(module)
print(len(sys.argv[2:]))
"""


def run(*modules: str) -> subprocess.CompletedProcess[str]:
    # -S: without site-packages, so that what a module needs beside the standard library is missing.
    return subprocess.run(
        [sys.executable, "-I", "-S", "-c", IMPORT_BLOCKED, str(ROOT / "plugins"), *modules],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_every_module_imports_alone_where_all_else_is_blocked() -> None:
    done = run(*MODULES)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(len(MODULES))]


@pytest.mark.parametrize(
    "line", ["import os", "from os.path import join", "import time as clock", "import airflow.sdk"]
)
def test_the_guard_would_notice(tmp_path: Path, line: str) -> None:
    (tmp_path / "gpu_training").mkdir()
    (tmp_path / "gpu_training" / "impure.py").write_text(line + "\n")
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", IMPORT_BLOCKED, str(tmp_path), "gpu_training.impure"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode != 0
    assert "gpu_training.impure imports" in done.stderr


def _imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add("." * node.level + (node.module or ""))
    return found


def test_the_core_imports_nothing_of_the_package_but_itself_and_the_contract() -> None:
    for path in (PACKAGE / "core").glob("*.py"):
        for name in _imports(path):
            ours = name.startswith(("gpu_training.core", "gpu_training.contract"))
            assert ours or name.partition(".")[0] in sys.stdlib_module_names, f"{path.name} imports {name}"


def test_the_contract_imports_the_standard_library_alone() -> None:
    """The same file is in training images, where the package is not."""
    assert {name.partition(".")[0] for name in _imports(PACKAGE / "contract.py")} <= sys.stdlib_module_names


def test_no_module_of_the_core_reads_a_clock_or_opens_a_file() -> None:
    for path in (PACKAGE / "core").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                assert called not in {"now", "utcnow", "today", "open", "print", "input"}, f"{path.name}: {called}()"
