"""A reference means one version, the same one whenever it is asked again."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_training.core.dataversion import (
    DataVersion,
    KnownVersion,
    check_reference,
    parse_data_version,
    select_version,
)
from gpu_training.core.errors import DataVersionError

pytestmark = pytest.mark.core

DOCUMENT = {
    "source": "flights",
    "ref": "latest",
    "id": "2026-03-01",
    "digest": "sha256:" + "d" * 64,
    "uri": "s3://flights/versions/2026-03-01/manifest.json",
    "created_at": "2026-03-01T04:00:00+00:00",
}


def seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


KNOWN = [
    KnownVersion(id="2026-02-22", created_at=seconds("2026-02-22T04:00:00+00:00")),
    KnownVersion(id="2026-03-08", created_at=seconds("2026-03-08T04:00:00+00:00")),
    KnownVersion(id="2026-03-01", created_at=seconds("2026-03-01T04:00:00+00:00")),
    KnownVersion(id="2026-03-01.b", created_at=seconds("2026-03-01T04:00:00+00:00")),
]
NOW = seconds("2026-03-02T07:30:00+00:00")


def test_a_document_is_read_and_written_back() -> None:
    version = parse_data_version(DOCUMENT)
    assert version == DataVersion(**DOCUMENT)
    assert version.to_document() == DOCUMENT


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (None, "data_version=None: a data version document is expected"),
        ("", "data_version=''"),
        ({}, "data_version={}"),
        ([DOCUMENT], "data_version=[{"),
        ({**DOCUMENT, "digset": "x"}, "unknown field 'digset' (did you mean 'digest'?); known are source, ref, id"),
        ({**DOCUMENT, 5: "x"}, "unknown field 5"),
        ({k: v for k, v in DOCUMENT.items() if k != "uri"}, "data_version.uri=None"),
        ({**DOCUMENT, "source": " "}, "data_version.source=' '"),
        ({**DOCUMENT, "uri": "s3://a\nb"}, "data_version.uri='s3://a\\nb': a printable text"),
        ({**DOCUMENT, "id": ""}, "data_version.id=''"),
        ({**DOCUMENT, "id": "a/b"}, "data_version.id='a/b': an id (1 to 128 letters, digits"),
        ({**DOCUMENT, "id": "a" * 129}, "data_version.id="),
        ({**DOCUMENT, "digest": "d" * 64}, "`sha256:` and 64 hex digits"),
        ({**DOCUMENT, "created_at": "2026-03-01"}, "data_version.created_at='2026-03-01': an ISO 8601 time and its"),
        ({**DOCUMENT, "created_at": "yesterday"}, "an ISO 8601 time"),
    ],
)
def test_a_document_that_is_no_data_version_is_refused_naming_the_field(document: Any, words: str) -> None:
    with pytest.raises(DataVersionError) as caught:
        parse_data_version(document)
    assert words in str(caught.value)


@pytest.mark.parametrize("ref", ["latest", " latest\n", "2026-03-01", "v1.2+b_c", "as of 2026-03-01T00:00:00+01:00"])
def test_a_reference_is_taken_without_the_space_around_it(ref: str) -> None:
    assert check_reference(ref) == ref.strip()


@pytest.mark.parametrize(
    "ref", ["", "  ", "a b", "../x", "a/b", "as of yesterday", "as of 2026-03-01T00:00:00", "as of", "ä", None, 5, []]
)
def test_any_other_reference_is_refused_saying_what_there_is(ref: object) -> None:
    with pytest.raises(DataVersionError, match=r"`latest`, an id .* or `as of <time>`"):
        check_reference(ref)


@pytest.mark.parametrize(
    ("ref", "expected"),
    [
        # 2026-03-08 is not there yet when the run is due, whenever it is asked.
        ("latest", "2026-03-01.b"),
        ("2026-03-08", "2026-03-08"),
        ("2026-03-01", "2026-03-01"),
        ("as of 2026-03-01T03:59:59+00:00", "2026-02-22"),
        ("as of 2026-03-01T05:00:00+01:00", "2026-03-01.b"),
        ("as of 2030-01-01T00:00:00Z", "2026-03-08"),
    ],
)
def test_a_reference_means_one_version_whatever_the_order_listed(ref: str, expected: str) -> None:
    assert select_version(KNOWN, ref, NOW).id == expected
    assert select_version(reversed(KNOWN), ref, NOW).id == expected


@pytest.mark.parametrize(
    ("known", "ref", "words"),
    [
        ([], "latest", "the source has no versions yet; publish one first"),
        (KNOWN, "2026-03-02", "is unknown (did you mean '2026-03-0"),
        (KNOWN, "zzz", "is unknown; the newest are: 2026-03-08, 2026-03-01.b, 2026-03-01, 2026-02-22"),
        (
            KNOWN[1:2],
            "latest",
            "none was there at 2026-03-02T07:30:00+00:00; the oldest is 2026-03-08 of 2026-03-08T04",
        ),
        (KNOWN, "as of 2001-01-01T00:00:00Z", "none was there at 2001-01-01T00:00:00+00:00; the oldest is 2026-02-22"),
        (KNOWN, "as of 0001-01-01T00:00:00+23:59", "none was there at"),
    ],
)
def test_a_reference_that_means_nothing_says_what_there_is(known: list[KnownVersion], ref: str, words: str) -> None:
    with pytest.raises(DataVersionError) as caught:
        select_version(known, ref, NOW)
    assert words in str(caught.value)


versions = st.lists(
    st.builds(KnownVersion, id=st.text("abc", min_size=1, max_size=2), created_at=st.floats(0, 10)),
    min_size=1,
    max_size=6,
)


@given(versions, versions, st.floats(10, 20))
def test_latest_does_not_change_when_younger_versions_come(
    known: list[KnownVersion], later: list[KnownVersion], run_after: float
) -> None:
    younger = [KnownVersion(id=version.id, created_at=version.created_at + 20.5) for version in later]
    assert select_version([*younger, *known], "latest", run_after) == select_version(known, "latest", run_after)
