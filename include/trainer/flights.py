"""Flights as features and a target, split by time.

Features are what the timetable says: known before departure, so that nothing of the outcome leaks into them. Calendar
dates are left out, since the days to predict always lie beyond those that were learnt.
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from trainer.failures import DataFailure

HELD_OUT_SHARE = 0.2
"""Share of the days, the last ones, that is held out for evaluation."""

LEAST_DAYS = 5
_DATE = ("year", "month", "day")
_CLOCKS = ("sched_dep_time", "sched_arr_time")
_CODES = ("carrier", "origin", "dest")
_LARGEST_CODE = 4
_COMPRESSION = {".csv": None, ".csv.gz": "gzip"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Rows to learn from, or to evaluate on."""

    features: pd.DataFrame
    target: np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Two parts, every day of `held_out` later than any of `train`.

    :param held_out_from: first day held out, ISO 8601.
    """

    train: Part
    held_out: Part
    held_out_from: str


def build_split(files: Iterable[tuple[str, bytes]], target: str) -> Split:
    """Give the split of the flights in some CSV files, without those that lack the target, such as cancelled ones.

    :raises DataFailure: a file is not CSV, lacks a column, holds a value of another kind, or the days are too few.
    """
    columns = [*_DATE, *_CLOCKS, *_CODES, "distance", target]
    flights = pd.concat([_table(path, content, columns) for path, content in files], ignore_index=True)
    flights = flights[flights[target].notna()]
    try:
        date = pd.to_datetime(flights[list(_DATE)])
    except ValueError as error:
        raise DataFailure(f"year, month, day: {error}") from error
    days = np.sort(date.unique())
    if len(days) < LEAST_DAYS:
        raise DataFailure(
            f"{len(days)} days have flights with {target}: at least {LEAST_DAYS} are needed to hold some out"
        )
    first = pd.Timestamp(days[-max(1, int(len(days) * HELD_OUT_SHARE))])
    features = _features(flights, date)
    values = flights[target].to_numpy(dtype=np.float32)
    held_out = (date >= first).to_numpy()
    return Split(
        train=Part(features=features[~held_out], target=values[~held_out]),
        held_out=Part(features=features[held_out], target=values[held_out]),
        held_out_from=first.date().isoformat(),
    )


def _table(path: str, content: bytes, columns: list[str]) -> pd.DataFrame:
    compression = next((how for suffix, how in _COMPRESSION.items() if path.endswith(suffix)), "unknown")
    if compression == "unknown":
        raise DataFailure(f"{path}: a file ending in {' or '.join(_COMPRESSION)} is expected")
    kinds = {column: str if column in _CODES else np.float64 for column in columns}
    try:
        return pd.read_csv(
            io.BytesIO(content),
            compression=compression,
            usecols=columns,
            dtype=kinds,
            keep_default_na=False,
            na_values=["", "NA"],
        )
    except (ValueError, OSError, EOFError) as error:
        raise DataFailure(f"{path}: {error}") from error


def _features(flights: pd.DataFrame, date: pd.Series) -> pd.DataFrame:
    features = {"day_of_week": date.dt.day_of_week}
    for column in _CLOCKS:
        # 1745 is a quarter to six in the evening: only minutes are evenly spaced.
        features[f"{column}_minutes"] = flights[column] // 100 * 60 + flights[column] % 100
    for column in _CODES:
        features[column] = flights[column].map({code: _number_of(code, column) for code in flights[column].unique()})
    features["distance"] = flights["distance"]
    table = pd.DataFrame(features).astype(np.float64)
    if table.isna().to_numpy().any():
        empty = ", ".join(table.columns[table.isna().any()])
        raise DataFailure(f"flights lack a value of {empty}: every flight needs its timetable")
    return table


def _number_of(code: object, column: str) -> int:
    """Read a code as a number of base 36: the same in every data version and wherever the model serves."""
    if not isinstance(code, str) or len(code) > _LARGEST_CODE or not code.isascii() or not code.isalnum():
        raise DataFailure(f"{column}={code!r}: a code of 1 to {_LARGEST_CODE} letters and digits is expected")
    return int(code, 36)
