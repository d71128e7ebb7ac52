"""The training that all columns run: it resumes, and ends as its row has it."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.waste import program
from bench.waste.program import BAD_CONFIGURATION, BROKEN_STEP, CUDA_OUT_OF_MEMORY, STEPS, Training

pytestmark = pytest.mark.unit


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the folder of the training's progress; its steps take no time."""
    monkeypatch.setattr(program, "STEP_S", 0.0)
    monkeypatch.setattr(program, "START_S", 0.0)
    monkeypatch.setattr(program, "TERMINATION_LOG", tmp_path / "result.json")
    monkeypatch.delenv("GPU_TRAINING_CHECKPOINT_URI", raising=False)
    monkeypatch.setenv("WASTE_CHECKPOINTS", str(tmp_path / "run"))
    monkeypatch.setenv("WASTE_POD", "pod-1")
    # The test process keeps its own way to end.
    monkeypatch.setattr(program.signal, "signal", lambda *_: None)
    return tmp_path / "run"


def train(monkeypatch: pytest.MonkeyPatch, row: str) -> int:
    monkeypatch.setenv("WASTE_ROW", row)
    return Training().run()


@pytest.mark.parametrize(
    ("row", "exit_code", "steps"),
    [("cleared", 0, STEPS), ("cuda-oom", CUDA_OUT_OF_MEMORY, BROKEN_STEP)],
)
def test_an_attempt_ends_as_its_row_has_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch, row: str, exit_code: int, steps: int
) -> None:
    assert train(monkeypatch, row) == exit_code
    assert (folder / "step").read_text() == str(steps)


def test_a_wrong_configuration_makes_no_step(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert train(monkeypatch, "bad-configuration") == BAD_CONFIGURATION
    assert not (folder / "step").exists()


def test_the_next_attempt_goes_on_where_the_last_one_ended(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder.mkdir()
    (folder / "step").write_text(str(STEPS - 2))
    assert train(monkeypatch, "cleared") == 0
    assert capsys.readouterr().out.splitlines() == [f"step {STEPS - 1}/{STEPS}", f"step {STEPS}/{STEPS}"]


def test_half_a_step_is_kept_by_the_last_checkpoint(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir()
    (folder / "step").write_text(f"{STEPS - 0.5}")
    monkeypatch.setenv("WASTE_ROW", "cleared")
    training = Training()
    assert training.step == STEPS - 1
    assert training.run() == 0
    assert (folder / "step").read_text() == str(STEPS)


def test_the_operators_own_folder_of_checkpoints_wins(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPU_TRAINING_CHECKPOINT_URI", f"file://{tmp_path}/lineage")
    assert train(monkeypatch, "cleared") == 0
    assert (tmp_path / "lineage" / "step").exists()
    assert not folder.exists()
