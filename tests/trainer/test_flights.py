"""Features are what the timetable says, and what is held out lies after all that was learnt."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest
from tests.trainer.harness import VERSION, flight

from trainer.failures import DataFailure
from trainer.flights import Split, build_split

pytestmark = pytest.mark.trainer


def csv(rows: list[dict[str, Any]]) -> bytes:
    columns = list(rows[0])
    return "\n".join([",".join(columns), *(",".join(str(row[name]) for name in columns) for row in rows)]).encode()


def split(rows: list[dict[str, Any]], target: str = "arr_delay") -> Split:
    return build_split([("flights.csv", csv(rows))], target)


TEN_DAYS = [flight(day, arr_delay=day) for day in range(1, 11)]


@pytest.mark.parametrize("target", ["arr_delay", "dep_delay", "air_time"])
def test_no_feature_knows_what_happened(target: str) -> None:
    assert set(split(TEN_DAYS, target).train.features.columns) == {
        "day_of_week",
        "sched_dep_time_minutes",
        "sched_arr_time_minutes",
        "carrier",
        "origin",
        "dest",
        "distance",
    }


def test_last_fifth_of_the_days_is_held_out_whatever_their_order_in_the_files() -> None:
    found = build_split([("b.csv", csv(TEN_DAYS[5:])), ("a.csv.gz", gzip.compress(csv(TEN_DAYS[:5])))], "arr_delay")
    assert sorted(found.train.target) == list(range(1, 9))
    assert sorted(found.held_out.target) == [9, 10]
    assert found.held_out_from == "2013-01-09"


def test_days_are_split_whole(versions: Path) -> None:
    files = [(path.name, path.read_bytes()) for path in sorted((versions / VERSION).glob("*.csv.gz"))]
    found = build_split(files, "arr_delay")
    assert len(found.held_out.target) / 40 == pytest.approx(13, abs=1), "a fifth of 69 days, of 40 flights each"
    assert found.held_out_from == "2013-02-26"


def test_times_become_minutes_and_codes_the_same_numbers_everywhere() -> None:
    features = split([flight(day, sched_dep_time=1745) for day in range(1, 6)]).train.features
    assert features.loc[0, "sched_dep_time_minutes"] == 17 * 60 + 45
    assert features.loc[0, "carrier"] == int("UA", 36)


def test_cancelled_flights_are_left_out() -> None:
    found = split([*TEN_DAYS, *(flight(day, arr_delay="") for day in range(1, 11))])
    assert len(found.train.target) + len(found.held_out.target) == 10


@pytest.mark.parametrize(
    ("path", "content", "message"),
    [
        ("flights.parquet", b"", r"flights\.parquet: a file ending in \.csv or \.csv\.gz"),
        ("flights.csv.gz", b"not gzip", r"flights\.csv\.gz: "),
        ("flights.csv.gz", gzip.compress(csv(TEN_DAYS))[:-20], r"flights\.csv\.gz: "),
        ("flights.csv", b"", r"flights\.csv: "),
        ("flights.csv", b"\xff\xfe,\x00", r"flights\.csv: "),
        ("flights.csv", csv([{"year": 2013}]), r"flights\.csv: .*month"),
        ("flights.csv", csv([flight(1, distance="far")]), r"flights\.csv: .*far"),
        ("flights.csv", csv([flight(day) for day in range(1, 5)]), "4 days have flights with arr_delay: at least 5"),
        ("flights.csv", csv([flight(day, arr_delay="") for day in range(1, 9)]), "0 days have flights"),
        ("flights.csv", csv([flight(day, distance="") for day in range(1, 9)]), "lack a value of distance"),
        ("flights.csv", csv([flight(day, dest="") for day in range(1, 9)]), "dest=nan: a code of 1 to 4"),
        ("flights.csv", csv([flight(day, dest="HEATHROW") for day in range(1, 9)]), "dest='HEATHROW'"),
        ("flights.csv", csv([flight(day) for day in range(36, 44)]), "year, month, day: .*2013-01-36"),
    ],
)
def test_bad_file_is_named(path: str, content: bytes, message: str) -> None:
    with pytest.raises(DataFailure, match=message):
        build_split([(path, content)], "arr_delay")
