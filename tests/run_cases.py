"""Run the tests of the cases in tests/cases.yaml and say, a line a case, whether it holds: `make cases`.

`python -m tests.run_cases [--theme identity,kill] [--stock]`: exits 0 only when every case of the themes holds; with
`--stock`, when every fault that has a test against the stock KubernetesJobOperator shows there.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import yaml
from tests import run_tiers
from tests.run_tiers import GROUPS, ROOT, Group

CASES = ROOT / "tests" / "cases.yaml"
ORIGIN = ROOT.parent / "shared" / "CASES.md"
"""The list of faults that cases.yaml follows; only the project's own machines have it."""
REPORTS = ROOT / "build" / "cases"
FOLDERS = {"cluster": ("cluster", "contract"), "containerd": ("containerd", "contract")}
"""Where the tests of a tier lie, other than in the folder of its name."""
CLEAN_EXITS = (0, 1, 5)
"""pytest's: all passed, some failed, no test was left."""


class CasesError(Exception):
    """What was asked for can not be told; the message says why."""


class State(StrEnum):
    HOLDS = "holds"
    FAILS = "fails"
    NOT_COVERED = "not covered"
    SHOWS = "shows"
    DOES_NOT_SHOW = "does not show"
    NOT_TRIED = "not tried"


@dataclass(frozen=True)
class Case:
    identifier: str
    theme: str
    title: str


@dataclass(frozen=True)
class Finding:
    """A case and what became of its tests.

    :param tests: node ids and outcomes: `passed`, `failed`, `skipped`, `not run`.
    """

    case: Case
    state: State
    tests: Mapping[str, str]

    @property
    def lines(self) -> list[str]:
        told = self.state in (State.HOLDS, State.SHOWS)
        details = [] if told else [f"      {out}: {test}" for test, out in self.tests.items() if out != "passed"]
        return [f"{self.case.identifier} {self.state:<13} {self.case.title}", *details]


def read_cases(path: Path = CASES) -> tuple[Case, ...]:
    return tuple(
        Case(identifier, entry["theme"], title)
        for entry in yaml.safe_load(path.read_text())
        for identifier, title in entry["cases"].items()
    )


def differences(path: Path = CASES, origin: Path = ORIGIN) -> list[str]:
    """Say how the cases differ from those of the list they follow, if that is there."""
    if not origin.exists():
        return []
    ours = {name: entry["heading"] for entry in yaml.safe_load(path.read_text()) for name in entry["cases"]}
    theirs: dict[str, str] = {}
    heading = ""
    for line in origin.read_text().splitlines():
        if line.startswith("## "):
            heading = line[3:].strip()
        elif found := re.match(r"\|\s*(C\d{3})\s*\|", line):
            theirs[found[1]] = heading
    return [
        f"{name}: {path.name} has {ours.get(name, 'nothing')!r}, {origin.name} {theirs.get(name, 'nothing')!r}"
        for name in sorted({*ours, *theirs})
        if ours.get(name) != theirs.get(name)
    ]


def choose(cases: Iterable[Case], themes: str) -> tuple[Case, ...]:
    """Give the cases of themes, separated by commas; all of them when none is named.

    :raises CasesError: there is no such theme.
    """
    everything = tuple(cases)
    known = list(dict.fromkeys(case.theme for case in everything))
    asked = [name.strip() for name in themes.split(",") if name.strip()]
    if unknown := [name for name in asked if name not in known]:
        raise CasesError(f"theme {unknown[0]!r} is unknown: give any of {', '.join(known)}, separated by commas")
    return tuple(case for case in everything if not asked or case.theme in asked)


def state_of(outcomes: Mapping[str, str], *, stock: bool) -> State:
    """Give the state of a case, of the outcomes of its tests. What was skipped proves nothing."""
    proved = bool(outcomes) and set(outcomes.values()) == {"passed"}
    if stock:
        return State.SHOWS if proved else State.DOES_NOT_SHOW if outcomes else State.NOT_TRIED
    return State.HOLDS if proved else State.FAILS if "failed" in outcomes.values() else State.NOT_COVERED


