"""Reading logs: the options of the kubelet's log end point, on files as a shim writes them."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.agent import logs
from sandbox.agent.cri_log import encode_entry, format_timestamp
from sandbox.agent.logs import LogOptionError, LogOptions, read_log, read_tail

pytestmark = pytest.mark.unit

SECOND = 10**9


def write(path: Path, *entries: tuple[int, str, bool, bytes]) -> Path:
    path.write_bytes(b"".join(encode_entry(*entry) for entry in entries))
    return path


def read(path: Path, options: LogOptions) -> bytes:
    async def collect() -> bytes:
        return b"".join([data async for data in read_log(path, options, running=lambda: False)])

    return asyncio.run(collect())


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return write(
        tmp_path / "log",
        (1 * SECOND, "stdout", False, b"one"),
        (2 * SECOND, "stderr", False, b"two\r2"),
        (3 * SECOND, "stdout", True, b"long "),
        (4 * SECOND, "stdout", False, b"line"),
        (5 * SECOND, "stdout", True, b"no end"),
    )


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (LogOptions(), b"one\ntwo\r2\nlong line\nno end"),
        (LogOptions(tail_lines=2), b"line\nno end"),
        (LogOptions(tail_lines=100), b"one\ntwo\r2\nlong line\nno end"),
        (LogOptions(tail_lines=0), b""),
        (LogOptions(since_ns=2 * SECOND + 1), b"long line\nno end"),
        (LogOptions(limit_bytes=5), b"one\nt"),
        (LogOptions(stream="stderr"), b"two\r2\n"),
        (
            LogOptions(timestamps=True, since_ns=2 * SECOND),
            b"1970-01-01T00:00:02Z two\r2\n1970-01-01T00:00:03Z long line\n1970-01-01T00:00:05Z no end",
        ),
    ],
)
def test_options_choose_what_of_the_log_is_given(log: Path, options: LogOptions, text: bytes) -> None:
    assert read(log, options) == text


@given(st.lists(st.binary(max_size=300).filter(lambda b: b"\n" not in b), max_size=60), st.integers(0, 70))
def test_tail_is_the_end_of_the_whole(lines: list[bytes], count: int) -> None:
    entries = [encode_entry(n * SECOND, "stdout", False, line) for n, line in enumerate(lines)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "log")
        path.write_bytes(b"".join(entries))
        expected = lines[max(0, len(lines) - count) :]
        assert [entry.content for entry in read_tail(path, count)] == expected


WRITTEN = st.tuples(
    st.integers(0, 8).map(lambda half: half * SECOND // 2),
    st.sampled_from(["stdout", "stdout", "stderr"]),
    st.sampled_from([False, False, False, True]),
    st.binary(max_size=40).filter(lambda b: b"\n" not in b) | st.just(b"x 1970-01-01T00:00:01Z stdout F y"),
)


@given(
    st.lists(WRITTEN, max_size=30),
    st.booleans(),
    st.integers(0, 8).map(lambda half: half * SECOND // 2) | st.none(),
    st.integers(1, 300) | st.none(),
    st.sampled_from(["stdout", None, None]),
)
def test_many_lines_at_once_are_given_as_one_by_one(
    written: list[tuple[int, str, bool, bytes]],
    timestamps: bool,
    since_ns: int | None,
    limit_bytes: int | None,
    stream: str | None,
) -> None:
    options = LogOptions(timestamps=timestamps, since_ns=since_ns, limit_bytes=limit_bytes, stream=stream)
    expected, begins = b"", True
    for moment, name, partial, content in written:
        if moment >= (since_ns or 0) and stream in (None, name):
            stamp = f"{format_timestamp(moment)} ".encode() if timestamps and begins else b""
            expected += stamp + content + (b"" if partial else b"\n")
            begins = not partial
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(logs, "BLOCK_BYTES", 256)
        assert read(write(Path(folder, "log"), *written), options) == expected[:limit_bytes]


def test_what_is_no_entry_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"torn\n1970-01-01T00:00:01Z stdout F one\nx 1970-01-01T00:00:02Z stdout F two\n")
    assert read(path, LogOptions()) == b"one\n"


def test_tail_reaches_over_many_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "BLOCK_BYTES", 64)
    path = write(tmp_path / "log", *((n * SECOND, "stdout", False, b"line %d" % n) for n in range(50)))
    assert [entry.content for entry in read_tail(path, 20)] == [b"line %d" % n for n in range(30, 50)]


def test_log_that_was_never_written_is_empty(tmp_path: Path) -> None:
    assert read(tmp_path / "none", LogOptions()) == b""
    assert read_tail(tmp_path / "none", 5) == []


def test_followed_log_goes_on_until_the_container_has_ended_and_all_is_read(log: Path) -> None:
    ended = asyncio.Event()
    seen: list[bytes] = []

    async def follow() -> None:
        options = LogOptions(follow=True, tail_lines=0)
        seen.extend([data async for data in read_log(log, options, running=lambda: not ended.is_set())])

    async def write_and_end() -> None:
        reader = asyncio.create_task(follow())
        await asyncio.sleep(0)
        entry = encode_entry(6 * SECOND, "stdout", False, b"torn in two")
        for part in (entry[:10], entry[10:]):
            with log.open("ab") as file:
                file.write(part)
            await asyncio.sleep(2 * logs.FOLLOW_S)
        with log.open("ab") as file:
            file.write(encode_entry(7 * SECOND, "stdout", False, b"last"))
        ended.set()
        await asyncio.wait_for(reader, 10)

    asyncio.run(write_and_end())
    assert b"".join(seen) == b"torn in two\nlast\n"


@pytest.mark.parametrize(
    ("query", "options"),
    [
        ({}, LogOptions()),
        ({"follow": "true", "timestamps": "false"}, LogOptions(follow=True)),
        ({"sinceSeconds": "10"}, LogOptions(since_ns=90 * SECOND)),
        ({"sinceTime": "1970-01-01T00:00:05Z"}, LogOptions(since_ns=5 * SECOND)),
        ({"tailLines": "0", "limitBytes": "9"}, LogOptions(tail_lines=0, limit_bytes=9)),
        ({"stream": "Stderr"}, LogOptions(stream="stderr")),
    ],
)
def test_query_is_understood(query: dict[str, str], options: LogOptions) -> None:
    assert LogOptions.parse(query, now_ns=100 * SECOND) == options


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"tailLines": "-1"}, "tailLines is '-1'"),
        ({"limitBytes": "0"}, "limitBytes is '0'"),
        ({"sinceSeconds": "soon"}, "sinceSeconds is 'soon'"),
        ({"sinceTime": "yesterday"}, "sinceTime"),
        ({"stream": "Both"}, "stream is 'Both'"),
    ],
)
def test_query_that_can_not_be_is_named(query: dict[str, str], words: str) -> None:
    with pytest.raises(LogOptionError, match=words):
        LogOptions.parse(query, now_ns=0)
