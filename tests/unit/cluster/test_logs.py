"""Bytes of a container's log -> lines, each once, whatever the chunks and wherever the stream broke."""

from __future__ import annotations

from datetime import datetime
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_training.cluster.logs import CUT_MARK, LONGEST_LINE, LineReader, Position, clean, split_stamp

pytestmark = pytest.mark.unit


def read(*chunks: bytes) -> list[str]:
    reader = LineReader()
    lines = [line for chunk in chunks for line in reader.feed(chunk)]
    return [*lines, *reader.end()]


@given(st.binary(max_size=400), st.lists(st.integers(min_value=0, max_value=400), max_size=6))
def test_chunks_do_not_matter(content: bytes, cuts: list[int]) -> None:
    edges = [0, *sorted(min(cut, len(content)) for cut in cuts), len(content)]
    chunks = [content[a:b] for a, b in pairwise(edges)]

    assert read(*chunks) == read(content)


@pytest.mark.case("C065")
@given(st.binary(max_size=200))
def test_any_bytes_are_survived(content: bytes) -> None:
    for line in read(content):
        moment, text = split_stamp(line)
        assert moment is None or isinstance(moment, tuple)
        assert isinstance(clean(text), str)


@pytest.mark.case("C067")
@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("plain", "plain"),
        ("", ""),
        ("windows\r", "windows"),
        ("10%\r20%\r30%", "30%"),
        ("10%\r\x1b[2K\r30%", "30%"),
        ("\x1b[31mred\x1b[0m and \x1b[1;4mbold\x1b[m", "red and bold"),
        ("\x1b]0;title\x07text", "text"),
        ("half an escape \x1b[", "half an escape \x1b["),
        ("x" * (LONGEST_LINE + 1), "x" * LONGEST_LINE + CUT_MARK),
    ],
)
def test_a_line_is_what_a_terminal_shows_in_the_end(line: str, shown: str) -> None:
    assert clean(line) == shown


@pytest.mark.case("C064")
@pytest.mark.case("C067")
def test_a_line_without_an_end_takes_bounded_memory() -> None:
    reader = LineReader()
    for _ in range(2_000):
        assert list(reader.feed(b"x" * 4096)) == []
    (line,) = reader.feed(b"\nnext")

    assert len(line) < 4 * LONGEST_LINE
    assert line.endswith(CUT_MARK)
    assert list(reader.end()) == ["next"]


@pytest.mark.case("C067")
def test_a_progress_bar_that_never_ends_keeps_its_last_frame() -> None:
    reader = LineReader()
    assert list(reader.feed(b"2026-11-30T19:00:00.5Z ")) == []
    for step in range(100_000):
        assert list(reader.feed(b"\r%d/100000" % step)) == []
    (line,) = reader.feed(b"\n")

    assert split_stamp(line)[0] is not None
    assert clean(split_stamp(line)[1]) == "99999/100000"


@pytest.mark.parametrize(
    ("line", "moment", "rest"),
    [
        ("2026-11-30T19:00:00.123456789Z said", (1796065200, 123456789), "said"),
        ("2026-11-30T19:00:00.5Z said", (1796065200, 500000000), "said"),
        ("2026-11-30T21:00:00+02:00 said", (1796065200, 0), "said"),
        ("2026-11-30T19:00:00Z", (1796065200, 0), ""),
        ("2026-13-30T19:00:00Z said", None, "2026-13-30T19:00:00Z said"),
        ("no stamp", None, "no stamp"),
    ],
)
def test_a_stamp_is_read_to_the_nanosecond(line: str, moment: tuple[int, int] | None, rest: str) -> None:
    assert split_stamp(line) == (moment, rest)


@pytest.mark.case("C061")
@given(st.data())
def test_each_line_is_taken_once_however_often_the_stream_breaks(data: st.DataObject) -> None:
    gaps = data.draw(st.lists(st.sampled_from([0, 1, 400_000_000, 1_500_000_000]), min_size=1, max_size=40))
    stamps = [sum(gaps[: n + 1]) + 1_800_000_000 * 10**9 for n in range(len(gaps))]
    log = [(divmod(stamp, 10**9), n) for n, stamp in enumerate(stamps)]
    position, taken = Position(), []
    for last in [False] * data.draw(st.integers(min_value=0, max_value=8)) + [True]:
        since = position.resume()
        start = int(datetime.fromisoformat(since.replace("Z", "+00:00")).timestamp()) if since else 0
        offered = [entry for entry in log if entry[0][0] >= start]
        readable = len(offered) if last else data.draw(st.integers(min_value=0, max_value=len(offered)))
        taken += [n for moment, n in offered[:readable] if position.is_new(moment)]

    assert taken == list(range(len(log)))


def test_a_log_that_was_never_read_is_asked_for_from_its_start() -> None:
    assert Position().resume() is None
