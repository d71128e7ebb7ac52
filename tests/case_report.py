"""pytest plugin of `make cases`: runs only the tests of some cases, and writes what became of each, case by case."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

NOT_RUN = "not run"


class CaseReport:
    """Outcome of each test by case: `passed`, `failed`, `skipped` or `not run`.

    The report is written anew after each test, so that a run that breaks off leaves what it knew.

    :param cases: those asked for.
    :param stock: whether the tests against the stock operator are meant, or all others.
    """

    def __init__(self, target: Path, cases: frozenset[str], *, stock: bool) -> None:
        self._target = target
        self._cases = cases
        self._stock = stock
        self._cases_of: dict[str, set[str]] = {}
        self._outcomes: dict[str, str] = {}

    # First, so that a test that `-m` leaves out is known as one that did not run.
    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        for item in items:
            if (item.get_closest_marker("stock") is not None) == self._stock:
                found = {str(name) for marker in item.iter_markers("case") for name in marker.args}
                if found & self._cases:
                    self._cases_of[item.nodeid] = found & self._cases
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in self._cases_of])
        items[:] = [item for item in items if item.nodeid in self._cases_of]
        self._outcomes = dict.fromkeys(self._cases_of, NOT_RUN)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        # A file that can not be read may hold tests of any case: then there is no report.
        if not session.testsfailed:
            self._write()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        known = self._outcomes[report.nodeid]
        if report.failed or (report.when == "call" and known == NOT_RUN) or report.skipped:
            self._outcomes[report.nodeid] = "failed" if "failed" in (known, report.outcome) else report.outcome
            self._write()

    def _write(self) -> None:
        body: dict[str, dict[str, str]] = {}
        for test, outcome in self._outcomes.items():
            for case in self._cases_of[test]:
                body.setdefault(case, {})[test] = outcome
        self._target.parent.mkdir(parents=True, exist_ok=True)
        self._target.write_text(json.dumps(body))


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("cases")
    group.addoption("--cases", default="", help="cases whose tests are run, separated by commas")
    group.addoption("--case-report", default="", help="file for the outcomes by case, in JSON")
    group.addoption("--stock", action="store_true", help="the tests against the stock operator, and no others")


def pytest_configure(config: pytest.Config) -> None:
    cases = frozenset(name for name in config.getoption("--cases").split(",") if name)
    if cases and (target := config.getoption("--case-report")):
        config.pluginmanager.register(CaseReport(Path(target), cases, stock=config.getoption("--stock")))
