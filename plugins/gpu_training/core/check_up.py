"""What a check-up of cluster, stores and Airflow finds: one check a line, each with its remedy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Final

DOCUMENT_VERSION: Final = 1

_LONGEST: Final = 1200
_WIDTH: Final = max(len(word) for word in ("ok", "warning", "broken", "unknown"))


class State(StrEnum):
    """How what was checked stands. Stable names."""

    OK = "ok"
    WARNING = "warning"
    """Trainings run; something is missing that somebody will miss one day."""
    BROKEN = "broken"
    """No training runs until somebody acts."""
    UNKNOWN = "unknown"
    """It could not be looked at, or was not asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was checked.

    :param name: stable, such as `quota` or `rights/jobs`.
    :param subject: what it is about, such as `namespace gpu-training`; checks of one subject follow each other.
    :param said: what was found, in words.
    :param remedy: what to do; empty where nothing has to be done.
    """

    name: str
    subject: str
    state: State
    said: str
    remedy: str = ""

    @property
    def line(self) -> str:
        """The check as one line of bounded length."""
        said = one_line(self.said)
        remedy = f"; to do: {one_line(self.remedy)}" if self.remedy else ""
        return f"{self.state:<{_WIDTH}}  {self.name}: {said.removesuffix('.') if remedy else said}{remedy}"


def one_line(text: str) -> str:
    """Give a text as one printable line of bounded length."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text[: 2 * _LONGEST]).split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"


def is_sound(checks: Iterable[Check]) -> bool:
    """Whether nothing is broken; warnings and what could not be looked at are allowed."""
    return all(check.state is not State.BROKEN for check in checks)


def summary_of(checks: Sequence[Check]) -> str:
    """Give the last line: how many checks stand how."""
    counts = {state: sum(check.state is state for check in checks) for state in State}
    return ", ".join(f"{count} {state}" for state, count in counts.items() if count or state is State.BROKEN)


def to_document(checks: Sequence[Check]) -> dict[str, Any]:
    """Give all checks as plain JSON data: `{"version": 1, "sound": …, "checks": [{"name": …, "state": …}, …]}`."""
    rows = [
        {**asdict(check), "state": check.state.value, "said": one_line(check.said), "remedy": one_line(check.remedy)}
        for check in checks
    ]
    return {"version": DOCUMENT_VERSION, "sound": is_sound(checks), "checks": rows}
