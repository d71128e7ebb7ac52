"""The document about waiting names what is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpu_training.core.clocks import Clock
from gpu_training.core.pending_cause import Cause

pytestmark = pytest.mark.core

TEXT = (Path(__file__).parents[3] / "docs" / "waiting.md").read_text()


def _first_cells(section: str) -> set[str]:
    body = TEXT.split(f"## {section}\n")[1].split("\n## ")[0]
    return {
        name for row in body.splitlines() if row.startswith("| `") for name in re.findall(r"`(\w+)`", row.split("|")[1])
    }


def test_every_cause_is_in_the_table_of_causes_and_no_other() -> None:
    assert _first_cells("Causes") == {cause.value for cause in Cause}


def test_every_clock_is_in_the_table_of_clocks_and_no_other() -> None:
    assert _first_cells("The five clocks") == {clock.value for clock in Clock}
