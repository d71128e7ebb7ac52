"""What `make cases` says of a case is what its tests proved."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.run_cases import (
    CASES,
    Case,
    CasesError,
    Finding,
    State,
    choose,
    differences,
    read_cases,
    state_of,
    summary,
)
from tests.run_tiers import ROOT

pytestmark = pytest.mark.unit

TESTS = """
import pytest

case, stock = pytest.mark.case, pytest.mark.stock

@pytest.fixture
def broken():
    raise RuntimeError

@pytest.fixture
def breaks_at_the_end():
    yield
    raise RuntimeError

@case("C901")
@pytest.mark.unit
def test_good(): pass

@case("C902")
def test_bad(): assert False

@case("C903")
@pytest.mark.parametrize("number", [1, 2])
def test_good_once(number): assert number == 1

@case("C904")
def test_skipped(): pytest.skip("no")

@case("C905")
@case("C901")
def test_good_for_two(): pass

@case("C905")
@pytest.mark.skip
def test_marked_as_skipped(): pass

@case("C906")
def test_that_is_broken_before_it_begins(broken): pass

@case("C907")
def test_that_breaks_after_it_passed(breaks_at_the_end): pass

@case("C908")
@pytest.mark.xfail(strict=True)
def test_that_is_expected_to_fail(): assert False

@case("C909")
@pytest.mark.containerd
def test_that_this_machine_can_not_run(): pass

@case("C910")
@stock
def test_shows(): pass

@case("C911")
@stock
def test_does_not_show(): assert False

@pytest.mark.parametrize("number", [pytest.param(1, marks=case("C912")), 2])
def test_of_which_one_line_is_a_case(number): assert number == 1

@case("C999")
def test_of_another_case(): raise SystemExit
"""
ASKED = [f"C{number}" for number in range(901, 914)]

HERE = {
    "C901": State.HOLDS,
    "C902": State.FAILS,
    "C903": State.FAILS,
    "C904": State.NOT_COVERED,
    "C905": State.NOT_COVERED,
    "C906": State.FAILS,
    "C907": State.FAILS,
    "C908": State.NOT_COVERED,
    "C909": State.NOT_COVERED,
    "C910": State.NOT_COVERED,
    "C911": State.NOT_COVERED,
    "C912": State.HOLDS,
    "C913": State.NOT_COVERED,
}
STOCK = dict.fromkeys(ASKED, State.NOT_TRIED) | {"C910": State.SHOWS, "C911": State.DOES_NOT_SHOW}


def outcomes_of(folder: Path, text: str, *options: str) -> dict[str, dict[str, str]] | None:
    """Run a test file with the plugin; None when there is no report."""
    (folder / "test_generated.py").write_text(text)
    report = folder / "report.json"
    command = [sys.executable, "-m", "pytest", "-q", "-c", str(ROOT / "pyproject.toml"), "-p", "tests.case_report"]
    command += ["--cases", ",".join(ASKED), "--case-report", str(report), "-m", "not (containerd)", *options]
    subprocess.run([*command, str(folder / "test_generated.py")], cwd=ROOT, capture_output=True, check=False)
    return json.loads(report.read_text()) if report.exists() else None


@pytest.mark.parametrize(("options", "stock", "states"), [((), False, HERE), (("--stock",), True, STOCK)])
def test_a_case_has_the_state_that_all_of_its_tests_prove(
    tmp_path: Path, options: tuple[str, ...], stock: bool, states: dict[str, State]
) -> None:
    outcomes = outcomes_of(tmp_path, TESTS, *options)
    assert outcomes is not None
    assert {name: state_of(outcomes.get(name, {}), stock=stock) for name in ASKED} == states
    assert "C999" not in outcomes


def test_a_run_that_breaks_off_leaves_what_it_knew(tmp_path: Path) -> None:
    text = TESTS + "@case('C913')\ndef test_kills_its_process():\n    import os; os._exit(3)\n"
    outcomes = outcomes_of(tmp_path, text + "@case('C913')\ndef test_never_begun(): pass\n")
    assert outcomes is not None
    assert state_of(outcomes["C901"], stock=False) is State.HOLDS
    assert set(outcomes["C913"].values()) == {"not run"}


def test_a_file_that_can_not_be_read_leaves_no_report(tmp_path: Path) -> None:
    assert outcomes_of(tmp_path, "import there_is_no_such_module") is None


def finding(state: State) -> Finding:
    return Finding(Case("C001", "identity", "No second pod"), state, {"a.py::one": "passed", "a.py::two": "failed"})


@pytest.mark.parametrize(
    ("states", "stock", "text", "good"),
    [
        ([State.HOLDS, State.HOLDS], False, "2 of 2 cases hold", True),
        ([State.HOLDS, State.FAILS], False, "1 of 2 cases hold", False),
        ([State.HOLDS, State.NOT_COVERED], False, "1 of 2 cases hold", False),
        ([State.SHOWS, State.NOT_TRIED], True, "1 of 1 faults tried show, 1 not tried", True),
        ([State.SHOWS, State.DOES_NOT_SHOW], True, "1 of 2 faults tried show, 0 not tried", False),
        ([State.NOT_TRIED], True, "0 of 0 faults tried show, 1 not tried", False),
    ],
)
def test_the_last_line_counts_and_only_all_is_good(states: list[State], stock: bool, text: str, good: bool) -> None:
    assert summary([finding(state) for state in states], stock=stock) == (text, good)


def test_a_case_that_does_not_hold_names_the_tests_that_did_not_pass() -> None:
    assert finding(State.HOLDS).lines == ["C001 holds         No second pod"]
    assert finding(State.FAILS).lines == ["C001 fails         No second pod", "      failed: a.py::two"]


def test_themes_are_chosen_by_name_and_none_means_all() -> None:
    cases = read_cases()
    assert {case.theme for case in choose(cases, "kill, spec")} == {"kill", "spec"}
    assert choose(cases, "") == cases
    with pytest.raises(CasesError, match=r"theme 'kil' is unknown: give any of identity, waiting, .*mlflow"):
        choose(cases, "kill,kil")


def test_the_cases_are_those_of_the_list_they_follow(tmp_path: Path) -> None:
    assert differences() == []
    assert differences(origin=tmp_path / "nowhere.md") == []

    origin = tmp_path / "origin.md"
    headings = {case.theme: case.identifier for case in reversed(read_cases())}
    origin.write_text(f"## Kill and cleanup\n\n| {headings['kill']} | a | b | c |\n| C998 | a | b | c |\n")
    said = differences(origin=origin)
    assert f"C998: {CASES.name} has 'nothing', origin.md 'Kill and cleanup'" in said
    assert len(said) == len(read_cases())
