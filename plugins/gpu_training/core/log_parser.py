"""Bytes of a container's log, in chunks as they come -> its lines, and the newest state of a line without an end.

What every log has is decoded and split for a whole chunk at once; a line costs work of its own only where it has
carriage returns, or where a line of its chunk has no stamp or too many characters. Both ways give the same.
"""

from __future__ import annotations

import re
from codecs import getincrementaldecoder
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

LONGEST_LINE: Final = 16 * 1024
"""Characters of a line that are kept."""
CUT_MARK: Final = " … [cut: %d more bytes]"
_LONGEST_CHARACTER: Final = 4
"""Bytes; of an unfinished line as many are held as its stamp and the characters that are kept may need."""
_STAMP_BYTES: Final = 64

_STAMP: Final = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)"
_BEGIN: Final = re.compile(f"({_STAMP})(?: |$)", re.ASCII)
_ALL_STAMPED: Final = re.compile(f"{_STAMP} [^\n]*+(?:\n{_STAMP} [^\n]*+)*+", re.ASCII)
# Colours, cursor movements and titles, and what else a terminal does not show;
# https://www.ecma-international.org/publications-and-standards/standards/ecma-48/
_UNSEEN: Final = re.compile(
    r"\x1b(?:\[[0-?]*+[ -/]*+[@-~]|\][^\x07\x1b\r\n]*+(?:\x07|\x1b\\)?|[@-Z\\-_])?"
    r"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"
)
_UNSEEN_BYTES: Final = bytes({*range(0x20), 0x7F} - set(b"\t\n"))
_UNSEEN_LEAD: Final = b"\xc2"
"""Begins U+0080 to U+009F in UTF-8, and others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BarMark:
    """How far a line without an end was told: its time stamp, and the bytes of it up to its newest whole frame."""

    stamp: str = ""
    size: int = 0


class LogParser:
    """Reads one stream of a log in bounded memory, whatever comes: any bytes, a line of 1 GiB, a bar that never ends.

    :param longest: characters of a line that are kept; the mark behind them says how many bytes were not.
    :param mark: up to which frame an earlier stream of this log had told an unfinished line, which is offered again.
    """

    def __init__(self, *, longest: int = LONGEST_LINE, mark: BarMark = BarMark()) -> None:
        self._longest = longest
        self._open = _OpenLine(longest)
        self._told_frame = ""
        self.mark = mark
        """Up to which frame an unfinished line is told now."""

    def feed(self, chunk: bytes) -> tuple[Sequence[str], str | None]:
        """Give the lines that a chunk ends, as a :class:`~gpu_training.core.log_lines.Batch` has them, and the newest
        frame of the line after them: None when there is no new one that is whole, ended by a carriage return."""
        end = chunk.rfind(b"\n")
        lines: Sequence[str] = ()
        if end >= 0:
            lines = self._ended(chunk[:end])
            self._begin()
        self._open.add(chunk[end + 1 :])
        return lines, self._new_frame()

    def end(self) -> Sequence[str]:
        """Give what came without a line end."""
        if self._open.is_empty:
            return ()
        line = self._open.end()
        self._begin()
        return (line,)

    def _begin(self) -> None:
        told = self._open.mark
        if told is not None and told.stamp == self.mark.stamp:
            self.mark = BarMark()
        self._open, self._told_frame = _OpenLine(self._longest), ""

    def _new_frame(self) -> str | None:
        mark = self._open.mark
        if mark is None or (mark.stamp == self.mark.stamp and mark.size <= self.mark.size):
            return None
        self.mark = mark
        if self._open.shown == self._told_frame:
            return None
        self._told_frame = self._open.shown
        return self._told_frame

    def _ended(self, head: bytes) -> Sequence[str]:
        kept = self._open.kept
        if kept is not None:
            return self._lines(kept + head)
        first, more, rest = head.partition(b"\n")
        self._open.add(first)
        line = self._open.end()
        return [line, *self._lines(rest)] if more else (line,)

    def _lines(self, raw: bytes) -> Sequence[str]:
        text = raw.decode(errors="backslashreplace")
        lines = text.split("\n")
        if max(map(len, lines)) > self._longest:
            return self._one_by_one(raw)
        if len(raw.translate(None, _UNSEEN_BYTES)) != len(raw) or _UNSEEN_LEAD in raw:
            text = _UNSEEN.sub("", text.replace("\r\n", "\n"))
            lines = text.split("\n")
        if _ALL_STAMPED.fullmatch(text) is None:
            return self._one_by_one(raw)
        if "\r" in text:
            lines = [_last_frame(line) if "\r" in line else line for line in lines]
        return lines

    def _one_by_one(self, raw: bytes) -> Sequence[str]:
        lines = []
        for each in raw.split(b"\n"):
            line = _OpenLine(self._longest)
            line.add(each)
            lines.append(line.end())
        return lines


class _OpenLine:
    """A line whose end may not have come yet: the newest frame that is whole, and the bytes after it.

    :param longest: characters that are kept.
    """

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._most = _STAMP_BYTES + _LONGEST_CHARACTER * longest
        self._stamp: str | None = None
        self._rest = b""
        self._dropped = 0
        self._size = self._shown_size = 0
        self.shown = ""
        """The newest frame that is whole and shows anything; empty where there is none."""

    @property
    def is_empty(self) -> bool:
        return self._stamp is None and not self._rest

    @property
    def kept(self) -> bytes | None:
        """All that came; None where that is not kept."""
        return self._rest if self._stamp is None and self._dropped == 0 else None

    @property
    def mark(self) -> BarMark | None:
        """Up to where the newest whole frame goes; None where there is none."""
        return BarMark(stamp=self._stamp or "", size=self._shown_size) if self.shown else None

    def add(self, piece: bytes) -> None:
        """Take in what came next, without a line end."""
        self._size += len(piece)
        first, *later = piece.split(b"\r")
        self._extend(first)
        if later:
            *whole, last = later
            self._close()
            self._show(whole)
            self._extend(last)
            self._shown_size = self._size - len(last)

    def end(self) -> str:
        """Give the line."""
        self._close()
        return f"{self._stamp} {self.shown}"

    def _extend(self, piece: bytes) -> None:
        kept = piece[: self._most - len(self._rest)]
        self._rest += kept
        self._dropped += len(piece) - len(kept)

    def _close(self) -> None:
        text, cut = _seen(self._rest, self._dropped)
        if self._stamp is None:
            self._stamp, text = _split(text)
        self.shown = self._capped(text, cut) or self.shown
        self._rest, self._dropped = b"", 0

    def _show(self, whole: Sequence[bytes]) -> None:
        """Show the last of some frames that shows anything."""
        if max(map(len, whole), default=0) <= self._most:
            # All at once: there may be thousands that show nothing. No sequence that is not seen goes over an end.
            text = _UNSEEN.sub("", b"\r".join(whole).decode(errors="backslashreplace"))
            self.shown = self._capped(text.rstrip("\r").rpartition("\r")[2], 0) or self.shown
            return
        for frame in reversed(whole):
            if frame and (shown := self._capped(*_seen(frame[: self._most], len(frame[self._most :])))):
                self.shown = shown
                return

    def _capped(self, text: str, cut: int) -> str:
        if len(text) > self._longest:
            cut += len(text[self._longest :].encode())
        return text[: self._longest] + CUT_MARK % cut if cut else text


def _seen(raw: bytes, dropped: int) -> tuple[str, int]:
    """Give what is seen of bytes of which some more were dropped, and how many are missing: a character is not cut."""
    decoder = getincrementaldecoder("utf-8")("backslashreplace")
    text = decoder.decode(raw, final=not dropped)
    return _UNSEEN.sub("", text), dropped + len(decoder.getstate()[0])


def _split(text: str) -> tuple[str, str]:
    found = _BEGIN.match(text)
    return (found[1], text[found.end() :]) if found else ("", text)


def _last_frame(line: str) -> str:
    first, *later = line.split("\r")
    stamp, said = _split(first)
    for frame in reversed(later):
        if frame:
            said = frame
            break
    return f"{stamp} {said}"
