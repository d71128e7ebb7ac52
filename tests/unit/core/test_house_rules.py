"""Names, sizes and marks that keep the project simple; what lint can not check."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

pytestmark = pytest.mark.core

ROOT = Path(__file__).parents[3]
PACKAGES = ("plugins/gpu_training", "include/sandbox", "include/stack", "include/trainer")
VAGUE = {"util", "utils", "helper", "helpers", "common", "manager", "managers", "misc"}

LONGEST_CORE_MODULE = 250
LONGEST_MODULE = 300
LONGEST_DAG_FILE = 100
LONGEST_FUNCTION = 40
CASE = re.compile(r"C\d{3}")

# Top levels that distributions of requirements.txt bring under another name than their own.
OTHER_TOP_LEVELS = {
    "yaml",
    "git",
    "dateutil",
    "jwt",
    "google",
    "attr",
    "dotenv",
    "markdown_it",
    "pkg_resources",
    "sqlalchemy",
}


def _modules() -> Iterator[Path]:
    for package in PACKAGES:
        yield from sorted((ROOT / package).rglob("*.py"))
    yield from sorted((ROOT / "plugins").glob("*.py"))


def _requirements() -> set[str]:
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    names = (re.match(r"([A-Za-z0-9][A-Za-z0-9._-]*)", line) for line in lines)
    return {match[1].lower().replace("-", "_").replace(".", "_") for match in names if match}


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def _lines(path: Path) -> int:
    return len(path.read_text().splitlines())


def test_no_module_is_named_like_one_that_python_or_a_dependency_brings() -> None:
    """Airflow puts plugins/ on sys.path, and its loader knows modules by their bare names."""
    taken = set(sys.stdlib_module_names) | _requirements() | OTHER_TOP_LEVELS
    assert len(taken) > 300
    clashes = [str(path.relative_to(ROOT)) for path in _modules() if path.stem in taken]
    assert not clashes


def test_no_module_has_a_name_that_says_nothing() -> None:
    assert not [str(path.relative_to(ROOT)) for path in _modules() if path.stem in VAGUE]


def test_modules_stay_small() -> None:
    # Few files, since they go into training images that teams build.
    by_exception = {f"plugins/gpu_training/{name}.py" for name in ("contract", "attempt", "checkpoints")}
    sizes = {str(path.relative_to(ROOT)): _lines(path) for path in _modules()}
    too_long = {
        name: lines
        for name, lines in sizes.items()
        if lines > (LONGEST_CORE_MODULE if "/core/" in name else LONGEST_MODULE) and name not in by_exception
    }
    assert not too_long


def test_dag_files_are_wiring_only() -> None:
    assert not [path.name for path in (ROOT / "dags").glob("*.py") if _lines(path) > LONGEST_DAG_FILE]


def _functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(_tree(path)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node


def _length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of the body, without its docstring."""
    body = function.body
    if isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant) and len(body) > 1:
        body = body[1:]
    return (body[-1].end_lineno or 0) - body[0].lineno + 1


def test_functions_of_the_core_stay_short() -> None:
    # A constructor call of many fields, one a line, is long and simple.
    by_exception = {"parse_training_spec"}
    too_long = [
        f"{path.name}: {function.name}"
        for path in (ROOT / "plugins/gpu_training/core").glob("*.py")
        for function in _functions(path)
        if _length(function) > LONGEST_FUNCTION and function.name not in by_exception
    ]
    assert not too_long


def _is_case(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Attribute) and node.func.attr == "case" and "mark" in ast.unparse(node.func)


def test_every_case_that_a_test_claims_to_prove_is_written_as_one() -> None:
    wrong = []
    for path in sorted((ROOT / "tests").rglob("*.py")):
        for node in ast.walk(_tree(path)):
            if isinstance(node, ast.Call) and _is_case(node):
                identifiers = [arg.value for arg in node.args if isinstance(arg, ast.Constant)]
                if len(identifiers) != 1 or not CASE.fullmatch(str(identifiers[0])):
                    wrong.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert not wrong


def test_every_test_file_belongs_to_a_tier() -> None:
    """A file without a marker of a tier would be run by none."""
    tiers = ("core", "unit", "dags", "cluster", "containerd", "stack", "stock", "trainer")
    # Tests of the contract are marked by the kind of node that each of them gets.
    by_fixture = {ROOT / "tests" / "contract": ROOT / "tests" / "contract" / "conftest.py"}
    without = [
        str(path.relative_to(ROOT))
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        if not any(f"pytest.mark.{tier}" in by_fixture.get(path.parent, path).read_text() for tier in tiers)
    ]
    assert not without


def test_every_module_says_what_it_is_for() -> None:
    silent = [str(path.relative_to(ROOT)) for path in _modules() if ast.get_docstring(_tree(path)) is None]
    assert not silent
