"""Somebody dies in the middle of a training: it ends, and costs no more than without; a dozen cells of the matrix.

All of them run at once, in the setup of the first test: trainings are independent, and mostly wait. `make faults` runs
the whole matrix.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.stack.faults.campaign import Campaign, Verdict
from tests.stack.faults.matrix import DOZEN, MATRIX, Outcome, Point, Victim
from tests.stack.faults.room import Room

from stack.airflow_services import SERVICES
from stack.lifecycle import Stack
from stack.restoring import restore

pytestmark = [pytest.mark.stack, pytest.mark.timeout(1200)]

UNDISTURBED = list(dict.fromkeys(cell.uninterrupted() for cell in MATRIX))


@pytest.fixture(scope="module")
def verdicts(
    request: pytest.FixtureRequest, session_stack: Stack, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Verdict]]:
    """Give the verdicts of those of the dozen that this session tests, by the names of their cells."""
    asked = {item.callspec.params.get("name") for item in request.session.items if hasattr(item, "callspec")}
    restore(session_stack, SERVICES)
    room = Room(session_stack, tmp_path_factory.mktemp("faults") / "cells")
    try:
        room.open()
        cells = [cell for cell in [*UNDISTURBED, *DOZEN] if cell.name in asked]
        yield {verdict.cell.name: verdict for verdict in Campaign(room).run(cells)}
    finally:
        room.close()
        restore(session_stack, SERVICES)


@pytest.mark.parametrize("name", [cell.name for cell in [*UNDISTURBED, *DOZEN]])
def test_whoever_dies_the_training_ends_and_no_gpu_second_is_spent_twice(
    verdicts: dict[str, Verdict], name: str
) -> None:
    assert verdicts[name].holds, verdicts[name].line()


def test_the_dozen_has_every_victim_point_and_outcome() -> None:
    assert len(set(DOZEN)) == 12
    assert {cell.victim for cell in DOZEN} == set(Victim)
    assert {cell.point for cell in DOZEN} == set(Point)
    assert {cell.outcome for cell in DOZEN} == set(Outcome)
    assert len(MATRIX) == 54
