"""Reading untrusted documents field by field, with one precise message for whatever is wrong.

A document may hold Jinja templates that are rendered later. While `templates` is set, a templated value passes as a
stand-in, so that everything else is checked when the DAG file is parsed; after rendering the same reader checks all.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Mapping
from typing import Final

from gpu_training.core.errors import ConfigurationError

STAND_IN: Final = "templated"
"""What a text that is still a template reads as; it is valid wherever a name is."""

LONGEST_VALUE: Final = 32 * 1024
"""Most characters of an argument or of an environment value. Linux takes four times as many for one."""

_MISSING: Final = object()
_TEMPLATE = re.compile(r"\{\{|\{%|\{#")
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
_LARGEST_NUMBER: Final = 2**63


def is_template(value: object) -> bool:
    """Whether a value is known only when the task runs: a text with Jinja in it, or an object such as an XComArg, which
    Airflow tells by the references that it holds."""
    return (isinstance(value, str) and _TEMPLATE.search(value) is not None) or hasattr(value, "iter_references")


def nearest(name: str, known: Iterable[str]) -> str:
    """Give ` (did you mean …?)` for a close known name, else nothing."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f" (did you mean {close[0]!r}?)" if close else ""


def fault_of_text(text: str, limit: int = LONGEST_VALUE) -> str | None:
    """Give why no process can take a text as an argument or variable; None when one can."""
    if len(text) > limit:
        return f"at most {limit} characters are allowed, these are {len(text)}"
    if "\0" in text:
        return "a text without NUL characters is expected: no process takes one in an argument or variable"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "a text that UTF-8 can encode is expected"
    return None


