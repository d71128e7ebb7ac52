"""What an Airflow says of itself -> its checks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpu_training.core.check_airflow import Airflow, Pool, check_airflow, dags_of
from gpu_training.core.check_up import Check, State

pytestmark = pytest.mark.core

SOUND = Airflow(
    url="http://airflow.example",
    health={"metadatabase": "healthy", "scheduler": "healthy", "triggerer": "healthy", "dag_processor": "healthy"},
    pools={"gpu_nightly": Pool(slots=32, include_deferred=True), "gpu_backfill": Pool(slots=-1, include_deferred=True)},
    dags=dict.fromkeys(dags_of(["flight-delay"]), False),
)


def found(airflow: Airflow, name: str) -> Check:
    (check,) = [each for each in check_airflow(airflow) if each.name == f"airflow/{name}"]
    return check


def test_a_sound_one_has_nothing_to_do() -> None:
    checks = check_airflow(SOUND)
    assert {check.state for check in checks} == {State.OK}
    assert [check.name for check in checks] == [
        "airflow/scheduler",
        "airflow/dag_processor",
        "airflow/triggerer",
        "airflow/pool/gpu_nightly",
        "airflow/pool/gpu_backfill",
        "airflow/dag/nightly_retraining__flight-delay",
        "airflow/dag/train_on_demand__flight-delay",
    ]


@pytest.mark.parametrize("status", ["unhealthy", "", "None"])
@pytest.mark.parametrize(
    ("service", "start"),
    [
        ("scheduler", "`airflow scheduler`"),
        ("triggerer", "`airflow triggerer`"),
        ("dag_processor", "`airflow dag-processor`"),
    ],
)
def test_a_service_that_does_not_beat_is_broken(service: str, start: str, status: str) -> None:
    check = found(replace(SOUND, health={**SOUND.health, service: status}), service)
    assert check.state is State.BROKEN
    assert ("unhealthy" if status == "unhealthy" else "absent") in check.said
    assert start in check.remedy


@pytest.mark.parametrize(
    ("pool", "state", "said", "remedy"),
    [
        (None, State.BROKEN, "does not exist", "airflow pools import include/pools.json"),
        (Pool(slots=0, include_deferred=True), State.BROKEN, "has no slots", "airflow pools set --include-deferred"),
        (Pool(slots=4, include_deferred=False), State.WARNING, "does not count deferred", "gpu_backfill 4 ''"),
        (Pool(slots=-1, include_deferred=True), State.OK, "any number of trainings", ""),
        (Pool(slots=4, include_deferred=True), State.OK, "lets in 4 trainings at once", ""),
    ],
)
def test_a_pool_has_to_exist_to_have_slots_and_to_count_what_waits(
    pool: Pool | None, state: State, said: str, remedy: str
) -> None:
    check = found(replace(SOUND, pools={"gpu_backfill": pool}), "pool/gpu_backfill")
    assert check.state is state
    assert said in check.said
    assert remedy in check.remedy


@pytest.mark.parametrize(
    ("paused", "state", "said"),
    [(None, State.BROKEN, "nightly.py: SyntaxError: bad"), (True, State.WARNING, "is paused"), (False, State.OK, "")],
)
def test_a_dag_has_to_exist_and_should_not_be_paused(paused: bool | None, state: State, said: str) -> None:
    airflow = replace(SOUND, dags={"a": paused}, import_errors={"nightly.py": "SyntaxError: bad"})
    check = found(airflow, "dag/a")
    assert check.state is state
    assert said in check.said


@pytest.mark.parametrize("what", ["health", "pools", "dags"])
def test_what_could_not_be_asked_is_broken_and_says_why(what: str) -> None:
    check = found(Airflow(url="http://airflow.example", hidden={what: "Airflow refused it: 403"}), what)
    assert (check.state, check.said) == (State.BROKEN, "Airflow refused it: 403")
    assert check.remedy
