"""From runs to the table, and whether the goals are met."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.logs.figures import MIB, Figures, Run, parse_size, rows

pytestmark = pytest.mark.unit

ONE, MANY, *_, TOLD = rows(64)


def run(seconds: float = 2.0, memory_mib: float = 10.0, *faults: str) -> Run:
    return Run(lines=1000, size=131_000, seconds=seconds, processor_s=1.0, memory_mib=memory_mib, faults=faults)


def figures(ours: list[Run], kubectl: list[Run]) -> Figures:
    return Figures(row=ONE, said=100 * MIB, ours=ours, kubectl=kubectl)


def test_throughput_is_that_of_the_median_run_and_memory_that_of_the_worst() -> None:
    measured = figures([run(1, 5), run(2, 30), run(9, 8)], [run(4), run(4), run(1)])
    assert (measured.speed, measured.kubectl_speed, measured.ratio) == (50, 25, 2)
    assert measured.memory_mib == 30
    assert measured.missed == []
    assert measured.describe().endswith("  met")


@pytest.mark.parametrize(
    ("ours", "kubectl", "missed"),
    [
        (run(4.0), run(2.0), []),
        (run(4.2), run(2.0), ["ratio 0.48 is below 0.5"]),
        (run(2.0, 64.0), run(), []),
        (run(2.0, 65.0), run(), ["65 MiB of added memory are more than 64"]),
        (run(2.0, 10.0, "3 lines missing"), run(), ["ours: 3 lines missing"]),
        (run(), run(2.0, 200.0, "1 lines too many"), ["kubectl: 1 lines too many"]),
    ],
)
def test_each_goal_that_is_missed_is_told(ours: Run, kubectl: Run, missed: list[str]) -> None:
    measured = figures([ours], [kubectl])
    assert measured.missed == missed
    assert ("MISSED: " + "; ".join(missed) in measured.describe()) == bool(missed)


def test_what_goes_into_the_task_log_has_no_goal_but_that_each_line_is_accounted_for() -> None:
    measured = Figures(row=TOLD, said=MIB, ours=[replace(run(9, 90), note="5 lines told")], kubectl=[])
    assert measured.missed == []
    assert measured.describe().endswith("5 lines told")
    assert Figures(row=TOLD, said=MIB, ours=[run(9, 9, "1 lines lost")], kubectl=[]).missed == ["ours: 1 lines lost"]


def test_pods_share_a_row_s_size() -> None:
    assert ONE.lines(64 * MIB) == 671_088
    assert MANY.lines(64 * MIB) == 10_485
    assert MANY.lines(1) == 2


@pytest.mark.parametrize(("text", "size"), [("1GiB", 1 << 30), ("64MiB", 64 * MIB), ("1KiB", 1024)])
def test_sizes_are_understood(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "1", "MiB", "0MiB", "-1MiB", "1.5GiB", "1GB", "1 GiB"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="give a whole number of GiB, MiB, KiB, such as 64MiB"):
        parse_size(text)