class Fields:
    """A mapping whose fields are taken one by one; :meth:`finish` refuses what nobody took.

    :param body: the document.
    :param where: path of the document, used in messages; empty at the top.
    :param templates: whether templated values pass unchecked.
    :raises ConfigurationError: when body is no mapping with text keys.
    """

    def __init__(self, body: object, where: str = "", *, templates: bool = False, parent: Fields | None = None) -> None:
        if not isinstance(body, Mapping) or not all(isinstance(key, str) for key in body):
            raise ConfigurationError(where or "document", body, "a mapping with text keys is expected")
        self._body: Mapping[str, object] = body
        self._where = where
        self._taken: list[str] = []
        self._parent = parent
        self.templates = templates
        self.templated = False
        """Whether a value taken so far, here or in a section, was a template: checks across fields then wait."""

    def path(self, name: str) -> str:
        return f"{self._where}.{name}" if self._where else name

    def names(self) -> tuple[str, ...]:
        """Give the names of all fields that the document has."""
        return tuple(self._body)

    def refuse(self, name: str, allowed: str) -> ConfigurationError:
        return ConfigurationError(self.path(name), self._body.get(name), allowed)

    def check(self, path: str, value: str, pattern: str, allowed: str) -> None:
        """Refuse a text below this document that does not match as a whole; a template in it is no exception."""
        if re.fullmatch(pattern, value) is None:
            raise ConfigurationError(self.path(path), value, f"{allowed} is expected")

    def is_late(self, value: object) -> bool:
        """Whether a value passes unchecked now, because it is a template."""
        return self.templates and is_template(value)

    def take(self, name: str, default: object = _MISSING, *, allowed: str = "a value") -> object:
        """Give the raw value; absent and null are the same.

        :param allowed: what is expected, for the message when it is missing and has no default.
        """
        self._taken.append(name)
        value = self._body.get(name)
        if value is None:
            if default is _MISSING:
                raise ConfigurationError(self.path(name), None, f"is required and missing: {allowed} is expected")
            return default
        self._defer(value)
        return value

    def text(
        self,
        name: str,
        default: str | None = None,
        *,
        pattern: str | None = None,
        allowed: str = "a text",
        limit: int = 4096,
    ) -> str:
        """Give a text that is not blank.

        :param default: what an absent one reads as; None when it is required.
        :param pattern: regular expression that the whole text has to match.
        :param allowed: words for the message.
        """
        if default is not None and self._body.get(name) is None:
            self._taken.append(name)
            return default
        value = self.take(name, allowed=allowed)
        if self._defer(value):
            return STAND_IN
        if not isinstance(value, str):
            # A number would lose what was written: YAML reads 1.10 as 1.1 and 0644 as 420.
            raise self.refuse(name, f"{allowed} is expected, as a text: quote it")
        if not value.strip() or (pattern is not None and re.fullmatch(pattern, value) is None):
            raise self.refuse(name, f"{allowed} is expected")
        if fault := fault_of_text(value, limit):
            raise self.refuse(name, f"{allowed} is expected: {fault}")
        return value

    def optional_text(
        self, name: str, *, pattern: str | None = None, allowed: str = "a text", limit: int = 4096
    ) -> str | None:
        """Give a text, or None when it is absent or empty (a template may render to nothing)."""
        if self._body.get(name) in (None, ""):
            self._taken.append(name)
            return None
        return self.text(name, pattern=pattern, allowed=allowed, limit=limit)

    def whole(self, name: str, default: int | None = None, *, minimum: int, maximum: int, unit: str = "") -> int:
        """Give a whole number in [minimum, maximum]; the text of one is accepted, since templates render to text.

        :param default: what an absent one reads as; None when it is required.
        """
        allowed = f"a whole number from {minimum} to {maximum}{' ' + unit if unit else ''}"
        value = self.take(name, _MISSING if default is None else default, allowed=allowed)
        if self._defer(value):
            return minimum
        if isinstance(value, str) and _WHOLE.fullmatch(value.strip()):
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= maximum:
            raise self.refuse(name, f"{allowed} is expected")
        return value

    def optional_whole(self, name: str, *, minimum: int, maximum: int, unit: str = "") -> int | None:
        """Give a whole number as :meth:`whole` does, or None when it is absent."""
        if self._body.get(name) is None:
            self._taken.append(name)
            return None
        return self.whole(name, minimum=minimum, maximum=maximum, unit=unit)

    def flag(self, name: str, default: bool) -> bool:
        """Give true or false; the texts of them are accepted, since templates render to text."""
        value = self.take(name, default)
        if self._defer(value):
            return default
        if isinstance(value, str) and value.strip().lower() in ("true", "false"):
            return value.strip().lower() == "true"
        if not isinstance(value, bool):
            raise self.refuse(name, "true or false is expected")
        return value

    def sequence(self, name: str) -> tuple[object, ...]:
        """Give a list, or nothing when it is absent."""
        value = self.take(name, ())
        if not isinstance(value, (list, tuple)):
            raise self.refuse(name, "a list is expected")
        return tuple(value)

    def texts(self, name: str) -> tuple[str, ...]:
        """Give a list of texts, or nothing when it is absent; templates stand as they are."""
        found = []
        for n, value in enumerate(self.sequence(name)):
            if not self._defer(value):
                if not isinstance(value, str):
                    raise ConfigurationError(f"{self.path(name)}[{n}]", value, "a text is expected: quote it")
                if fault := fault_of_text(value):
                    raise ConfigurationError(f"{self.path(name)}[{n}]", value, fault)
            found.append(str(value))
        return tuple(found)

    def scalars(self, name: str) -> dict[str, str]:
        """Give a mapping of texts, numbers and true or false, each as text (`true`, `0.1`); templates stand as they
        are."""
        value = self.take(name, {})
        if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
            raise self.refuse(name, "a mapping with text keys is expected")
        return {key: self._scalar(f"{self.path(name)}.{key}", entry) for key, entry in value.items()}

    def _scalar(self, path: str, value: object) -> str:
        if self._defer(value):
            return str(value)
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, (int, float)):
            finite = math.isfinite(value) if isinstance(value, float) else abs(value) < _LARGEST_NUMBER
            if not finite:
                raise ConfigurationError(path, value, "a finite number is expected, a whole one below 2^63")
            return str(value)
        if not isinstance(value, str):
            raise ConfigurationError(path, value, "a text, a number, or true or false is expected; quote a date")
        if fault := fault_of_text(value):
            raise ConfigurationError(path, value, fault)
        return value

    def section(self, name: str, *, required: bool = False) -> Fields:
        """Give the reader of a nested mapping; an absent one reads as empty unless it is required."""
        body = self.take(name, allowed="a mapping") if required else self.take(name, {})
        return self._below(body, name)

    def sections(self, name: str) -> tuple[Fields, ...]:
        """Give the readers of a list of mappings, or nothing when it is absent."""
        return tuple(self._below(body, f"{name}[{n}]") for n, body in enumerate(self.sequence(name)))

    def _below(self, body: object, name: str) -> Fields:
        return Fields(body, self.path(name), templates=self.templates, parent=self)

    def _defer(self, value: object) -> bool:
        """Tell whether a value is late, and remember that there was one."""
        late = self.is_late(value)
        reader: Fields | None = self
        while late and reader is not None:
            reader.templated = True
            reader = reader._parent
        return late

    def finish(self) -> None:
        """Refuse every key that was not taken, naming the nearest known one."""
        for key in self._body:
            if key not in self._taken:
                known = ", ".join(sorted(set(self._taken)))
                raise ConfigurationError(
                    self.path(key), self._body[key], f"unknown key{nearest(key, self._taken)}; known are: {known}"
                )
