"""Reading a container's log as the kubelet's log end point gives it: from a time, the last lines, as it grows."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from sandbox.agent.cri_log import Entry, format_timestamp, parse_entry, parse_timestamp, whole_lines

BLOCK_BYTES = 1 << 16
FOLLOW_S = 0.05
"""How often a followed log is looked at."""


class LogOptionError(ValueError):
    """A parameter of the request that can not be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """What of a log is asked for.

    :param since_ns: only entries from this time on, nanoseconds of the epoch.
    :param tail_lines: only the last entries, as many.
    :param limit_bytes: no more than this many bytes.
    :param timestamps: each line after its time.
    :param stream: `stdout` or `stderr` alone; None: both.
    """

    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    since_ns: int | None = None
    tail_lines: int | None = None
    limit_bytes: int | None = None
    stream: str | None = None

    @classmethod
    def parse(cls, query: Mapping[str, str], *, now_ns: int) -> LogOptions:
        """Return the options of a request's query.

        :raises LogOptionError: when a value is not what the API allows.
        """
        since = None
        if "sinceSeconds" in query:
            since = now_ns - _whole(query, "sinceSeconds", 1) * 10**9
        elif "sinceTime" in query:
            try:
                since = parse_timestamp(query["sinceTime"])
            except ValueError as error:
                raise LogOptionError(f"sinceTime: {error}") from error
        stream = query.get("stream", "All")
        if stream not in ("All", "Stdout", "Stderr"):
            raise LogOptionError(f"stream is {stream!r}; All, Stdout or Stderr is allowed")
        return cls(
            follow=_flag(query, "follow"),
            previous=_flag(query, "previous"),
            timestamps=_flag(query, "timestamps"),
            since_ns=since,
            tail_lines=_whole(query, "tailLines", 0) if "tailLines" in query else None,
            limit_bytes=_whole(query, "limitBytes", 1) if "limitBytes" in query else None,
            stream=None if stream == "All" else stream.lower(),
        )


def _whole(query: Mapping[str, str], name: str, lowest: int) -> int:
    text = query[name]
    if not text.isascii() or not text.isdigit() or int(text) < lowest:
        raise LogOptionError(f"{name} is {text!r}; a whole number from {lowest} up is allowed")
    return int(text)


def _flag(query: Mapping[str, str], name: str) -> bool:
    return query.get(name, "false").lower() in ("true", "1", "t")


async def read_log(path: Path, options: LogOptions, *, running: Callable[[], bool]) -> AsyncIterator[bytes]:
    """Give the bytes of a log, block by block.

    A followed log ends when the container does not run any more and all it wrote has been given.
    """
    writer = _Writer(options)
    if options.tail_lines == 0 and not options.follow:
        return
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        if options.tail_lines is not None:
            file.seek(_tail_start(file, options.tail_lines))
        rest = b""
        while not writer.full:
            alive = running()
            block = file.read(BLOCK_BYTES)
            if block:
                whole, end, rest = (rest + block).rpartition(b"\n")
                if data := writer.write(whole + end):
                    yield data
                # Reading never blocks, so a long log must leave the loop to others now and then.
                await asyncio.sleep(0)
            elif not options.follow or not alive:
                return
            else:
                await asyncio.sleep(FOLLOW_S)


def read_tail(path: Path, lines: int) -> list[Entry]:
    """Return the last entries of a log; none when there is no log."""
    try:
        with path.open("rb") as file:
            file.seek(_tail_start(file, lines))
            return [entry for line in file.read().split(b"\n") if (entry := parse_entry(line))]
    except FileNotFoundError:
        return []


def _tail_start(file: BinaryIO, lines: int) -> int:
    """Return where the last `lines` entries of the file begin."""
    position = file.seek(0, os.SEEK_END)
    missing = lines + 1  # the end of the entry before them is the one to find
    while position > 0 and lines > 0:
        size = min(BLOCK_BYTES, position)
        position -= size
        file.seek(position)
        block = file.read(size)
        count = block.count(b"\n")
        if count < missing:
            missing -= count
            continue
        for _ in range(missing):
            block = block[: block.rindex(b"\n")]
        return position + len(block) + 1
    return position


class _Writer:
    """Turns entries into what the client gets."""

    def __init__(self, options: LogOptions) -> None:
        self._options = options
        self._left = options.limit_bytes
        self._begins = True
        second, rest = divmod(options.since_ns or 0, 10**9)
        self._all_at_once = options.stream is None and rest == 0
        self._since_second = format_timestamp(second * 10**9).removesuffix("Z").encode() if options.since_ns else b""

    @property
    def full(self) -> bool:
        return self._left == 0

    def write(self, lines: bytes) -> bytes:
        """Return what the client gets of whole lines of the file."""
        data = None
        if self._all_at_once and self._begins:
            data = whole_lines(lines, timestamps=self._options.timestamps, since_second=self._since_second)
        if data is None:
            entries = map(parse_entry, lines.split(b"\n"))
            data = b"".join(self._text(entry) for entry in entries if entry and self._wanted(entry))
        if self._left is not None:
            data = data[: self._left]
            self._left -= len(data)
        return data

    def _wanted(self, entry: Entry) -> bool:
        if self._options.stream not in (None, entry.stream):
            return False
        return self._options.since_ns is None or parse_timestamp(entry.timestamp) >= self._options.since_ns

    def _text(self, entry: Entry) -> bytes:
        # The time stands before a line, not before each piece of a long one.
        time = f"{entry.timestamp} ".encode() if self._options.timestamps and self._begins else b""
        self._begins = not entry.partial
        return time + entry.content + (b"" if entry.partial else b"\n")
