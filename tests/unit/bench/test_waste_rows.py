"""Which rows there are, and what tells one scenario from another."""

from __future__ import annotations

import pytest

from bench.waste.faults import FAULTS
from bench.waste.rows import ALL_NODES, ROWS, Column, Scenario, choose, scenarios

pytestmark = pytest.mark.unit


def test_every_row_has_something_that_goes_wrong() -> None:
    assert set(FAULTS) == {row.name for row in ROWS}


def test_rows_come_in_the_order_of_the_table() -> None:
    assert [row.name for row in choose("cleared, hang")] == ["hang", "cleared"]
    assert choose(None) == list(ROWS)


def test_a_row_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(ValueError, match=r"no row is named 'hand': known are .*hang"):
        choose("hang,hand")


@pytest.mark.parametrize("what", ["key", "dag_id"])
def test_no_two_scenarios_have_the_same_name(what: str) -> None:
    names = [getattr(scenario, what) for column in Column for scenario in scenarios(column)]
    assert len(names) == len(set(names)) == len(ROWS) * len(Column)


def test_only_rows_with_nodes_of_their_own_keep_away_from_the_others() -> None:
    for column in Column:
        for scenario in scenarios(column):
            assert scenario.nodes == (scenario.key if scenario.row.own_node else ALL_NODES)


def test_both_stock_columns_have_one_way_to_the_cluster_and_those_through_a_proxy_one_each() -> None:
    ways = {Scenario(row, column).connection for row in ROWS if row.proxied for column in Column}
    assert len(ways) == sum(row.proxied for row in ROWS) * len(Column)
    plain = next(row for row in ROWS if not row.proxied)
    assert [Scenario(plain, column).connection for column in Column] == ["kubernetes_gpu", "waste_stock", "waste_stock"]
