"""Tiers: every test belongs to exactly one, they run from cheap to dear, and what ran is written for `make test`."""

from __future__ import annotations

import importlib.util
import json
import os
import re
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from tests import light_airflow
from tests.light_airflow import airflow_database  # noqa: F401 - a fixture
from tests.mlflow_service import mlflow_server  # noqa: F401 - a fixture
from tests.object_store_service import object_store_server  # noqa: F401 - a fixture

if importlib.util.find_spec("airflow"):
    # One cluster for all tiers that have one; the environments of the others have no sandbox.
    from sandbox.testing import container_node, namespace, sandbox, sandbox_folder  # noqa: F401 - fixtures

_HOME = light_airflow.prepare()

pytest.register_assert_rewrite("tests.resume_proof")

TIERS = ("core", "trainer", "unit", "dags", "cluster", "containerd", "stack", "stock")


def tier_of(item: pytest.Item) -> str:
    found = [tier for tier in TIERS if item.get_closest_marker(tier) is not None]
    if len(found) != 1:
        raise pytest.UsageError(
            f"{item.nodeid}: exactly one of the markers {', '.join(TIERS)} is expected, not {found}"
        )
    return found[0]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for marker in item.iter_markers("case"):
            if len(marker.args) != 1 or not re.fullmatch(r"C\d{3}", str(marker.args[0])):
                raise pytest.UsageError(f'{item.nodeid}: case("C0NN") is expected, not case{marker.args}')
    items.sort(key=lambda item: TIERS.index(tier_of(item)))


class TierReport:
    """Counts outcomes and seconds by tier, and writes them where `make test` reads them."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self._tier_of: dict[str, str] = {}
        self._outcomes: dict[str, Counter[str]] = defaultdict(Counter)
        self._seconds: dict[str, float] = defaultdict(float)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._tier_of = {item.nodeid: tier_of(item) for item in session.items}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        tier = self._tier_of[report.nodeid]
        self._seconds[tier] += report.duration
        if report.when == "call" or report.outcome != "passed":
            self._outcomes[tier][report.outcome] += 1

    def pytest_sessionfinish(self) -> None:
        body = {
            tier: {**self._outcomes[tier], "seconds": round(self._seconds[tier], 1)} for tier in sorted(self._seconds)
        }
        self._target.parent.mkdir(parents=True, exist_ok=True)
        self._target.write_text(json.dumps(body))


def pytest_configure(config: pytest.Config) -> None:
    if target := os.environ.get("TIER_REPORT"):
        config.pluginmanager.register(TierReport(Path(target)), "tier-report")


def pytest_unconfigure() -> None:
    if _HOME is not None:
        light_airflow.remove(_HOME)
