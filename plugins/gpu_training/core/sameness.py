"""What is worked out once of a value that is too large to compare."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

Found = TypeVar("Found")


class Same:
    """A value that is equal to itself only: comparing thousands of nodes would cost more than it saves."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.value is self.value


class Memo:
    """What was worked out of a value that does not change: is kept in it, and goes with it.

    :param most: so much is kept; more of it puts out what was kept first.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: dict[Hashable, Any] = {}

    def once(self, key: Hashable, make: Callable[[], Found]) -> Found:
        """Give what was made for a key before, or make it.

        :param key: tells all that it is made of, beside the value itself.
        """
        if key not in self._known:
            if len(self._known) >= self._most:
                del self._known[next(iter(self._known))]
            self._known[key] = make()
        found: Found = self._known[key]
        return found
