"""A program's own words as they stand in a verdict."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_training.core.program_words import LONGEST, last_line, words_of

pytestmark = pytest.mark.core


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ""),
        (" \n\t", ""),
        ("no  rows\n in\tit", "no rows in it"),
        ("GET https://me:secret@store/x failed", "GET https://…@store/x failed"),
        ("bell \a, \ud800 and \0", "bell �, � and �"),
        ("x" * 500, "x" * 399 + "…"),
    ],
)
def test_words_are_one_short_line_without_credentials(text: str, words: str) -> None:
    assert words_of(text) == words


def test_credentials_are_taken_out_before_the_words_are_cut() -> None:
    assert "secret" not in words_of("x" * (LONGEST - 12) + " s3://me:secret@store", longest=LONGEST)


def test_the_last_line_is_the_last_that_says_anything() -> None:
    assert last_line("Traceback\nKeyError: 'a'\n\n  \n") == "KeyError: 'a'"


@given(st.text(), st.integers(min_value=1, max_value=50))
def test_any_text_gives_words(text: str, longest: int) -> None:
    words = words_of(text, longest=longest)
    assert len(words) <= longest
    assert words.isprintable()
    assert words_of(words, longest=longest) == words.rstrip()
