"""The client of Airflow's REST API, against a server that answers as Airflow 3.3 does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.unit.fake_airflow import DAG_ID, PASSWORD, RUN_ID, FakeAirflow, Frame, serve

from gpu_training.airflow_client import (
    AirflowClient,
    AirflowError,
    AirflowUnreachableError,
    LogCursor,
    NotFoundError,
    RunState,
)

pytestmark = pytest.mark.unit


@pytest.fixture
def airflow() -> Iterator[FakeAirflow]:
    with serve(FakeAirflow()) as server:
        yield server


@pytest.fixture
def client(airflow: FakeAirflow) -> Iterator[AirflowClient]:
    with AirflowClient(airflow.url, username="op", password=PASSWORD) as client:
        yield client


def test_a_login_is_made_once_and_again_when_its_token_has_expired(airflow: FakeAirflow, client: AirflowClient) -> None:
    client.dag(DAG_ID)
    client.dag(DAG_ID)
    assert airflow.logins == 1
    airflow.valid_token = "another"
    client.dag(DAG_ID)
    assert airflow.logins == 2


def test_a_token_that_is_not_taken_is_told_as_a_refusal(airflow: FakeAirflow) -> None:
    with (
        AirflowClient(airflow.url, token="stale") as client,
        pytest.raises(AirflowError, match="401, Invalid JWT token"),
    ):
        client.dag(DAG_ID)


def test_a_wrong_password_is_told_as_a_refusal(airflow: FakeAirflow) -> None:
    with (
        AirflowClient(airflow.url, username="op", password="wrong") as client,
        pytest.raises(AirflowError, match="POST /auth/token: 401, Invalid credentials"),
    ):
        client.dag(DAG_ID)


def test_without_a_login_only_the_health_is_told(airflow: FakeAirflow) -> None:
    with AirflowClient(airflow.url) as client:
        assert client.health() == {"metadatabase": "healthy", "scheduler": "unhealthy", "dag_processor": "None"}
        with pytest.raises(AirflowError, match="needs a login"):
            client.dag(DAG_ID)


def test_a_dag_can_be_looked_up_and_unpaused(airflow: FakeAirflow, client: AirflowClient) -> None:
    airflow.paused = True
    assert client.dag_ids("train_on_demand__") == [DAG_ID]
    assert client.dag(DAG_ID).is_paused
    client.unpause(DAG_ID)
    details = client.dag(DAG_ID)
    assert not details.is_paused
    assert details.params["rounds"]["schema"]["type"] == "integer"


def test_files_that_fail_to_parse_are_listed(airflow: FakeAirflow, client: AirflowClient) -> None:
    airflow.import_errors = [{"filename": "broken.py", "stack_trace": "SyntaxError: …"}]
    assert client.import_errors() == {"broken.py": "SyntaxError: …"}


def test_what_does_not_exist_is_an_error_of_its_own(client: AirflowClient) -> None:
    with pytest.raises(NotFoundError, match="404"):
        client.dag("train_on_demand__none")


def test_a_refused_param_is_told_in_one_sentence_without_the_schema(client: AirflowClient) -> None:
    with pytest.raises(AirflowError) as refused:
        client.trigger(DAG_ID, {"rounds": 0})
    assert str(refused.value).endswith("400, Invalid input for param rounds: 0 is no integer from 1")


def test_a_run_is_triggered_with_its_params_and_its_tasks_are_told_in_their_order(
    airflow: FakeAirflow, client: AirflowClient
) -> None:
    airflow.frames = [
        Frame("running", {"resolve": ("success", 1), "train": ("deferred", 2), "register": (None, 0)}),
    ]
    assert client.trigger(DAG_ID, {"rounds": 5}) == RUN_ID
    assert airflow.triggered == [{"rounds": 5}]
    assert client.run_state(DAG_ID, RUN_ID) is RunState.RUNNING
    tasks = client.tasks(DAG_ID, RUN_ID)
    assert [(task.task_id, task.state, task.try_number, task.seconds) for task in tasks] == [
        ("resolve", "success", 1, 1.5),
        ("train", "deferred", 2, None),
        ("register", None, 0, None),
    ]


def test_each_line_of_a_growing_log_is_given_once(airflow: FakeAirflow, client: AirflowClient) -> None:
    cursor = LogCursor(task_id="train", try_number=1)
    live, over = {"train": ("deferred", 1)}, {"train": ("success", 1)}
    given: list[list[str]] = []
    for tasks, lines in (
        ({"train": ("queued", 1)}, None),
        (live, ["a"]),
        (live, ["a"]),
        (live, ["a", "b", "c"]),
        (over, ["a", "b", "c", "d"]),
        (over, ["a", "b", "c", "d", "e"]),
        (over, ["a", "b", "c", "d", "e"]),
    ):
        airflow.frames = [Frame("running", tasks, {} if lines is None else {"train/1": lines})]
        given.append(client.new_log_lines(DAG_ID, RUN_ID, cursor))
    assert given == [[], ["a"], [], ["b", "c"], ["d"], ["e"], []]


def test_the_error_of_a_task_is_part_of_its_log(airflow: FakeAirflow, client: AirflowClient) -> None:
    entry = {"event": "Task failed with exception", "error_detail": [{"exc_type": "ValueError", "exc_value": "no"}]}
    airflow.frames = [Frame("failed", {"train": ("failed", 1)}, {"train/1": ["begin", entry, "end"]})]
    lines = client.new_log_lines(DAG_ID, RUN_ID, LogCursor(task_id="train", try_number=1))
    assert lines == ["begin", "Task failed with exception", "ValueError: no", "end"]


def test_an_xcom_is_given_and_an_absent_one_is_none(airflow: FakeAirflow, client: AirflowClient) -> None:
    airflow.xcoms = {"train": {"job": "j"}}
    assert client.xcom(DAG_ID, RUN_ID, "train") == {"job": "j"}
    assert client.xcom(DAG_ID, RUN_ID, "register") is None


def test_a_reading_request_outlives_a_short_outage_and_a_writing_one_is_never_repeated(
    airflow: FakeAirflow, client: AirflowClient
) -> None:
    client.dag(DAG_ID)
    airflow.outage = 2
    client.dag(DAG_ID)
    airflow.outage = 1
    with pytest.raises(AirflowUnreachableError):
        client.trigger(DAG_ID, {})
    assert airflow.triggered == []


@pytest.mark.parametrize("url", ["", "airflow.example.com", "ftp://airflow", "http://"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(AirflowError, match="http:// or https:// is expected"):
        AirflowClient(url)


def test_a_server_that_is_no_airflow_is_told(airflow: FakeAirflow) -> None:
    with AirflowClient(f"{airflow.url}/elsewhere", token="t") as client, pytest.raises(AirflowError):
        client.dag(DAG_ID)
