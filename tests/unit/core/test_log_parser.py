"""Bytes of a container's log -> what a terminal shows of its lines in the end, whatever the chunks; bounded memory."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable
from itertools import pairwise
from types import FrameType

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpu_training.core.log_lines import stamp_of, text_of
from gpu_training.core.log_parser import LONGEST_LINE, BarMark, LogParser

pytestmark = pytest.mark.core

STAMP = b"2026-11-30T19:00:00.500000000Z "
SHORT = 64
"""A longest line that is soon reached."""


def read(*chunks: bytes, longest: int = LONGEST_LINE) -> list[str]:
    parser = LogParser(longest=longest)
    lines = [line for chunk in chunks for line in parser.feed(chunk)[0]]
    return [*lines, *parser.end()]


def cut(content: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(min(each, len(content)) for each in cuts), len(content)]
    return [content[a:b] for a, b in pairwise(edges)]


CUTS = st.lists(st.integers(min_value=0, max_value=600), max_size=6)
# What matters is likely: ends, returns, escapes, stamps, and long lines.
CONTENT = st.lists(
    st.one_of(
        st.sampled_from(
            [b"\n", b"\r", b"\r\n", STAMP, b"\x1b[31m", b"\x1b]0;", b"\x07", b"\x1b", b"\0", b"\xc2", b"\x85"]
        ),
        st.binary(max_size=8),
        st.sampled_from([b"x" * 40, b"\xc3\xa4" * 40, b"\xc3" * 90, b"\x1b[K" * 90, b"10%", b" "]),
    ),
    max_size=30,
).map(b"".join)


@pytest.mark.case("C067")
@given(CONTENT, CUTS)
@example(b"10%\r\x1b[2K\n", [6])
@example(b"x" * 300 + b"\r\x1b[K\n", [120, 301])
def test_chunks_do_not_matter(content: bytes, cuts: list[int]) -> None:
    assert read(*cut(content, cuts), longest=SHORT) == read(content, longest=SHORT)


@given(st.lists(CONTENT.map(lambda each: each.replace(b"\n", b"")), max_size=8))
def test_a_line_is_read_the_same_alone_and_among_others(lines: list[bytes]) -> None:
    stamped = [STAMP + line for line in lines]
    alone = [text for line in stamped for text in read(line + b"\n", longest=200)]
    assert read(b"".join(line + b"\n" for line in stamped), longest=200) == alone


@pytest.mark.case("C065")
@given(st.binary(max_size=200), CUTS)
def test_any_bytes_are_survived_and_every_line_has_its_place_for_a_stamp(content: bytes, cuts: list[int]) -> None:
    for line in read(*cut(content, cuts)):
        assert " " in line
        assert "\n" not in line
        assert "\r" not in line
        assert "\x1b" not in line
        line.encode()


@pytest.mark.case("C065")
@pytest.mark.case("C067")
@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (b"plain", "plain"),
        (b"", ""),
        (b"tab\tstays", "tab\tstays"),
        (b"windows\r", "windows"),
        (b"bad \xc6 byte", "bad \\xc6 byte"),
        ("ä € 😀".encode(), "ä € 😀"),
        (b"10%\r20%\r30%", "30%"),
        (b"10%\r20%\r30%\r", "30%"),
        (b"\r10%\r\x1b[2K\r30%", "30%"),
        (b"10%\r\x1b[2K", "10%"),
        (b"\x1b[31mred\x1b[0m and \x1b[1;4mbold\x1b[m", "red and bold"),
        (b"\x1b]0;title\x07text", "text"),
        (b"\x1b]8;;file:///x\x1b\\link\x1b]8;;\x1b\\", "link"),
        (b"half an escape \x1b[", "half an escape ["),
        (b"nul\0 bell\x07 back\x08 delete\x7f", "nul bell back delete"),
        (b"\xc2\x9b31mC1 and \xc2\xb0C", "31mC1 and °C"),
    ],
)
def test_a_line_is_what_a_terminal_shows_in_the_end(raw: bytes, shown: str) -> None:
    assert read(STAMP + raw + b"\n") == [STAMP.decode() + shown]
    assert read(STAMP + raw) == [STAMP.decode() + shown]


def test_an_escape_that_never_ends_takes_nothing_from_the_next_line() -> None:
    content = STAMP + b"a\x1b]0;title\n" + STAMP + b"b\n"
    assert [text_of(line) for line in read(content)] == ["a", "b"]


@pytest.mark.case("C065")
def test_a_line_without_a_stamp_begins_with_the_blank() -> None:
    assert read(b"no stamp\n" + STAMP + b"x\n\n" + STAMP.strip() + b"\n") == [
        " no stamp",
        STAMP.decode() + "x",
        " ",
        STAMP.decode(),
    ]


@pytest.mark.case("C067")
@pytest.mark.parametrize("text", ["x", "ä", "😀"])
def test_a_line_that_is_too_long_says_how_much_is_cut(text: str) -> None:
    raw = (text * (LONGEST_LINE + 10)).encode()
    for chunks in ([STAMP + raw + b"\n"], cut(STAMP + raw + b"\n", [7, 40, 5000])):
        (line,) = read(*chunks)
        assert text_of(line) == f"{text * LONGEST_LINE} … [cut: {10 * len(text.encode())} more bytes]"
    (longest,) = read(STAMP + (text * LONGEST_LINE).encode())
    assert text_of(longest) == text * LONGEST_LINE


@pytest.mark.case("C064")
@pytest.mark.case("C067")
def test_a_line_of_a_gibibyte_takes_bounded_memory() -> None:
    parser, chunk = LogParser(), b"x" * (1 << 20)
    tracemalloc.start()
    try:
        parser.feed(STAMP)
        for _ in range(1024):
            assert parser.feed(chunk) == ((), None)
        (line,), _ = parser.feed(b"\nnext")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert text_of(line) == f"{'x' * LONGEST_LINE} … [cut: {(1 << 30) - LONGEST_LINE} more bytes]"
    assert stamp_of(line) is not None
    assert parser.end() == (" next",)
    assert peak < 4 << 20


@pytest.mark.case("C064")
@pytest.mark.parametrize("chunk", [b"\r" * 65536, b"\x1b[K" * 20000, b"\0" * 65536, b"\xff" * 65536])
def test_odd_bytes_without_a_line_end_take_bounded_memory(chunk: bytes) -> None:
    parser = LogParser()
    parser.feed(STAMP)
    tracemalloc.start()
    try:
        for _ in range(20):
            parser.feed(chunk)
        kept = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert kept < 1 << 20


@pytest.mark.case("C067")
def test_a_bar_that_never_ends_its_line_tells_its_newest_whole_frame_as_it_comes_in_pieces() -> None:
    bar = STAMP + b"".join(b"\r%3d%%|%s| %d/100000" % (n // 1000, b"#" * 40, n) for n in range(100_000))
    parser, told = LogParser(), list[int]()
    for begin in range(0, len(bar), 16 * 1024):
        lines, frame = parser.feed(bar[begin : begin + 16 * 1024])
        assert lines == ()
        assert frame is not None
        assert frame.endswith("/100000"), "a frame of which a part is missing"
        told.append(int(frame.split()[-1].removesuffix("/100000")))
    (line,), frame = parser.feed(b"\n")

    assert told == sorted(set(told))
    assert told[-1] == 99_998
    assert frame is None
    assert text_of(line).endswith(" 99999/100000")
    assert stamp_of(line) is not None


def test_a_frame_is_told_once_and_colours_are_taken_out_of_it() -> None:
    parser = LogParser()
    assert parser.feed(STAMP + b"\x1b[32m10%\x1b[0m")[1] is None
    assert parser.feed(b"\r")[1] == "10%"
    assert parser.feed(b"\r\x1b[K\r")[1] is None
    assert parser.feed(b"20%\r30%\r4")[1] == "30%"
    assert parser.feed(b"0%\n" + STAMP + b"next bar\r")[1] == "next bar"


@given(st.integers(min_value=2, max_value=60), CUTS, st.data())
def test_frames_that_a_reopened_stream_offers_again_are_not_told_again(
    frames: int, cuts: list[int], data: st.DataObject
) -> None:
    bar = STAMP + b"".join(b"\r%d/%d" % (n, frames) for n in range(frames))
    told, mark = list[int](), BarMark()
    for end in [data.draw(st.integers(min_value=0, max_value=len(bar))), len(bar), len(bar)]:
        parser = LogParser(mark=mark)
        for chunk in cut(bar[:end], cuts):
            if (frame := parser.feed(chunk)[1]) is not None:
                told.append(int(frame.split("/")[0]))
        mark = parser.mark

    assert told == sorted(set(told))
    assert told[-1] == frames - 2


def calls_of(work: Callable[[], object]) -> int:
    """Give how many calls, of functions in Python and in C, some work takes."""
    count = 0

    def counted(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("frame", [b"\r", b"\r\x08", b"\r\x1b[K"])
def test_of_an_unfinished_line_thousands_of_frames_that_show_nothing_cost_no_work_of_their_own(frame: bytes) -> None:
    parser = LogParser()
    parser.feed(STAMP + b"begun")
    assert calls_of(lambda: parser.feed(frame * 4000)) < 200
    assert parser.feed(b"\r50%\r")[1] == "50%"
