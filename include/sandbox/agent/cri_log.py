"""The log format between a container's output and those who read it: one entry a line. Pure.

`<RFC 3339 time with nanoseconds> <stdout|stderr> <F|P> <bytes>`, P where the line goes on in the next entry; what the
container runtime interface prescribes.
https://github.com/kubernetes/design-proposals-archive/blob/main/node/kubelet-cri-logging.md
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache

CHUNK_BYTES = 16 * 1024
"""A longer line is cut into partial entries of this size, as containerd does; so no reader ever needs more memory."""


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
