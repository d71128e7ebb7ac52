"""What a training program says, as it stands in a verdict: one line, short, printable, without credentials.

Verdicts stand in the ledger and in trigger events, which more people may read than the program's log.
"""

from __future__ import annotations

import re
from typing import Final

LONGEST: Final = 400
"""Most characters of a program's own words in a summary."""

_READ: Final = 16_384
"""Most characters that are looked at."""

# `scheme://user:password@host`
_CREDENTIALS: Final = re.compile(r"(?<=://)[^/\s@]+@")


def words_of(text: str, *, longest: int = LONGEST) -> str:
    """Give a text as words for a summary, cut to so many characters; "" where it says nothing."""
    words = _CREDENTIALS.sub("…@", " ".join(text[:_READ].split()))
    printable = "".join(c if c.isprintable() else "�" for c in words[: longest + 1])
    return printable if len(printable) <= longest else printable[: longest - 1] + "…"


def last_line(text: str) -> str:
    """Give the last line that says anything, as words."""
    return words_of(next((line for line in reversed(text.splitlines()) if line.strip()), ""))
