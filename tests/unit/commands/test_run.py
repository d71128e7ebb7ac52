"""`gpu-training run`: exit codes, messages, params; against a server that answers as Airflow 3.3 does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.fake_airflow import PASSWORD, RUN_ID, FakeAirflow, Frame, serve

from gpu_training.cli import main
from gpu_training.commands.airflow_options import TOKEN_VARIABLE, URL_VARIABLE
from gpu_training.commands.exits import Exit

pytestmark = pytest.mark.unit

TRAINED = Frame("success", {"resolve": ("success", 1), "train": ("success", 1), "register": ("success", 1)})
XCOMS = {
    "resolve": {"id": "2013-03-04"},
    "train": {"data_version": "2013-03-04", "job": "j", "attempts": 1, "gpu_seconds": 2.5, "metrics": {"rmse": 17.25}},
    "register": {"registered_model": "flight-delay", "model_version": 3},
}


@pytest.fixture
def airflow(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeAirflow]:
    with serve(FakeAirflow(frames=[TRAINED], xcoms=XCOMS)) as server:
        monkeypatch.setenv(URL_VARIABLE, server.url)
        monkeypatch.setenv(TOKEN_VARIABLE, server.valid_token)
        yield server


def test_a_training_is_started_with_params_of_the_declared_types(
    airflow: FakeAirflow, capsys: pytest.CaptureFixture[str]
) -> None:
    params = ["--param", "rounds=5", "--param", "data_version=7", "--param", "dry_run=true"]
    assert main(["run", "flight-delay", *params]) == Exit.DONE
    assert airflow.triggered == [{"rounds": 5, "data_version": "7", "dry_run": True}]
    assert "started train_on_demand__flight-delay, run manual__" in capsys.readouterr().out


def test_a_training_that_was_waited_for_shows_its_progress_and_its_result(
    airflow: FakeAirflow, capsys: pytest.CaptureFixture[str]
) -> None:
    airflow.frames = [Frame("running", {"train": ("deferred", 1)}, {"train/1": ["progress 40% step 80/200"]}), TRAINED]
    assert main(["run", "flight-delay", "--wait"]) == Exit.DONE
    said = capsys.readouterr().out
    assert "train: progress 40% step 80/200\n" in said
    assert "trained on 2013-03-04: registered flight-delay version 3; rmse 17.25" in said


def test_with_json_the_standard_output_is_one_document(
    airflow: FakeAirflow, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "flight-delay", "--wait", "--json"]) == Exit.DONE
    out = capsys.readouterr().out
    document = json.loads(out)
    assert (document["state"], document["model_version"], document["gpu_seconds"]) == ("success", "3", 2.5)
    assert main(["run", "flight-delay", "--json"]) == Exit.DONE
    assert json.loads(capsys.readouterr().out)["run_id"] == RUN_ID


def test_a_training_that_failed_exits_with_1_and_shows_the_end_of_the_log(
    airflow: FakeAirflow, capsys: pytest.CaptureFixture[str]
) -> None:
    states = {"resolve": ("success", 1), "train": ("failed", 1), "register": ("upstream_failed", 0)}
    airflow.frames = [Frame("failed", states, {"train/1": ["NaN loss at step 7"]})]
    assert main(["run", "flight-delay", "--wait"]) == Exit.FAILED
    said = capsys.readouterr().out
    assert "failed: train failed" in said
    assert "  NaN loss at step 7" in said


class ShortLived(FakeAirflow):
    """Gives a token that ends while a run is followed."""

    def run_state(self, query: Any, body: Any, dag_id: str, run_id: str) -> tuple[int, Any]:
        self.valid_token = "another"
        return super().run_state(query, body, dag_id, run_id)


def test_a_run_that_gets_out_of_sight_was_started_so_it_is_no_refusal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with serve(ShortLived(frames=[Frame("running", {})])) as server:
        monkeypatch.setenv(URL_VARIABLE, server.url)
        monkeypatch.setenv(TOKEN_VARIABLE, server.valid_token)
        assert main(["run", "flight-delay", "--wait"]) == Exit.FAILED
    assert f"run {RUN_ID} was started and is out of sight, it may go on: Airflow refused" in capsys.readouterr().err


def test_a_dry_run_does_not_pass_for_a_training(airflow: FakeAirflow, capsys: pytest.CaptureFixture[str]) -> None:
    airflow.frames = [Frame("success", {"resolve": ("success", 1), "train": ("skipped", 1)})]
    airflow.xcoms = {"resolve": XCOMS["resolve"]}
    assert main(["run", "flight-delay", "--wait", "--param", "dry_run=true"]) == Exit.DONE
    assert "nothing was trained on 2013-03-04: a dry run" in capsys.readouterr().out


def test_a_run_that_was_marked_as_failed_is_none_that_trained(
    airflow: FakeAirflow, capsys: pytest.CaptureFixture[str]
) -> None:
    states = {"resolve": ("success", 1), "train": ("failed", 1), "register": ("skipped", 0), "clean_up": ("success", 1)}
    airflow.frames = [Frame("success", states, {"train/1": ["Deleted Job j: the task is failed"]})]
    airflow.xcoms = {"resolve": XCOMS["resolve"]}
    assert main(["run", "flight-delay", "--wait"]) == Exit.FAILED
    assert "train failed" in capsys.readouterr().out


REFUSED = [
    (["flight-dely"], "model='flight-dely': unknown; did you mean flight-delay? known are: flight-delay"),
    (["flight-delay", "--param", "round=5"], "param='round': unknown; did you mean rounds? known are: data_version,"),
    (["flight-delay", "--param", "rounds"], "param='rounds': NAME=VALUE is expected"),
    (["flight-delay", "--param", "rounds=1", "--param", "rounds=2"], "param='rounds': given twice"),
    (["flight-delay", "--param", "rounds=many"], "Invalid input for param rounds: 'many' is no integer from 1"),
    (["flight-delay", "--param", "rounds=0"], "Invalid input for param rounds: 0 is no integer from 1"),
    (["flight-delay", "--username", "op"], "password-file is absent"),
    (["flight-delay", "--airflow-url", "http://127.0.0.1:1"], "Airflow can not be reached at http://127.0.0.1:1"),
    (["flight-delay", "--airflow-url", "nowhere"], "http:// or https:// is expected"),
    (["flight-delay", "--airflow-url", ""], f"set {URL_VARIABLE}"),
]


@pytest.mark.parametrize(("arguments", "message"), REFUSED)
def test_what_is_refused_starts_nothing_and_exits_with_2_and_one_line(
    airflow: FakeAirflow, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(["run", *arguments]) == Exit.REFUSED
    complaint = capsys.readouterr().err
    assert message in complaint
    assert complaint.count("\n") == 1
    assert airflow.triggered == []


def test_a_paused_dag_is_refused_since_its_run_would_wait_unseen(
    airflow: FakeAirflow, capsys: pytest.CaptureFixture[str]
) -> None:
    airflow.paused = True
    assert main(["run", "flight-delay"]) == Exit.REFUSED
    assert "is paused" in capsys.readouterr().err
    assert airflow.triggered == []


def test_a_user_who_may_not_trigger_is_refused(airflow: FakeAirflow, capsys: pytest.CaptureFixture[str]) -> None:
    airflow.forbidden = True
    assert main(["run", "flight-delay"]) == Exit.REFUSED
    assert "403, Forbidden" in capsys.readouterr().err


def test_without_a_login_nothing_is_asked(
    airflow: FakeAirflow, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(TOKEN_VARIABLE)
    assert main(["run", "flight-delay"]) == Exit.REFUSED
    assert f"set {TOKEN_VARIABLE}" in capsys.readouterr().err


@pytest.mark.parametrize("content", [PASSWORD, f"{PASSWORD}\n", json.dumps({"admin": "x", "op": PASSWORD})])
def test_a_password_is_read_from_a_file_of_text_or_of_airflows_own_form(
    airflow: FakeAirflow, tmp_path: Path, content: str
) -> None:
    file = tmp_path / "password"
    file.write_text(content)
    assert main(["run", "flight-delay", "--username", "op", "--password-file", str(file)]) == Exit.DONE


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "No such file"),
        ("", "is empty"),
        ('{"admin": "x"}', "no password of op"),
        ("wrong", "Invalid credentials"),
    ],
)
def test_a_password_file_without_the_password_is_refused(
    airflow: FakeAirflow, tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str | None, message: str
) -> None:
    file = tmp_path / "password"
    if content is not None:
        file.write_text(content)
    assert main(["run", "flight-delay", "--username", "op", "--password-file", str(file)]) == Exit.REFUSED
    assert message in capsys.readouterr().err
