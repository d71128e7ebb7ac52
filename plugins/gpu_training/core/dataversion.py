"""The data version: value, references to one, and which of those there are a reference means."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from typing import Final

from gpu_training.core.errors import DataVersionError, shown
from gpu_training.core.fields import nearest

VERSION_ID: Final = r"[A-Za-z0-9][A-Za-z0-9._+-]{0,127}"
_ID_WORDS: Final = "an id (1 to 128 letters, digits and `._+-`, a letter or digit first)"
DIGEST: Final = r"sha256:[0-9a-f]{64}"
_TIME_WORDS: Final = "an ISO 8601 time and its offset, e.g. 2026-03-01T00:00:00+00:00,"
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

    :raises DataVersionError: absent, empty, or a field that is missing, unknown or malformed.
    """
    if not isinstance(document, Mapping) or not document:
        raise DataVersionError(
            f"data_version={shown(document)}: a data version document is expected; does the task before resolve one?"
        )
    names = tuple(entry.name for entry in fields(DataVersion))
    for key in document:
        if key not in names:
            known = ", ".join(names)
            raise DataVersionError(
                f"data_version: unknown field {shown(key)}{nearest(str(key), names)}; known are {known}"
            )
    version = DataVersion(**{name: _field(document, name) for name in names})
    if re.fullmatch(VERSION_ID, version.id) is None:
        raise DataVersionError(f"data_version.id={shown(version.id)}: {_ID_WORDS} is expected")
    if re.fullmatch(DIGEST, version.digest) is None:
        raise DataVersionError(f"data_version.digest={shown(version.digest)}: `sha256:` and 64 hex digits are expected")
    if _time(version.created_at) is None:
        raise DataVersionError(f"data_version.created_at={shown(version.created_at)}: {_TIME_WORDS} is expected")
    return version


def _field(document: Mapping[object, object], name: str) -> str:
    value = document.get(name)
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise DataVersionError(f"data_version.{name}={shown(value)}: a printable text, not an empty one, is expected")
    return value


def check_reference(ref: object) -> str:
    """Give the reference, stripped.

    :raises DataVersionError: empty, or neither `latest`, nor an id, nor `as of` an ISO 8601 time with an offset.
    """
    text = ref.strip() if isinstance(ref, str) else ""
    if text == LATEST or re.fullmatch(VERSION_ID, text):
        return text
    if text.startswith(AS_OF) and _time(text.removeprefix(AS_OF)) is not None:
        return text
    raise DataVersionError(
        f"data version {shown(ref)}: `{LATEST}`, {_ID_WORDS}, or `{AS_OF}<time>` with {_TIME_WORDS} is expected"
    )


def _time(text: str) -> float | None:
    """Give seconds since 1970; None for what is no time, or one whose offset from UTC is not said."""
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
    moment = run_after if ref == LATEST else _time(ref.removeprefix(AS_OF)) if ref.startswith(AS_OF) else None
    if moment is not None:
        return _newest(versions, ref, moment)
    for version in versions:
        if version.id == ref:
            return version
    newest = ", ".join(version.id for version in reversed(versions[-_SHOWN:]))
    guess = nearest(ref, (version.id for version in versions))
    raise DataVersionError(f"data version {ref!r} is unknown{guess}; the newest are: {newest}")


def _newest(versions: Sequence[KnownVersion], ref: str, moment: float) -> KnownVersion:
    """Give the newest of the sorted versions that was there at a moment."""
    old_enough = [version for version in versions if version.created_at <= moment]
    if not old_enough:
        oldest = versions[0]
        raise DataVersionError(
            f"data version {ref!r}: none was there at {_show(moment)}; the oldest is {oldest.id} "
            f"of {_show(oldest.created_at)}"
        )
    return old_enough[-1]


def _show(moment: float) -> str:
    try:
        return datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return f"{moment:g} seconds since 1970"
