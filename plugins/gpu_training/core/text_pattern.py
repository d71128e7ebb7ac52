"""Patterns of a rule: literal text in which `*` stands for any text, nothing at all included.

There is nothing else to them, so that no pattern of a team can cost more than one pass over the text, and none means
something else than what it looks like. Upper and lower case differ.
"""

from __future__ import annotations

from typing import Final

ANY: Final = "*"


def fits(pattern: str, text: str) -> bool:
    """Whether a pattern describes a text as a whole."""
    first, *rest = pattern.split(ANY)
    if not rest:
        return pattern == text
    end = len(text) - len(rest[-1])
    if not text.startswith(first) or not text.endswith(rest[-1]):
        return False
    reached = _end_of(rest[:-1], text, len(first))
    return reached is not None and reached <= end


def occurs(pattern: str, text: str) -> bool:
    """Whether a pattern describes any part of a text."""
    return _end_of(pattern.split(ANY), text, 0) is not None


def literal_length(pattern: str) -> int:
    """Give how many characters a text has to have in common with a pattern; blanks do not count."""
    return sum(1 for character in pattern if character != ANY and not character.isspace())


def _end_of(pieces: list[str], text: str, start: int) -> int | None:
    """Give where the pieces end that follow one another in a text; None when they do not.

    The earliest place of each leaves the most room for the others, so none is looked for twice.
    """
    for piece in pieces:
        found = text.find(piece, start)
        if found < 0:
            return None
        start = found + len(piece)
    return start
