"""From GPU-seconds held to GPU-seconds wasted, the table, and whether the goal is met."""

from __future__ import annotations

import pytest

from bench.waste.figures import TOLERANCE_S, Baseline, Figure, Line, Report, useful_seconds
from bench.waste.meter import Hold
from bench.waste.program import HANG_STEP, STEPS
from bench.waste.rows import ROWS, Column, Row

pytestmark = pytest.mark.unit

BASELINE = 62.0


def row(name: str) -> Row:
    return next(row for row in ROWS if row.name == name)


def holds(*spans: tuple[float, float]) -> list[Hold]:
    return [Hold(pod=f"p{n}", gpus=1, since=since, until=until) for n, (since, until) in enumerate(spans)]


def useful(name: str, *spans: tuple[float, float], trained: bool = False, ended_at: float | None = None) -> float:
    return useful_seconds(row(name), holds(*spans), BASELINE, until=500, ended_at=ended_at, trained=trained)


def figure(waste: float, *, state: str = "success", cut: bool = False) -> Figure:
    return Figure(held=BASELINE + waste, useful=BASELINE, pods=1, tries=1, state=state, cut=cut)


def line(name: str, ours: float, stock: float, tuned: float) -> Line:
    return Line(row=row(name), figures=dict(zip(Column, map(figure, (ours, stock, tuned)), strict=True)))


def report(*lines: Line) -> Report:
    return Report(lines=lines, baseline=Baseline(seconds=(61.0, BASELINE, 62.5)))


def test_of_two_trainings_one_was_useful() -> None:
    assert useful("cleared", (0, 62), (20, 80), trained=True) == BASELINE


def test_a_training_that_never_came_to_its_end_was_of_no_use() -> None:
    assert useful("host-oom", (0, 8), (20, 23)) == 0


def test_no_more_is_useful_than_was_held() -> None:
    assert useful("cleared", (0, 60), trained=True) == 60


def test_what_came_before_a_person_ended_it_was_useful() -> None:
    assert useful("marked-failed", (0, 62), ended_at=10) == 10


@pytest.mark.parametrize("name", ["bad-configuration", "cuda-oom"])
def test_only_the_first_attempt_of_what_has_to_fail_was_useful(name: str) -> None:
    assert useful(name, (0, 3), (13, 16), (36, 39)) == 3


def test_a_hang_was_useful_until_it_hung() -> None:
    assert useful("hang", (0, 90)) == BASELINE - (STEPS - HANG_STEP)


def test_waste_is_never_below_nothing() -> None:
    assert Figure(held=61, useful=62, pods=1, tries=1, state="success", cut=False).waste == 0


def test_the_goal_is_met_at_a_fifth_of_what_stock_wastes() -> None:
    met = report(line("hang", 40, 300, 200), line("cleared", 10, 50, 50), line("triggerer-killed", 0, 0, 0))
    assert met.share == pytest.approx(50 / 350)
    assert met.met


def test_more_than_a_fifth_in_total_misses_the_goal() -> None:
    assert not report(line("hang", 100, 300, 200), line("cleared", 0, 50, 50)).met


@pytest.mark.parametrize(("stock", "tuned"), [(300.0, 1.0), (1.0, 300.0)])
def test_more_than_either_in_any_row_misses_the_goal(stock: float, tuned: float) -> None:
    lines = line("hang", 1 + TOLERANCE_S + 0.1, stock, tuned), line("cleared", 0, 900, 900)
    assert not report(*lines).met
    assert [each.met for each in lines] == [False, True]


def test_a_difference_within_the_tolerance_is_none() -> None:
    assert line("cleared", 1 + TOLERANCE_S, 50, 1).met


def test_a_row_in_which_stock_wastes_nothing_has_no_share() -> None:
    assert line("triggerer-killed", 0, 1, 1).share is None
    assert line("cleared", 5, 50, 50).share == pytest.approx(0.1)


def test_rows_in_which_nobody_wastes_anything_meet_the_goal() -> None:
    nothing = report(line("triggerer-killed", 0, 0, 0))
    assert nothing.share is None
    assert nothing.met


def test_the_table_says_where_no_training_came_to_its_end_and_where_it_went_on() -> None:
    figures = {Column.OURS: figure(3), Column.STOCK: figure(27.26, state="deferred", cut=True), Column.TUNED: figure(9)}
    text = report(Line(row=row("host-oom"), figures=figures)).text()
    assert text.splitlines()[0].split() == ["row", "ours", "stock", "tuned", "ours/stock", "goal"]
    assert text.splitlines()[1].split("  ")[0] == "host OOM"
    assert "27.3+, never trained" in text.splitlines()[1]
    assert "11%" in text.splitlines()[1]
    assert text.splitlines()[2].split() == ["rows", "that", "ended", "0.0", "0.0", "0.0", "-"]
    assert text.splitlines()[3].startswith("all rows")
    assert "62.0 (median of 3, which differ by 1.5)" in text


def test_what_lasts_as_long_as_it_is_watched_is_told_apart() -> None:
    going_on = {Column.OURS: figure(80), Column.STOCK: figure(400, cut=True), Column.TUNED: figure(200)}
    both = report(Line(row=row("hang"), figures=going_on), line("cleared", 2, 50, 30))
    assert [both.total(column) for column in Column] == [82, 450, 230]
    assert [both.total_of_ended(column) for column in Column] == [2, 50, 30]


def test_a_row_that_has_to_fail_is_not_blamed_for_it() -> None:
    figures = {column: figure(1, state="failed") for column in Column}
    assert "never trained" not in report(Line(row=row("hang"), figures=figures)).text().splitlines()[1]


def test_the_document_has_every_figure() -> None:
    document = report(line("cleared", 1.234, 50, 49)).document()
    columns = document["rows"]["cleared"]["columns"]
    assert {column: figures["waste"] for column, figures in columns.items()} == {"ours": 1.23, "stock": 50, "tuned": 49}
    assert columns["ours"]["pods"] == 1
    assert document["total"] == {"ours": 1.23, "stock": 50, "tuned": 49}
    assert document["met"] is True
