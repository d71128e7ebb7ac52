"""Reading untrusted documents field by field, with one precise message for whatever is wrong.

A document may hold Jinja templates that are rendered later. While `templates` is set, a templated value passes as a
stand-in, so that everything else is checked when the DAG file is parsed; after rendering the same reader checks all.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Final

from gpu_training.core.errors import ConfigurationError

STAND_IN: Final = "templated"
"""What a text that is still a template reads as; it is valid wherever a name is."""

_MISSING: Final = object()
_TEMPLATE = re.compile(r"\{\{|\{%")
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}\Z")


def is_template(value: object) -> bool:
    return isinstance(value, str) and _TEMPLATE.search(value) is not None


def nearest(name: str, known: Iterable[str]) -> str:
    """Give ` (did you mean …?)` for a close known name, else nothing."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f" (did you mean {close[0]!r}?)" if close else ""


class Fields:
    """A mapping whose fields are taken one by one; :meth:`finish` refuses what nobody took.

    :param body: the document.
    :param where: path of the document, used in messages; empty at the top.
    :param templates: whether templated values pass unchecked.
    :raises ConfigurationError: when body is no mapping with text keys.
    """

    def __init__(self, body: object, where: str = "", *, templates: bool = False) -> None:
        if not isinstance(body, Mapping) or not all(isinstance(key, str) for key in body):
            raise ConfigurationError(where or "document", body, "a mapping with text keys is expected")
        self._body: Mapping[str, object] = body
        self._where = where
        self._taken: list[str] = []
        self.templates = templates
        self.templated = False
        """Whether a value taken so far was still a template: checks across fields wait for the rendered document."""

    def path(self, name: str) -> str:
        return f"{self._where}.{name}" if self._where else name

    def refuse(self, name: str, allowed: str) -> ConfigurationError:
        return ConfigurationError(self.path(name), self._body.get(name), allowed)

    def take(self, name: str, default: object = _MISSING) -> object:
        """Give the raw value; absent and null are the same."""
        self._taken.append(name)
        value = self._body.get(name)
        if value is None:
            if default is _MISSING:
                raise ConfigurationError(self.path(name), None, "is required and missing")
            return default
        return value

    def _deferred(self, value: object) -> bool:
        if self.templates and is_template(value):
            self.templated = True
            return True
        return False

    def text(
        self,
        name: str,
        default: object = _MISSING,
        *,
        pattern: str | None = None,
        allowed: str = "a text",
        limit: int = 4096,
    ) -> str:
        """Give a non-empty text (or the default).

        :param pattern: regular expression that the whole text has to match.
        :param allowed: words for the message.
        """
        value = self.take(name, default)
        if value is default or self._deferred(value):
            return STAND_IN if value is not default else str(value)
        if isinstance(value, (bool, Mapping, list)):
            raise self.refuse(name, f"{allowed} is expected")
        text = str(value)
        if not text or len(text) > limit or (pattern is not None and re.fullmatch(pattern, text) is None):
            raise self.refuse(name, f"{allowed} is expected, of 1 to {limit} characters")
        return text

    def optional_text(
        self, name: str, *, pattern: str | None = None, allowed: str = "a text", limit: int = 4096
    ) -> str | None:
        """Give a text, or None when it is absent or empty (a template may render to nothing)."""
        value = self._body.get(name)
        if value is None or value == "":
            self._taken.append(name)
            return None
        return self.text(name, pattern=pattern, allowed=allowed, limit=limit)

    def whole(self, name: str, default: object = _MISSING, *, minimum: int, maximum: int, unit: str = "") -> int:
        """Give a whole number in [minimum, maximum]; the text of one is accepted, since templates render to text."""
        value = self.take(name, default)
        allowed = f"a whole number from {minimum} to {maximum}{' ' + unit if unit else ''} is expected"
        if self._deferred(value):
            return minimum
        if isinstance(value, str) and _WHOLE.match(value.strip()):
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= maximum:
            raise self.refuse(name, allowed)
        return value

    def flag(self, name: str, default: bool) -> bool:
        """Give true or false; the texts of them are accepted, since templates render to text."""
        value = self.take(name, default)
        if self._deferred(value):
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
        """Give a list of texts, or nothing when it is absent."""
        values = self.sequence(name)
        for n, value in enumerate(values):
            self._deferred(value)
            if not isinstance(value, str):
                raise ConfigurationError(f"{self.path(name)}[{n}]", value, "a text is expected; quote it")
        return tuple(str(value) for value in values)

    def scalars(self, name: str) -> dict[str, str]:
        """Give a mapping of texts, numbers and true or false, each as text (`true`, `0.1`)."""
        value = self.take(name, {})
        if not isinstance(value, Mapping):
            raise self.refuse(name, "a mapping is expected")
        return {str(key): self._scalar(f"{self.path(name)}.{key}", entry) for key, entry in value.items()}

    def _scalar(self, path: str, value: object) -> str:
        self._deferred(value)
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, (str, int, float)):
            return str(value)
        raise ConfigurationError(path, value, "a text, a number, or true or false is expected")

    def section(self, name: str, *, required: bool = False) -> Fields:
        """Give the reader of a nested mapping; an absent one reads as empty unless it is required."""
        body = self.take(name) if required else self.take(name, {})
        return Fields(body, self.path(name), templates=self.templates)

    def finish(self) -> None:
        """Refuse every key that was not taken, naming the nearest known one."""
        for key in self._body:
            if key not in self._taken:
                known = ", ".join(sorted(set(self._taken)))
                raise ConfigurationError(
                    self.path(key), self._body[key], f"unknown key{nearest(key, self._taken)}; known are: {known}"
                )
