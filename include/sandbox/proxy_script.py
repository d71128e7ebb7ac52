"""What a faulty proxy does to requests: rules, in order, each for some requests, and what becomes of them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, fields
from enum import StrEnum
from typing import Any
from urllib.parse import parse_qs, urlsplit

from sandbox.errors import SandboxError


class Stream(StrEnum):
    """Answers that go on."""

    WATCH = "watch"
    LOG = "log"


class Action(StrEnum):
    """What becomes of a request, after the delay of its rule."""

    FORWARD = "forward"
    """Passed on; for a rule that only delays."""
    ANSWER = "answer"
    """Answered with `status` and a Status document; the API server does not hear of it."""
    EXPIRE = "expire"
    """A watch gets one event ERROR of code 410, as from an API server that has forgotten the version; others pass."""
    CUT = "cut"
    """Passed on; the answer breaks off after `after_bytes` of its body, or after `after_s`."""
    STALL = "stall"
    """Passed on; silence after `after_bytes` of the answer's body, while the connection stays. Without: no answer."""
    LOSE_REPLY = "lose-reply"
    """Passed on, and done by the API server; the connection breaks instead of an answer."""
    RESET = "reset"
    """The connection is reset; the API server does not hear of it."""


REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}
"""The reason that the API server gives with a status."""

_NEEDS = {Action.ANSWER: ("status",)}
_TAKES = {
    Action.ANSWER: ("status", "reason", "message", "retry_after_s"),
    Action.CUT: ("after_bytes", "after_s"),
    Action.STALL: ("after_bytes",),
}
_OPTIONS = ("status", "reason", "message", "retry_after_s", "after_bytes", "after_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Some requests, and what becomes of them.

    :param method: `GET`, `POST`, …; None: any.
    :param path: regular expression searched in path and query; empty: any.
    :param stream: only watches, or only followed logs; None: all requests.
    :param nth: the first request that it concerns, of those that match, counted from 1.
    :param count: how many it concerns; None: all from then on.
    :param delay_s: seconds before anything is done.
    :param status: of an answer, 400 to 599.
    :param reason: of an answer's Status document; None: that of :data:`REASONS`.
    :param retry_after_s: header Retry-After of an answer.
    :param after_bytes: of an answer's body that pass before it is cut or falls silent.
    :param after_s: seconds after which an answer is cut.
    :raises SandboxError: a field does not fit.
    """

    action: Action
    method: str | None = None
    path: str = ""
    stream: Stream | None = None
    nth: int = 1
    count: int | None = None
    delay_s: float = 0.0
    status: int | None = None
    reason: str | None = None
    message: str = "said by the proxy"
    retry_after_s: int | None = None
    after_bytes: int | None = None
    after_s: float | None = None

    def __post_init__(self) -> None:
        try:
            re.compile(self.path)
        except re.error as error:
            raise SandboxError(f"path {self.path!r} is no regular expression: {error}") from error
        self._check_numbers()
        self._check_options()

    def _check_numbers(self) -> None:
        for name, lowest in (
            ("nth", 1),
            ("count", 1),
            ("delay_s", 0),
            ("retry_after_s", 0),
            ("after_bytes", 0),
            ("after_s", 0),
        ):
            value = getattr(self, name)
            if value is not None and value < lowest:
                raise SandboxError(f"{name} is {value!r}: give a number from {lowest} up")
        if self.status is not None and not 400 <= self.status <= 599:
            raise SandboxError(f"status is {self.status}: give one from 400 to 599")

    def _check_options(self) -> None:
        taken = _TAKES.get(self.action, ())
        for option in _OPTIONS:
            default = next(each.default for each in fields(self) if each.name == option)
            if getattr(self, option) != default and option not in taken:
                raise SandboxError(f"{option} means nothing to action {self.action}: leave it out")
        for option in _NEEDS.get(self.action, ()):
            if getattr(self, option) is None:
                raise SandboxError(f"action {self.action} needs {option}")
        if self.action is Action.CUT and (self.after_bytes is None) == (self.after_s is None):
            raise SandboxError("action cut needs either after_bytes or after_s")

    def matches(self, method: str, target: str) -> bool:
        """Tell whether a request is of those that the rule speaks of, be it their turn or not."""
        if self.method not in (None, method) or not re.search(self.path, target):
            return False
        wanted = Stream.WATCH if self.action is Action.EXPIRE else self.stream
        return wanted is None or wanted is stream_of(method, target)

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Rule:
        """Read a rule from its JSON form.

        :raises SandboxError: a key is unknown or missing, or its value does not fit.
        """
        known = {each.name: each for each in fields(cls)}
        if unknown := sorted(set(document) - set(known)):
            raise SandboxError(f"rule: unknown key {unknown[0]!r}; known are {', '.join(known)}")
        if missing := [each.name for each in known.values() if each.default is MISSING and each.name not in document]:
            raise SandboxError(f"rule: {missing[0]} is missing; it is one of {', '.join(Action)}")
        values = dict(document)
        for name, kind in (("action", Action), ("stream", Stream)):
            try:
                values[name] = kind(values[name]) if values.get(name) is not None else None
            except ValueError as error:
                raise SandboxError(f"rule: {name} is {values[name]!r}; known are {', '.join(kind)}") from error
        return cls(**values)

    def status_document(self) -> dict[str, Any]:
        """Give the body of its answer."""
        code = 410 if self.action is Action.EXPIRE else self.status
        details = {} if self.retry_after_s is None else {"details": {"retryAfterSeconds": self.retry_after_s}}
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason or REASONS.get(code or 0, "Unknown"),
            "code": code,
            **details,
        }


class Script:
    """Rules and how often each was met. A request is shown to them in order until one whose turn it is acts."""

    def __init__(self, rules: Iterable[Rule] = ()) -> None:
        self.rules = tuple(rules)
        self._met = [0] * len(self.rules)

    def decide(self, method: str, target: str) -> Rule | None:
        """Give the rule that acts on a request, which is counted; None: it passes untouched."""
        for index, rule in enumerate(self.rules):
            if not rule.matches(method, target):
                continue
            self._met[index] += 1
            turn = self._met[index] - rule.nth
            if turn >= 0 and (rule.count is None or turn < rule.count):
                return rule
        return None


def stream_of(method: str, target: str) -> Stream | None:
    """Tell which kind of stream a request asks for; None: a plain answer."""
    parts = urlsplit(target)
    query = parse_qs(parts.query)
    if method != "GET":
        return None
    if query.get("watch", ["false"])[0] in ("true", "1"):
        return Stream.WATCH
    if parts.path.endswith("/log") and query.get("follow", ["false"])[0] in ("true", "1", "True"):
        return Stream.LOG
    return None
