"""A pod's life is told by annotations that the stages of kwok read."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.errors import SandboxError
from sandbox.kwok import life
from sandbox.kwok.controller import STAGES, lease_seconds
from sandbox.kwok.life import Ending, PodLife
from sandbox.lifecycle import SHORT, USUAL

pytestmark = pytest.mark.unit

SECONDS = st.floats(0, 1e7)


@given(pending=SECONDS, run=SECONDS, ending=st.sampled_from(Ending), code=st.integers(1, 255))
def test_every_life_is_told_in_annotations_that_go_can_read(
    pending: float, run: float, ending: Ending, code: int
) -> None:
    told = PodLife(pending_s=pending, run_s=run, ending=ending, exit_code=code).annotations()
    assert told[life.ENDING] == ending
    assert int(told[life.EXIT_CODE]) == code
    for name, seconds in ((life.PENDING, pending), (life.RUN, run)):
        assert re.fullmatch(r"\d+(\.\d+)?", told[name])
        assert float(told[name]) == pytest.approx(seconds, abs=1e-3)


def test_the_stages_read_each_annotation() -> None:
    stages = STAGES.read_text()
    written = {value for name, value in vars(life).items() if name.isupper() and str(value).startswith(life.PREFIX)}
    assert set(re.findall(r"gpu-training\.io/life-[a-z-]+", stages)) == written - {life.PREFIX}
    assert all(f'"{ending}"' in stages for ending in Ending if ending is not Ending.FAILED)


def test_a_life_without_a_time_to_run_tells_none() -> None:
    assert life.RUN not in PodLife().annotations()


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"pending_s": -1}, "pending_s is -1: give a number of seconds from 0 up"),
        ({"run_s": float("nan")}, "run_s is nan"),
        ({"run_s": 3, "run_at_most_s": 2}, "run_at_most_s is 2 and run_s 3"),
        ({"run_at_most_s": 2}, "give run_s"),
        ({"ending": "Vanished"}, "ending is 'Vanished': known are Succeeded, Failed, OOMKilled, Evicted"),
        ({"exit_code": 0}, "exit_code is 0: give one from 1 to 255"),
    ],
)
def test_an_impossible_life_is_refused(fields: dict[str, object], complaint: str) -> None:
    with pytest.raises(SandboxError, match=complaint):
        PodLife(**fields)  # type: ignore[arg-type]


def test_leases_are_renewed_in_time_to_stay_alive() -> None:
    for lifecycle in (USUAL, SHORT):
        assert lease_seconds(lifecycle) / 4 < lifecycle.monitor_grace_s