def summary(findings: Sequence[Finding], *, stock: bool) -> tuple[str, bool]:
    """Give the last line, and whether all is as it should be."""
    tried = [finding for finding in findings if finding.state is not State.NOT_TRIED]
    good = [finding for finding in tried if finding.state in (State.HOLDS, State.SHOWS)]
    if stock:
        text = f"{len(good)} of {len(tried)} faults tried show, {len(findings) - len(tried)} not tried"
    else:
        text = f"{len(good)} of {len(findings)} cases hold"
    return text, bool(tried) and len(good) == len(tried)


def files_naming(group: Group, identifiers: Iterable[str], *, stock: bool) -> list[str]:
    """Give the test files that name one of the cases; a mark is always written out."""
    pattern = re.compile("|".join(identifiers))
    return [
        path
        for path in sorted(
            str(file.relative_to(ROOT)) for root in group.paths for file in (ROOT / root).rglob("test_*.py")
        )
        if not path.startswith(group.ignored)
        and path.startswith("tests/stock/") == stock
        and pattern.search((ROOT / path).read_text())
    ]


def prepare(group: Group, files: Iterable[str]) -> None:
    """Build what the files' folders need of the sandbox.

    :raises CasesError: it can not be built.
    """
    folders = {path.split("/")[1] for path in files}
    tiers = [tier for tier in run_tiers.PARTS if folders & set(FOLDERS.get(tier, (tier,)))]
    if not run_tiers.prepare(group, tiers):
        raise CasesError(f"what {', '.join(tiers)} tests need could not be built")


def run(group: Group, files: list[str], identifiers: Iterable[str], *, stock: bool) -> dict[str, dict[str, str]]:
    """Run the tests of the cases in one process and give outcomes by case and test.

    :raises CasesError: the run broke off before it knew its tests.
    """
    report = REPORTS / f"{group.environment.strip('.')}.json"
    report.unlink(missing_ok=True)
    command = [str(ROOT / group.environment / "bin" / "python"), "-m", "pytest", "-q", "-p", "tests.case_report"]
    command += ["--cases", ",".join(identifiers), "--case-report", str(report), *(["--stock"] if stock else [])]
    unable = {tier: why for tier in group.tiers if (why := run_tiers.obstacle(tier))}
    if unable:
        command += ["-m", f"not ({' or '.join(unable)})"]
    code = subprocess.run([*command, *files], cwd=ROOT, check=False).returncode
    if not report.exists():
        raise CasesError(f"pytest in {group.environment} broke off before it knew its tests, with exit code {code}")
    if code not in CLEAN_EXITS:
        print(f"pytest in {group.environment} broke off with exit code {code}")
    outcomes: dict[str, dict[str, str]] = json.loads(report.read_text())
    if any("not run" in tests.values() for tests in outcomes.values()):
        print(*(f"{tier} tests are not run: {why}" for tier, why in unable.items()), sep="\n")
    return outcomes


def find(cases: Iterable[Case], *, stock: bool) -> list[Finding]:
    """Run the tests of the cases, a process an environment, and give what was found.

    :raises CasesError: an environment is missing, or a run broke off.
    """
    identifiers = [case.identifier for case in cases]
    outcomes: dict[str, dict[str, str]] = {name: {} for name in identifiers}
    for group in GROUPS:
        if not (files := files_naming(group, identifiers, stock=stock)):
            continue
        if not (ROOT / group.environment / "bin" / "python").exists():
            raise CasesError(f"{group.environment} is missing: run make install")
        prepare(group, files)
        for name, tests in run(group, files, identifiers, stock=stock).items():
            outcomes[name] |= tests
    return [
        Finding(case, state_of(outcomes[case.identifier], stock=stock), outcomes[case.identifier]) for case in cases
    ]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.run_cases", description=__doc__)
    parser.add_argument("--theme", default="", help="themes, separated by commas; all when none is given")
    parser.add_argument("--stock", action="store_true", help="against the stock operator, where the faults must show")
    asked = parser.parse_args()
    try:
        if differing := differences():
            raise CasesError("\n".join(["tests/cases.yaml is not the list that it follows:", *differing]))
        findings = find(choose(read_cases(), asked.theme), stock=asked.stock)
    except CasesError as exc:
        print(exc, file=sys.stderr)
        return 2
    text, good = summary(findings, stock=asked.stock)
    header = "of the stock operator: where a fault shows, this does not hold there" if asked.stock else ""
    print("\n".join([header, *(line for finding in findings for line in finding.lines), text]))
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
