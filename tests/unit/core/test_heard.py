"""How far a waiter's task log is, in an annotation: who goes on in its place misses nothing and repeats nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.core.log_stamps import stamped

from gpu_training.contract import PROGRESS_PREFIX, RESULT_PREFIX
from gpu_training.core.heard import (
    MOST_LOGS,
    Beginning,
    Heard,
    annotation_of,
    beginning,
    from_text,
    outdated,
    to_text,
)
from gpu_training.core.hearing import Hearing
from gpu_training.core.log_lines import Batch, Position, Reading
from gpu_training.core.log_marks import Told
from gpu_training.core.naming import TRAINING_CONTAINER, TaskTry
from gpu_training.core.rules import RuleTable

pytestmark = pytest.mark.core

KEY = ("p", "training")
TRY = TaskTry(dag_id="d", run_id="r", task_id="train", map_index=-1, try_number=1)
HEARING: dict[str, Any] = {"v": 1, "progress_at": 5.0}


def at(n: int) -> Position:
    reading = Reading()
    reading.new_lines([stamped(n, "said")])
    return reading.position


def heard(n: int, **changes: Any) -> Heard:
    return Heard(**{"log": "0123abcd", "positions": {KEY: at(n)}, "hearing": HEARING, **changes})


def test_what_is_written_is_read_back() -> None:
    assert from_text(to_text(heard(7))) == heard(7)


@pytest.mark.parametrize(
    "text", ["", "null", "[]", "{", "[" * 9999, '{"v":2,"log":"0123abcd"}', '{"v":1}', '{"v":1,"log":"../../etc"}']
)
def test_anything_else_is_nothing(text: str) -> None:
    assert from_text(text) is None


@given(
    st.dictionaries(st.text(max_size=5), st.one_of(st.text(max_size=5), st.integers(), st.none()), max_size=4),
    st.one_of(st.none(), st.integers(), st.dictionaries(st.text(max_size=3), st.integers(), max_size=2)),
)
def test_an_edited_annotation_is_no_error(positions: dict[str, Any], hearing: Any) -> None:
    found = from_text(json.dumps({"v": 1, "log": "0123abcd", "positions": positions, "hearing": hearing}))
    assert found is not None
    assert found.positions == {}


@pytest.mark.parametrize("waiters", [1, 5, 200])
def test_there_is_room_for_all_waiters_on_a_job(waiters: int) -> None:
    logs = {(f"{'p' * 60}-{n}", "training"): at(n) for n in range(1000)}
    written = to_text(heard(1, positions=logs, hearing={"v": 1, "text": "x" * 16_000}), waiters=waiters)
    assert written.isascii()
    assert len(written) <= min(32 * 1024, 128 * 1024 // waiters)
    found = from_text(written)
    assert found is not None
    assert len(found.positions) <= MOST_LOGS
    assert waiters > 5 or list(found.positions)[-1] == (f"{'p' * 60}-999", "training")


def test_each_waiter_of_each_airflow_has_an_annotation_of_its_own() -> None:
    tries = [TRY, TaskTry(dag_id="d", run_id="r", task_id="train", map_index=-1, try_number=2)]
    names = {annotation_of(deployment, each) for deployment in ("a", "b") for each in tries}
    assert len(names) == 4
    for name in names:
        prefix, _, rest = name.partition("/")
        assert prefix == "heard.gpu-training.io"
        assert len(rest) == 16
    assert outdated([*names, "other"], "a", [TRY]) == sorted(names - {annotation_of("a", TRY)})


@pytest.mark.parametrize("logs", ["0123abcd", "another"])
def test_logs_of_pods_that_found_no_room_are_heard_again_and_not_told_again(logs: str) -> None:
    pods = [f"train-{n}" for n in range(12)]
    hearing = Hearing(RuleTable(rules=()))
    for pod in pods:
        lines = [f' {PROGRESS_PREFIX}{{"v":1,"step":9}}', f" {RESULT_PREFIX}{json.dumps({'a': 'x' * 2000})}"]
        hearing.take(Batch(pod=pod, container=TRAINING_CONTAINER, lines=lines, now=1.0))
    positions = {(pod, TRAINING_CONTAINER): at(7) for pod in pods}
    written = from_text(to_text(heard(7, positions=positions, hearing=hearing.to_document())))
    begin = beginning(written, Told(logs=frozenset({logs}), positions=positions))
    again = Hearing(RuleTable(rules=()))
    again.recall(written.hearing if written is not None else {})
    assert 0 < len(begin.starts) < len(pods)
    assert {pod for pod, _ in begin.starts} == set(again.told_results)
    assert begin.told == positions


SEVERAL = {KEY: at(9), ("q", "training"): at(9), ("q", "init"): at(9), ("r", "training"): at(9)}


@pytest.mark.parametrize(
    ("heard", "told", "begins"),
    [
        pytest.param(None, Told(), Beginning(), id="nobody has told anything"),
        pytest.param(
            None,
            Told(positions={KEY: at(5)}),
            Beginning(told={KEY: at(5)}),
            id="killed before it wrote for the first time",
        ),
        pytest.param(
            heard(5),
            Told(logs=frozenset({"0123abcd"}), positions={KEY: at(9)}),
            Beginning(starts={KEY: at(5)}, told={KEY: at(9)}),
            id="killed after it wrote: what it told since is heard, and not told again",
        ),
        pytest.param(
            heard(9),
            Told(logs=frozenset({"0123abcd"}), positions={KEY: at(5)}),
            Beginning(starts={KEY: at(5)}, told={KEY: at(5)}),
            id="killed while lines were on their way into the task log",
        ),
        pytest.param(
            heard(9),
            Told(logs=frozenset({"0123abcd"})),
            Beginning(),
            id="killed while the first lines were on their way",
        ),
        pytest.param(
            heard(9),
            Told(logs=frozenset({"another"}), positions={KEY: at(5)}),
            Beginning(starts={KEY: at(9)}, told={KEY: at(9)}, elsewhere=True),
            id="its task log is on another machine",
        ),
        pytest.param(
            heard(9, hearing={}),
            Told(),
            Beginning(told={KEY: at(9)}, elsewhere=True),
            id="what it heard found no room: it is heard again, and not told again",
        ),
        pytest.param(
            heard(9, positions=SEVERAL, hearing={**HEARING, "cut": True, "pods": {"p": {}, "r": {"part": True}}}),
            Told(logs=frozenset({"0123abcd"}), positions=SEVERAL),
            Beginning(starts={KEY: at(9), ("q", "init"): at(9)}, told=SEVERAL),
            id="what it heard of some pods found no room: these are heard again, and not told again",
        ),
        pytest.param(
            heard(9, positions=SEVERAL, hearing={**HEARING, "cut": True, "pods": {"p": {}, "r": {"part": True}}}),
            Told(),
            Beginning(starts={KEY: at(9), ("q", "init"): at(9)}, told=SEVERAL, elsewhere=True),
            id="the same, and its task log is on another machine",
        ),
    ],
)
def test_who_goes_on_begins_where_the_task_log_ends(heard: Heard | None, told: Told, begins: Beginning) -> None:
    assert beginning(heard, told) == begins
