"""An autoscaler that has written nothing for a while is not counted on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_training.core.autoscaler_status import is_silent

pytestmark = pytest.mark.core

WRITTEN_AT = 1789445152.0
NOW_AND_THEN = [(0, False), (599, False), (601, True), (-3600, False)]


def status(written: object) -> object:
    return {"metadata": {"annotations": {"cluster-autoscaler.kubernetes.io/last-updated": written}}}


@pytest.mark.parametrize("written", ["2026-09-15 04:05:52.354884346 +0000 UTC", "2026-09-15 06:05:52 +0200 CEST"])
@pytest.mark.parametrize(("later", "silent"), NOW_AND_THEN)
def test_it_is_silent_when_its_status_is_old(written: str, later: float, silent: bool) -> None:
    assert is_silent(status(written), WRITTEN_AT + later) is silent


@pytest.mark.parametrize(
    "written", ["", "yesterday", 5, None, "2026-13-45 99:99:99 +0000 UTC", "2026-09-15 04:05:52 +9999 UTC"]
)
def test_one_that_does_not_say_when_it_wrote_counts_as_at_work(written: object) -> None:
    assert is_silent(status(written), WRITTEN_AT * 2) is False


@given(
    st.recursive(st.none() | st.text() | st.integers(), lambda each: st.lists(each) | st.dictionaries(st.text(), each))
)
def test_any_document_is_answered(document: object) -> None:
    assert is_silent(document, WRITTEN_AT) is False
