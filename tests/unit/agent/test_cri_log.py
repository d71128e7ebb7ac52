"""The log format keeps every byte, whatever a container writes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.agent.cri_log import (
    CHUNK_BYTES,
    LineSplitter,
    encode_entries,
    encode_entry,
    format_timestamp,
    parse_entry,
    parse_timestamp,
)

pytestmark = pytest.mark.unit


def split(*chunks: bytes) -> list[tuple[bool, bytes]]:
    lines = LineSplitter()
    found = [entry for chunk in chunks for entry in lines.feed(chunk)]
    return [*found, *lines.close()]


@pytest.mark.parametrize(
    ("chunks", "entries"),
    [
        ((b"a\nb\n",), [(False, b"a"), (False, b"b")]),
        ((b"a", b"b\n"), [(False, b"ab")]),
        ((b"\n\n",), [(False, b""), (False, b"")]),
        ((b"10%\r20%\r\n",), [(False, b"10%\r20%\r")]),
        ((b"no end",), [(True, b"no end")]),
        ((b"\xff\xfe\n",), [(False, b"\xff\xfe")]),
        ((), []),
    ],
)
def test_lines_end_where_the_program_ends_them(chunks: tuple[bytes, ...], entries: list[tuple[bool, bytes]]) -> None:
    assert split(*chunks) == entries


def test_line_without_end_comes_out_in_chunks_as_it_grows() -> None:
    lines = LineSplitter()
    assert list(lines.feed(b"x" * (CHUNK_BYTES + 1))) == [(True, b"x" * CHUNK_BYTES)]
    assert list(lines.feed(b"\n")) == [(False, b"x")]


@given(st.lists(st.binary(max_size=40_000), max_size=5))
def test_what_goes_in_comes_out(chunks: list[bytes]) -> None:
    entries = split(*chunks)
    assert b"".join(content if partial else content + b"\n" for partial, content in entries) == b"".join(chunks)
    assert all(len(content) <= CHUNK_BYTES for _, content in entries)


@given(
    st.integers(0, 4 * 10**18),
    st.sampled_from(["stdout", "stderr"]),
    st.booleans(),
    st.binary(max_size=200).filter(lambda data: b"\n" not in data),
)
def test_entry_survives_the_file(moment: int, stream: str, partial: bool, content: bytes) -> None:
    entry = parse_entry(encode_entry(moment, stream, partial, content).removesuffix(b"\n"))
    assert entry is not None
    assert (entry.stream, entry.partial, entry.content) == (stream, partial, content)
    assert parse_timestamp(entry.timestamp) == moment


@given(st.lists(st.tuples(st.integers(0, 3 * 10**9), st.booleans(), st.binary(max_size=20)), max_size=20))
def test_many_entries_are_written_as_one_by_one(entries: list[tuple[int, bool, bytes]]) -> None:
    moments = (moment for moment, _, _ in entries)
    written = encode_entries("stderr", [entry[1:] for entry in entries], lambda: next(moments))
    assert written == b"".join(encode_entry(moment, "stderr", *entry) for moment, *entry in entries)


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (1_500_000_000, "1970-01-01T00:00:01.5Z"),
        (123_456_789, "1970-01-01T00:00:00.123456789Z"),
    ],
)
def test_times_are_written_as_go_writes_them(nanoseconds: int, text: str) -> None:
    assert format_timestamp(nanoseconds) == text


@pytest.mark.parametrize("text", ["2026-11-30T19:24:00.25+01:00", "2026-11-30T18:24:00.250000000Z"])
def test_times_of_others_are_understood(text: str) -> None:
    assert parse_timestamp(text) == parse_timestamp("2026-11-30T18:24:00.25Z")


@pytest.mark.parametrize("text", ["", "now", "2026-11-30T18:24:00", "2026-11-30T18:24:00.Z", "2026-11-30"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_timestamp(text)


@pytest.mark.parametrize("line", [b"", b"x", b"t stdout", b"t other F x", b"t stdout X x"])
def test_torn_line_of_the_file_is_no_entry(line: bytes) -> None:
    assert parse_entry(line) is None
