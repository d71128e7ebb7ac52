"""What a component of the cluster is known to say: patterns over its messages, and what each of them means.

Messages come from anybody's admission webhook or registry: no more than LONGEST characters are looked at, and what is
taken from them is one short, printable line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from gpu_training.core.pending_cause import Cause, Cure

LONGEST: Final = 4096
"""Characters of a message that are looked at, from its beginning. The API server takes 1024 bytes for an event."""
LONGEST_QUOTE: Final = 400
"""Characters that are taken from a message into a sentence."""


def plain(text: str, longest: int = LONGEST_QUOTE) -> str:
    """Give a text as one printable line of no more than so many characters.

    :param longest: characters, at least 1.
    """
    words = " ".join(text[: 4 * longest].split())
    line = "".join(character if character.isprintable() else "?" for character in words)
    return line if len(line) <= longest else line[: longest - 1] + "…"


def sentence(text: str) -> str:
    """Give a text with one full stop at its end."""
    return text.rstrip(" .") + "."


@dataclass(frozen=True, slots=True)
class Saying:
    """One thing that is said.

    :param pattern: found anywhere in the message; it must not cost more than one pass over it.
    :param summary: one sentence, in which `{name}` stands for the group of that name.
    :param remedy: what to do, and who can; likewise.
    """

    pattern: re.Pattern[str]
    cause: Cause
    cure: Cure
    summary: str
    remedy: str


def says(pattern: str, cause: Cause, cure: Cure, summary: str, remedy: str) -> Saying:
    """Give a saying. In its pattern `.` stands for a line's end too."""
    return Saying(re.compile(pattern, re.DOTALL), cause, cure, summary, remedy)


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """What a saying means, with the names that the message has."""

    cause: Cause
    cure: Cure
    summary: str
    remedy: str


def hear(sayings: Iterable[Saying], message: str, context: Mapping[str, str] | None = None) -> Heard | None:
    """Give what the first saying means that is found in a message; None when none is.

    :param context: further names for the sentences; a group of the same name goes before it.
    """
    text = message[:LONGEST]
    for saying in sayings:
        found = saying.pattern.search(text)
        if found is None:
            continue
        names = dict(context or {})
        names |= {name: plain(value) for name, value in found.groupdict().items() if value is not None}
        return Heard(
            cause=saying.cause,
            cure=saying.cure,
            summary=_told(saying.summary, names),
            remedy=saying.remedy.format_map(_Named(names)),
        )
    return None


def _told(template: str, names: Mapping[str, str]) -> str:
    """Give a template with its names; one that is a sentence, and not a part of one, ends as a sentence does."""
    text = template.format_map(_Named(names))
    return sentence(text) if template.startswith("{") or template[:1].isupper() else text


class _Named(dict[str, str]):
    """A name that the message does not have reads as a question mark."""

    def __missing__(self, key: str) -> str:
        return "?"
