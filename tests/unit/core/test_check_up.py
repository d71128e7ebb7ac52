"""One check a line, and what a whole check-up comes to."""

from __future__ import annotations

import json

import pytest

from gpu_training.core.check_up import Check, State, is_sound, one_line, summary_of, to_document

pytestmark = pytest.mark.core


def check(state: State, said: str = "it is so", remedy: str = "") -> Check:
    return Check(name="quota", subject="model flight-delay", state=state, said=said, remedy=remedy)


@pytest.mark.parametrize(
    ("made", "line"),
    [
        (check(State.OK), "ok       quota: it is so"),
        (check(State.WARNING, remedy="do it"), "warning  quota: it is so; to do: do it"),
        (check(State.BROKEN, remedy="do\nit"), "broken   quota: it is so; to do: do it"),
        (check(State.UNKNOWN, "two\n\nlines\x1b[31m"), "unknown  quota: two lines [31m"),
    ],
)
def test_a_check_is_one_line(made: Check, line: str) -> None:
    assert made.line == line


def test_whatever_a_server_says_stays_one_line_of_bounded_length() -> None:
    line = one_line("\0\n\t" + "word " * 10_000)
    assert line.isprintable()
    assert len(line) == 1200
    assert line.endswith("…")


@pytest.mark.parametrize(
    ("states", "sound"),
    [
        ([], True),
        ([State.OK, State.WARNING, State.UNKNOWN], True),
        ([State.OK, State.BROKEN], False),
    ],
)
def test_only_what_is_broken_makes_a_check_up_unsound(states: list[State], sound: bool) -> None:
    assert is_sound(map(check, states)) is sound


def test_the_last_line_counts_and_says_that_nothing_is_broken() -> None:
    assert summary_of([check(State.OK), check(State.OK), check(State.UNKNOWN)]) == "2 ok, 0 broken, 1 unknown"


def test_the_document_is_plain_and_has_a_version() -> None:
    document = to_document([check(State.BROKEN, "a\nb", "c")])
    assert json.loads(json.dumps(document)) == {
        "version": 1,
        "sound": False,
        "checks": [{"name": "quota", "subject": "model flight-delay", "state": "broken", "said": "a b", "remedy": "c"}],
    }
