"""What a training that was reclaimed has to leave, held to what its pods said and to the object store.

What the product tells of itself comes last: the ledger, the task's result, the task log.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from tests.cluster.trainings import ledger_of
from tests.reclaims import EVERY, MODEL, STEPS, Checkpoint, Reclaim, Scene
from tests.witness import Document, Voice

BY_STEP = ("train_rmse", "held_out_rmse")
"""Metrics that are logged after each step; the others once, at the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What MLflow has of a registered model: its one run and its one version.

    :param history: by metric, each value as it was logged, with its step.
    """

    run: Any
    version: Any
    history: Mapping[str, list[tuple[int, float]]]

    @classmethod
    def of(cls, name: str) -> Record:
        from gpu_training.registry.tracking_server import tracking_server

        with tracking_server("mlflow_tracking").client() as client:
            experiment = client.get_experiment_by_name(name)
            (run,) = client.search_runs([experiment.experiment_id])
            (version,) = client.search_model_versions(f"name = '{name}'")
            histories = {metric: client.get_metric_history(run.info.run_id, metric) for metric in run.data.metrics}
        history = {metric: [(each.step, each.value) for each in values] for metric, values in histories.items()}
        return cls(run=run, version=version, history=history)


def check_that_only_lost_steps_were_done_again(
    scene: Scene, output: pytest.CaptureFixture[str], *reclaims: Reclaim
) -> None:
    """Train under these reclaims and without any, and hold everything that is left of both to what they did.

    :param output: has the task log.
    """
    name, undisturbed = f"{MODEL}-{scene.namespace}", f"undisturbed-{scene.namespace}"
    run, voices = scene.train(name, *reclaims)
    assert run.state == "success"
    deaths = list(scene.deaths)
    assert [death.voice for death in deaths] == voices[:-1]
    assert [len(death.lost) > 0 for death in deaths] == [not reclaim.notice for reclaim in reclaims]
    assert all(len(death.lost) < EVERY for death in deaths)
    assert [voice.first_step for voice in voices] == [1, *(death.checkpoint.step + 1 for death in deaths)]
    assert voices[-1].last_step == STEPS
    assert done_again(voices) == {step for death in deaths for step in death.lost}

    check_checkpoints(scene.checkpoints(name), voices)
    log, ledger = output.readouterr().out, ledger_of(scene.sandbox, scene.namespace)
    record, trained = Record.of(name), run.result("train")
    check_record(record)
    assert record.run.info.run_id == trained["mlflow_run_id"]
    assert trained["attempts"] == len(voices)

    other, (alone,) = scene.train(undisturbed, round_seconds=0)
    assert other.state == "success"
    assert alone.steps == range(1, STEPS + 1)
    assert Record.of(undisturbed).history == record.history
    assert other.result("train")["metrics"] == trained["metrics"]

    check_ledger(ledger, voices, [*(death.checkpoint.step for death in deaths), STEPS])
    assert trained["repeated_steps"] == len(done_again(voices))
    for death, voice in zip(deaths, voices[1:], strict=True):
        assert f"pod {voice.pod} goes on at step {voice.first_step}, after the checkpoint of step " in log
        assert f"step {death.checkpoint.step} that pod {death.voice.pod} left" in log


def check_checkpoints(left: Sequence[Checkpoint], voices: Iterable[Voice]) -> None:
    """Hold each checkpoint that is left to the pod below whose name it is: it was that one which did the step."""
    steps_of = {voice.uid: voice.steps for voice in voices}
    assert [each for each in left if each.step not in steps_of[each.writer]] == []
    assert left[-1].step == STEPS


def check_ledger(ledger: Document, voices: Sequence[Voice], kept: Sequence[int]) -> None:
    """Hold the ledger to what the pods said themselves.

    :param kept: by attempt, step of the newest checkpoint that there was in the end.
    """
    attempts = [attempt for job in ledger["jobs"] for attempt in job["attempts"]]
    told = [[attempt[name] for name in ("uid", "first_step", "last_step", "checkpoint_step")] for attempt in attempts]
    assert told == [
        [voice.uid, voice.first_step, voice.last_step, step] for voice, step in zip(voices, kept, strict=True)
    ]


def check_record(record: Record) -> None:
    """Hold the metrics to the steps, each of which is there once, whoever did it and however often."""
    steps = {metric: [step for step, _ in values] for metric, values in record.history.items()}
    assert steps == {
        metric: list(range(1, STEPS + 1)) if metric in BY_STEP else [STEPS] for metric in {*steps, *BY_STEP}
    }
    assert record.run.info.status == "FINISHED"
    assert record.version.version == "1"


def done_again(voices: Iterable[Voice]) -> set[int]:
    """Give the steps that more than one attempt did."""
    counts = Counter(step for voice in voices for step in voice.steps)
    return {step for step, count in counts.items() if count > 1}
