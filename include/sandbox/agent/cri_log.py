"""The log format between a container's output and those who read it: one entry a line. Pure.

`<RFC 3339 time with nanoseconds> <stdout|stderr> <F|P> <bytes>`, P where the line goes on in the next entry; what the
container runtime interface prescribes.
https://github.com/kubernetes/design-proposals-archive/blob/main/node/kubelet-cri-logging.md
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

CHUNK_BYTES = 16 * 1024
"""A longer line is cut into partial entries of this size, as containerd does; so no reader ever needs more memory."""


_WHOLE: Final = re.compile(rb"^([^ \n]+ )std(?:out|err) F ([^\n]*\n)", re.M)
_SECOND: Final = len("1970-01-01T00:00:00")
_SECONDS: Final = re.compile(rb"(.{%d}).*+\n" % _SECOND)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry: `partial` when the line goes on in the next entry of the stream."""

    timestamp: str
    stream: str
    partial: bool
    content: bytes


@dataclass(slots=True)
class LineSplitter:
    """Cuts one stream of any bytes into lines, and long lines into chunks."""

    _rest: bytes = field(default=b"", init=False)

    def feed(self, data: bytes) -> Iterator[tuple[bool, bytes]]:
        """Take what was read; give (partial, content) for all that is complete."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            yield from self._chunks(line)
        while len(self._rest) >= CHUNK_BYTES:
            yield True, self._rest[:CHUNK_BYTES]
            self._rest = self._rest[CHUNK_BYTES:]

    def close(self) -> Iterator[tuple[bool, bytes]]:
        """Give what came without an end of line: a partial entry, so that a reader adds none."""
        rest, self._rest = self._rest, b""
        if rest:
            yield True, rest

    @staticmethod
    def _chunks(line: bytes) -> Iterator[tuple[bool, bytes]]:
        while len(line) > CHUNK_BYTES:
            yield True, line[:CHUNK_BYTES]
            line = line[CHUNK_BYTES:]
        yield False, line


def format_timestamp(nanoseconds: int) -> str:
    """Return a time as Go's RFC3339Nano writes it: UTC, zeros at the end of the fraction left out."""
    seconds, rest = divmod(nanoseconds, 10**9)
    return f"{_whole_second(seconds)}.{rest:09d}".rstrip("0").rstrip(".") + "Z"


@lru_cache(maxsize=8)
def _whole_second(seconds: int) -> str:
    """Kept for the next line, of the same second most often: formatting a date costs more than all else of a line."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def parse_timestamp(text: str) -> int:
    """Return the nanoseconds of the epoch of an RFC 3339 time with up to nine digits of fraction.

    :raises ValueError: when it is none.
    """
    head, dot, rest = text.partition(".")
    digits = rest[: len(rest) - len(rest.lstrip("0123456789"))]
    zone = rest[len(digits) :] if dot else ""
    if dot and (not digits or len(digits) > 9):
        raise ValueError(f"{text!r} is not an RFC 3339 time")
    moment = datetime.fromisoformat(head + zone)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} names no time zone")
    return int(moment.timestamp()) * 10**9 + int(digits.ljust(9, "0") if digits else 0)


def encode_entry(nanoseconds: int, stream: str, partial: bool, content: bytes) -> bytes:
    """Return the entry as it stands in the file."""
    return f"{format_timestamp(nanoseconds)} {stream} {'P' if partial else 'F'} ".encode() + content + b"\n"


def encode_entries(stream: str, entries: Iterable[tuple[bool, bytes]], now_ns: Callable[[], int]) -> bytes:
    """Return entries as they stand in the file, each with the time at which it is its turn.

    As :func:`encode_entry` for each, for programs that say a million lines a second.

    :param entries: (partial, content).
    """
    encoded, last, head = list[bytes](), -1, b""
    name = stream.encode()
    for partial, content in entries:
        nanoseconds = now_ns()
        second, rest = divmod(nanoseconds, 10**9)
        if rest % 10 == 0:
            encoded.append(encode_entry(nanoseconds, stream, partial, content))
            continue
        if second != last:
            last, head = second, _whole_second(second).encode()
        encoded.append(b"%s.%09dZ %s %s %s\n" % (head, rest, name, b"P" if partial else b"F", content))
    return b"".join(encoded)


def whole_lines(data: bytes, *, timestamps: bool, since_second: bytes = b"") -> bytes | None:
    """Return what was said in lines of the file, all at once.

    :param data: whole lines of the file.
    :param timestamps: each line after its time.
    :param since_second: only entries from this second on, `1970-01-01T00:00:00`.
    :returns: None where one of the lines is no entry, or is a part of a line: they are to be read one by one.
    """
    if since_second and max(_SECONDS.findall(data), default=b"") < since_second:
        # A resumed log is searched from its start; most of it is not even to be taken apart.
        return b""
    entries = _WHOLE.findall(data)
    if len(entries) != data.count(b"\n"):
        return None
    if since_second:
        entries = [entry for entry in entries if entry[0][:_SECOND] >= since_second]
    return b"".join([time + content for time, content in entries] if timestamps else [each for _, each in entries])


def parse_entry(line: bytes) -> Entry | None:
    """Return the entry of a line of the file, without its end of line; None when it is none (a torn write)."""
    parts = line.split(b" ", 3)
    if len(parts) < 3 or parts[1] not in (b"stdout", b"stderr") or parts[2] not in (b"F", b"P"):
        return None
    return Entry(
        timestamp=parts[0].decode("ascii", "replace"),
        stream=parts[1].decode(),
        partial=parts[2] == b"P",
        content=parts[3] if len(parts) == 4 else b"",
    )
