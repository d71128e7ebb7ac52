"""The data version: value, references to one, and which of those there are a reference means."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Final

from gpu_training.core.errors import DataVersionError
from gpu_training.core.fields import nearest

VERSION_ID: Final = r"[A-Za-z0-9][A-Za-z0-9._+-]{0,127}"
DIGEST: Final = r"sha256:[0-9a-f]{64}"
LATEST: Final = "latest"
AS_OF: Final = "as of "
_SHOWN: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class DataVersion:
    """An immutable, content-addressed state of the training data.

    :param source: name of the dataset or its URI.
    :param ref: what was asked for: `latest`, an id, or `as of <time>`.
    :param id: the version that this resolved to.
    :param digest: `sha256:<hex>` of the content.
    :param uri: where its manifest is.
    :param created_at: ISO 8601 with an offset.
    """

    source: str
    ref: str
    id: str
    digest: str
    uri: str
    created_at: str

    def to_document(self) -> dict[str, str]:
        """Give the canonical form: plain texts, in the order of the fields."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownVersion:
    """A version that a source lists.

    :param created_at: seconds since 1970.
    """

    id: str
    created_at: float


def parse_data_version(document: object) -> DataVersion:
    """Give the data version in a document.

    :raises DataVersionError: absent, empty, or a field that is missing or malformed.
    """
    if not isinstance(document, Mapping) or not document:
        raise DataVersionError(
            f"data_version={document!r}: a data version document is expected; does the task before resolve one?"
        )
    names = tuple(DataVersion.__dataclass_fields__)
    values = {}
    for name in names:
        value = document.get(name)
        if not isinstance(value, str) or not value.strip():
            raise DataVersionError(f"data_version.{name}={value!r}: a non-empty text is expected")
        values[name] = value
    if unknown := set(document) - set(names):
        raise DataVersionError(
            f"data_version: unknown fields {sorted(map(str, unknown))}; known are {', '.join(names)}"
        )
    for name, pattern in (("id", VERSION_ID), ("digest", DIGEST)):
        if re.fullmatch(pattern, values[name]) is None:
            raise DataVersionError(f"data_version.{name}={values[name]!r}: {pattern} is expected")
    return DataVersion(**values)


def check_reference(ref: str) -> str:
    """Give the reference, stripped.

    :raises DataVersionError: empty, or neither `latest`, nor an id, nor `as of` an ISO 8601 time with an offset.
    """
    ref = ref.strip()
    if ref == LATEST or re.fullmatch(VERSION_ID, ref):
        return ref
    if ref.startswith(AS_OF) and _time(ref.removeprefix(AS_OF)) is not None:
        return ref
    raise DataVersionError(
        f"data version {ref!r}: `{LATEST}`, an id, or `{AS_OF}<time>` (ISO 8601 with an offset, "
        f"e.g. `{AS_OF}2026-03-01T00:00:00+00:00`) is expected"
    )


def _time(text: str) -> float | None:
    try:
        parsed = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return parsed.timestamp() if parsed.tzinfo is not None else None


def select_version(known: Iterable[KnownVersion], ref: str, run_after: float) -> KnownVersion:
    """Give the version that a reference means. `latest` means as of the run's `run_after`, so that resolving again, in
    a retry or after a clear, gives the same version. Versions made at the same time are ordered by id.

    :param run_after: seconds since 1970.
    :raises DataVersionError: none is known, none is old enough, or the id is unknown; the message names what there is.
    """
    ref = check_reference(ref)
    versions = sorted(known, key=lambda version: (version.created_at, version.id))
    if not versions:
        raise DataVersionError(f"data version {ref!r}: the source has no versions yet; publish one first")
    if ref == LATEST or ref.startswith(AS_OF):
        moment = run_after if ref == LATEST else _time(ref.removeprefix(AS_OF)) or 0.0
        old_enough = [version for version in versions if version.created_at <= moment]
        if not old_enough:
            at, oldest = _show(moment), versions[0]
            raise DataVersionError(
                f"data version {ref!r}: none was there at {at}; the oldest is {oldest.id} of {_show(oldest.created_at)}"
            )
        return old_enough[-1]
    for version in versions:
        if version.id == ref:
            return version
    newest = ", ".join(version.id for version in reversed(versions[-_SHOWN:]))
    guess = nearest(ref, (version.id for version in versions))
    raise DataVersionError(f"data version {ref!r} is unknown{guess}; the newest are: {newest}")


def _show(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds")
