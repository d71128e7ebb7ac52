"""Weekly versions grow, never change, and have the same digest wherever they are built."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from tests.trainer.harness import publish

from gpu_training.contract import parse_manifest

pytestmark = pytest.mark.trainer


def test_versions_grow_by_a_week_and_hold_all_that_came_before(versions: Path) -> None:
    first, second = (
        parse_manifest((versions / day / "manifest.json").read_text()) for day in ("2013-03-04", "2013-03-11")
    )
    assert first.created_at == "2013-03-04T00:00:00+00:00"
    assert second.files[:-1] == first.files
    assert [file.path for file in second.files] == [f"flights-2013-w{week:02d}.csv.gz" for week in range(1, 11)]
    assert first.digest != second.digest


def test_version_is_self_contained(versions: Path) -> None:
    for folder in versions.iterdir():
        manifest = parse_manifest((folder / "manifest.json").read_text())
        assert {path.name for path in folder.iterdir()} == {"manifest.json", *(file.path for file in manifest.files)}


def test_week_holds_its_days_and_no_more_flights_than_asked(versions: Path) -> None:
    lines = gzip.decompress((versions / "2013-03-04" / "flights-2013-w09.csv.gz").read_bytes()).decode().splitlines()
    days = [tuple(map(int, line.split(",")[:3])) for line in lines[1:]]
    assert sorted(set(days)) == [
        (2013, 2, 25),
        (2013, 2, 26),
        (2013, 2, 27),
        (2013, 2, 28),
        *((2013, 3, d) for d in (1, 2, 3)),
    ]
    assert len(days) == 7 * 40
    hours = {int(line.split(",")[4]) // 100 for line in lines[1:]}
    assert len(hours) > 12, "flights are spread over the day, not taken from its morning"


def test_same_arguments_give_the_same_bytes_and_publishing_again_changes_nothing(
    versions: Path, tmp_path: Path
) -> None:
    for _ in range(2):
        assert publish(str(tmp_path / "again"), "--weeks", "1", "--rows-per-day", "40").returncode == 0
    copies = sorted((tmp_path / "again" / "2013-03-04").iterdir())
    assert [path.read_bytes() for path in copies] == [
        (versions / "2013-03-04" / path.name).read_bytes() for path in copies
    ]


def test_published_version_with_other_content_is_left_alone_and_refused(tmp_path: Path) -> None:
    assert publish(str(tmp_path), "--weeks", "1", "--rows-per-day", "5").returncode == 0
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.*")}
    refused = publish(str(tmp_path), "--weeks", "1", "--rows-per-day", "6")
    assert refused.returncode == 1
    assert "2013-03-04/manifest.json has sha256:" in refused.stderr
    assert "a version never changes" in refused.stderr
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.*")} == before


def test_version_without_its_manifest_is_published_anew(tmp_path: Path) -> None:
    folder = tmp_path / "2013-03-04"
    folder.mkdir()
    (folder / "flights-2013-w01.csv.gz").write_bytes(b"half")
    assert publish(str(tmp_path), "--weeks", "1", "--rows-per-day", "5").returncode == 0
    manifest = parse_manifest((folder / "manifest.json").read_text())
    assert (folder / "flights-2013-w01.csv.gz").stat().st_size == manifest.files[0].size


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--first", "2013-03-05"], "--first: '2013-03-05': a Monday from 2013-01-07 to 2014-01-06"),
        (["--first", "2012-12-31"], "--first: '2012-12-31'"),
        (["--first", "soon"], "--first: 'soon'"),
        (["--weeks", "0"], "--weeks: '0': a whole number from 1"),
        (["--weeks", "60"], "--weeks=60: the flights end on 2013-12-31: the last version is 2014-01-06"),
        (["--rows-per-day", "-1"], "--rows-per-day: '-1'"),
        (["--wekks", "1"], "unrecognized arguments: --wekks"),
    ],
)
def test_bad_argument_is_named(tmp_path: Path, arguments: list[str], message: str) -> None:
    refused = publish(str(tmp_path), *arguments)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert message in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
