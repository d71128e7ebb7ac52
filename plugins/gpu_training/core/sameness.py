"""A key for what is worked out once of a value that is too large to compare."""

from __future__ import annotations


class Same:
    """A value that is equal to itself only: comparing thousands of nodes would cost more than it saves."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.value is self.value
