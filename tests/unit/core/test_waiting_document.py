"""The document about waiting names what is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpu_training.core.clocks import Clock
from gpu_training.core.node_hope import YOUNG_S
from gpu_training.core.pending_cause import CURES, Cause, Cure
from gpu_training.core.pending_growth import INSISTS_S, UNFOUND_S, UNKNOWN_S
from gpu_training.core.pending_kubelet import RECENT_IMAGE_S, RECENT_S

pytestmark = pytest.mark.core

TEXT = (Path(__file__).parents[3] / "docs" / "waiting.md").read_text()


def _section(title: str) -> str:
    return TEXT.split(f"## {title}\n")[1].split("\n## ")[0]


def _rows(title: str) -> list[list[str]]:
    """Give the cells of the rows of a section's table."""
    return [row.split("|")[1:-1] for row in _section(title).splitlines() if row.startswith("| `")]


def _names(cell: str) -> list[str]:
    return re.findall(r"`(\w+)`", cell)


def _first_cells(title: str) -> set[str]:
    return {name for row in _rows(title) for name in _names(row[0])}


def test_the_cures_of_each_cause_are_those_that_the_code_declares() -> None:
    told = {name: row[1].strip() for row in _rows("Causes") for name in _names(row[0])}
    assert told == {
        cause.value: ", ".join(cure.value for cure in Cure if cure in cures) for cause, cures in CURES.items()
    }


@pytest.mark.parametrize(
    "words",
    [
        f"says for {INSISTS_S:.0f} s that",
        f"it has {UNFOUND_S:.0f} s from the pod's creation",
        f"and {UNKNOWN_S / 60:.0f} minutes where it could not be looked for",
        f"within the last {YOUNG_S / 60:.0f} minutes",
        f"within {RECENT_S / 60:.1f} minutes, or {RECENT_IMAGE_S / 60:.1f} of an image",
    ],
)
def test_the_times_that_decide_are_those_of_the_code(words: str) -> None:
    assert words in " ".join(_section("What ends a run at once").split())


def test_every_cause_is_in_the_table_of_causes_and_no_other() -> None:
    assert _first_cells("Causes") == {cause.value for cause in Cause}


def test_every_clock_is_in_the_table_of_clocks_and_no_other() -> None:
    assert _first_cells("The five clocks") == {clock.value for clock in Clock}
