"""What an API server answered to a question: there it is, there is none, you may not ask, or no answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Answer(StrEnum):
    FOUND = "found"
    """For a list also when it is empty."""
    ABSENT = "absent"
    FORBIDDEN = "forbidden"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class LookUp:
    """One question and its answer.

    :param items: what was found; one for an object, any number for a list.
    :param said: the server's words, or why there are none, when nothing was found.
    """

    answer: Answer
    items: tuple[Mapping[str, Any], ...] = ()
    said: str = ""

    @property
    def found(self) -> bool:
        return self.answer is Answer.FOUND

    @property
    def document(self) -> Mapping[str, Any]:
        """The one object that was asked for; empty when it was not found."""
        return self.items[0] if self.items else {}
