"""How much one training may write into its task log: so many lines and bytes a second, and more at once."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

_FEW: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one training may write into its task log.

    :param lines_per_second: lines, in the long run.
    :param burst_lines: lines at once.
    :param bytes_per_second: bytes of text, in the long run.
    :param burst_bytes: bytes of text at once.
    :param tail_lines: last lines of each log that are kept back while others are left out.
    :param tail_bytes: bytes of those.
    """

    lines_per_second: float = 200.0
    burst_lines: float = 10_000.0
    bytes_per_second: float = 64 * 1024.0
    burst_bytes: float = 2 * 1024 * 1024.0
    tail_lines: int = 100
    tail_bytes: int = 64 * 1024


class Allowance:
    """What is left of the limits now. Moments are seconds of any monotonic clock."""

    def __init__(self, limits: Limits, now: float) -> None:
        self._limits = limits
        self._lines, self._bytes = limits.burst_lines, limits.burst_bytes
        self._at = now

    def refill(self, now: float) -> None:
        """Add what the time since the last time gives."""
        passed, self._at = max(0.0, now - self._at), now
        limits = self._limits
        self._lines = min(limits.burst_lines, self._lines + passed * limits.lines_per_second)
        self._bytes = min(limits.burst_bytes, self._bytes + passed * limits.bytes_per_second)

    @property
    def is_rested(self) -> bool:
        """Whether half of what may be written at once is there again."""
        return self._lines >= self._limits.burst_lines / 2 and self._bytes >= self._limits.burst_bytes / 2

    def has_room(self, lines: float, size: float) -> bool:
        """Whether so many lines of so many bytes in all may be written."""
        return self._lines >= lines and self._bytes >= size

    def has_room_at_best(self, lines: int, size: int) -> bool:
        """Whether so many may be written, or as many of them as ever may be at once."""
        return self.has_room(min(lines, self._limits.burst_lines), min(size, self._limits.burst_bytes))

    def spend(self, lines: int, size: int) -> None:
        """Take what is written, be it there or not: what is owed has to come first."""
        self._lines -= lines
        self._bytes -= size

    def take(self, lines: Sequence[str]) -> int:
        """Give how many of the lines there is room for, from the first on; it is theirs then."""
        count, size = self._fitting(lines)
        self.spend(count, size)
        return count

    def take_some(self, lines: Sequence[str]) -> int:
        """Give how many of the lines there is room for, and one at least: no line is too long to be written ever."""
        return self.take(lines) or self._take_one(lines)

    def _take_one(self, lines: Sequence[str]) -> int:
        self.spend(1, size_of(lines[:1]))
        return 1

    def _fitting(self, lines: Sequence[str]) -> tuple[int, int]:
        count, size = len(lines), size_of(lines)
        if not self.has_room(count, size):
            count = size = 0
            for line in lines:
                more = size_of((line,))
                if not self.has_room(count + 1, size + more):
                    break
                count, size = count + 1, size + more
        return count, size


def size_of(lines: Collection[str]) -> int:
    """Give the bytes of the texts of a batch's lines."""
    joined = "\n".join(lines)
    size = len(joined) if joined.isascii() else len(joined.encode(errors="surrogatepass"))
    if len(lines) <= _FEW:
        return size - _ends(lines) - sum(line.find(" ") + 1 for line in lines)
    # The stamps of many are all alike, but for lines that have none: they begin with the blank.
    bare = joined.count("\n ") + joined.startswith(" ")
    stamp = next((line.find(" ") + 1 for line in lines if not line.startswith(" ")), 0)
    return size - _ends(lines) - bare - (len(lines) - bare) * stamp


def _ends(lines: Collection[str]) -> int:
    return max(0, len(lines) - 1)
