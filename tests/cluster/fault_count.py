"""pytest plugin of `make sandbox-selftest`: counts the faults that were proved, and fails when one was not."""

from __future__ import annotations

import pytest

from sandbox.fault_commands import FAULTS
from sandbox.proxy_script import Action

KNOWN = {*FAULTS, *(f"proxy {action}" for action in Action)}


class FaultCount:
    """Faults by name; one is proved when a test of it passed and none failed."""

    def __init__(self) -> None:
        self.tests: dict[str, set[str]] = {}
        self.passed: set[str] = set()
        self.failed: set[str] = set()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            for marker in item.iter_markers("fault"):
                for name in marker.args:
                    self.tests.setdefault(name, set()).add(item.nodeid)
        if unknown := sorted(set(self.tests) - KNOWN):
            raise pytest.UsageError(
                f"fault {unknown[0]!r} of a test is none of the sandbox's: {', '.join(sorted(KNOWN))}"
            )

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.add(report.nodeid)
        elif report.when == "call" and report.passed:
            self.passed.add(report.nodeid)

    def unproved(self) -> list[str]:
        """Give the faults that no test proved."""
        return sorted(
            name for name in KNOWN if not self.tests.get(name, set()) & self.passed or self.tests[name] & self.failed
        )

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.unproved() and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        unproved = self.unproved()
        text = f"{len(KNOWN) - len(unproved)} of {len(KNOWN)} faults proved"
        terminalreporter.write_line(f"{text}; not: {', '.join(unproved)}" if unproved else text)


def pytest_configure(config: pytest.Config) -> None:
    """Count."""
    config.pluginmanager.register(FaultCount())
