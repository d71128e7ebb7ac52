"""What a platform engineer reads of trainings, and what a script does."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.core.ledgers import attempt, verdict

from gpu_training.contract import Progress
from gpu_training.core.clock_readings import Reading
from gpu_training.core.clocks import Clock
from gpu_training.core.naming import TaskTry
from gpu_training.core.observation import Observation
from gpu_training.core.pending_cause import Cause, Cure
from gpu_training.core.pending_report import GpuHolder, NodeCount, Report
from gpu_training.core.pods import PodObservation
from gpu_training.core.status import Overview, TrainingStatus
from gpu_training.core.status_document import to_document
from gpu_training.core.status_text import block, overview_lines
from gpu_training.core.verdict import Action

pytestmark = pytest.mark.core

NOW = 1796066640.0  # 2026-11-30T19:24:00Z
MIN = 60.0
TRY = TaskTry(dag_id="nightly", run_id="r1", task_id="train", map_index=3, try_number=2)
REPORT = Report(
    cause=Cause.GPUS_TAKEN,
    cure=Cure.WAITING,
    summary="all 4 GPUs on which it may run are taken",
    remedy="wait, or ask the holders",
    nearest="2 GPUs would fit now on g5-1",
    nodes=(
        NodeCount(reason="all GPUs taken", count=12, cause=Cause.GPUS_TAKEN),
        NodeCount(reason="odd words", count=1),
    ),
    holders=(
        GpuHolder(who="pod a, model air-time", node="g5-1", gpus=2, ends_by=NOW + 90 * MIN),
        GpuHolder(who="pod b", node="gpu-10", gpus=12),
    ),
    subject="pod x-1",
    words="0/13 nodes are available",
    hidden=("pods of other namespaces: forbidden",),
)


PROGRESS = Progress(step=80, total=200, loss=0.25, throughput=2.0, checkpoint_step=60, first_step=1)


def status(**changes: Any) -> TrainingStatus:
    fields: dict[str, Any] = {
        "model": "flight-delay",
        "namespace": "gpu-training",
        "deployment": "airflow",
        "job": "flight-delay-0-g2-1",
        "generation": 2,
        "phase": "queued",
        "data_version": "2013-03-04",
        "since": NOW - 12 * MIN,
    }
    return TrainingStatus(**{**fields, **changes})


WAITING = status(
    pending=REPORT,
    clocks=(
        Reading(clock=Clock.QUEUE, since=NOW - 720, elapsed=720.0, limit=86400),
        Reading(clock=Clock.TOTAL, since=NOW - 800, elapsed=800.0, limit=None),
    ),
    attempts=(attempt("x", start=0, end=42, action=Action.WAIT, estimated=True),),
    gpu_seconds=42.0,
    waiters=(TRY,),
    hidden=("progress: forbidden",),
)


def test_a_training_that_waits_reads_at_a_glance() -> None:
    assert block(WAITING, NOW) == [
        "flight-delay 2013-03-04: queued for 12 min, since 19:12:00 UTC",
        "  job       gpu-training/flight-delay-0-g2-1, generation 2, deployment airflow",
        "  what      pod x-1",
        "  why       gpus_taken: all 4 GPUs on which it may run are taken",
        "  cure      waiting may cure it",
        "  remedy    wait, or ask the holders",
        "  nearest   2 GPUs would fit now on g5-1",
        "  nodes     12  all GPUs taken",
        "             1  odd words",
        "  held by   GPUS  NODE    AT THE LATEST UNTIL          WHO",
        "               2  g5-1    20:54:00 UTC, in 1 h 30 min  pod a, model air-time",
        "              12  gpu-10  no limit                     pod b",
        "  words     0/13 nodes are available",
        "  clocks    queue 12 min of 24 h, total 13 min without a limit",
        "  attempts  1  pod-x on gpu-1, about 42 GPU-seconds, disrupted: it broke",
        "  GPU time  42 GPU-seconds",
        "  waited by nightly, run r1, task train[3], try 2",
        "  hidden    progress: forbidden",
    ]


def test_a_training_that_runs_shows_how_far_it_is() -> None:
    runs = status(phase="running", detail="pod x on gpu-1", progress=PROGRESS, progress_at=NOW - 3, progress_pod="x")
    seen = Observation(job=None, pods=(PodObservation(uid="u", name="x"),))
    lines = block(replace(runs, observation=seen), NOW)
    assert "  what      pod x on gpu-1" in lines
    assert "  progress  40% step 80/200 loss 0.25 eta 1 min checkpoint 60; 3 s ago" in lines
    assert "  waited by nobody" in lines
    told = to_document(Overview(trainings=(replace(runs, observation=seen),), at=NOW), namespace="n")["trainings"][0]
    assert told["progress"] == {
        "step": 80,
        "total": 200,
        "loss": 0.25,
        "throughput": 2.0,
        "checkpoint_step": 60,
        "first_step": 1,
        "percent": 40,
        "seconds_left": 60,
        "at": "2026-11-30T19:23:57Z",
        "pod": "x",
    }


@pytest.mark.parametrize(
    ("first", "last", "checkpoint", "words"),
    [
        (1, 120, 100, "steps 1 to 120, checkpoint 100, "),
        (101, 120, None, "steps 101 to 120, "),
        (None, 120, 100, "to step 120, checkpoint 100, "),
        (101, None, 100, "from step 101, checkpoint 100, "),
        # It has reported the checkpoint that it goes on from, and nothing after it.
        (101, 100, 100, "from step 101, checkpoint 100, "),
        (None, None, 100, "checkpoint 100, "),
        (None, None, None, ""),
    ],
)
def test_an_attempt_shows_which_steps_it_did(
    first: int | None, last: int | None, checkpoint: int | None, words: str
) -> None:
    ran = replace(attempt("x", start=0, end=42), first_step=first, last_step=last, checkpoint_step=checkpoint)
    lines = block(status(attempts=(ran,)), NOW)
    assert f"  attempts  1  pod-x on gpu-1, 42 GPU-seconds, {words}succeeded" in lines
    (training,) = to_document(Overview(trainings=(status(attempts=(ran,)),), at=NOW), namespace="n")["trainings"]
    told = training["attempts"][0]
    assert (told["first_step"], told["last_step"], told["checkpoint_step"]) == (first, last, checkpoint)


def test_steps_that_were_done_before_are_told() -> None:
    first = replace(attempt("x", start=0, end=42), first_step=1, last_step=75, checkpoint_step=60)
    second = replace(attempt("y", start=50, end=92), first_step=61, last_step=90, checkpoint_step=60)
    shown = status(attempts=(first, second))
    assert any("steps 61 to 90, 15 of them again, checkpoint 60, " in line for line in block(shown, NOW))
    (training,) = to_document(Overview(trainings=(shown,), at=NOW), namespace="n")["trainings"]
    assert [each["repeated_steps"] for each in training["attempts"]] == [0, 15]
    assert training["repeated_steps"] == 15


def test_a_training_that_has_failed_shows_why_and_whose_it_is() -> None:
    failed = verdict(Action.FAIL)
    lines = block(status(phase="timed_out", ended=True, detail="it broke", verdict=failed), NOW)
    assert lines[0] == "flight-delay 2013-03-04: timed out 12 min ago, at 19:12:00 UTC"
    assert "  why       bad_data: it broke" in lines
    assert "  remedy    mend it (application)" in lines
    assert not any("waited by" in line for line in lines)


@pytest.mark.parametrize("width", [40, 80])
def test_a_narrow_terminal_gets_lines_that_fit_below_their_label(width: int) -> None:
    lines = [line for line in block(status(detail="word " * 40), NOW, width=width) if "word" in line]
    assert len(lines) > 2
    assert all(len(line) <= width for line in lines)
    assert [line[:12].strip() for line in lines] == ["what", *[""] * (len(lines) - 1)]


def test_a_terminal_without_room_beside_the_labels_gets_whole_lines() -> None:
    assert f"  what      {'word ' * 40}" in block(status(detail="word " * 40), NOW, width=15)


def test_what_a_cluster_says_does_not_reach_the_terminal_as_commands() -> None:
    lines = block(status(model="m\x1b[2J", detail="red \x1b[31mand\nmore\r"), NOW)
    assert all(line.isprintable() for line in lines)
    assert "  what      red  [31mand more " in lines


def test_long_tables_and_words_are_cut_and_say_so() -> None:
    many = tuple(NodeCount(reason=f"reason {n}", count=n) for n in range(20))
    report = Report(cause=Cause.UNSCHEDULABLE, cure=Cure.WAITING, summary="s" * 2000, remedy="", nodes=many)
    lines = block(status(pending=report), NOW)
    assert any("and 8 more" in line for line in lines)
    assert max(len(line) for line in lines) < 700


def test_what_can_not_be_seen_is_said_below_all_trainings() -> None:
    lines = overview_lines(Overview(trainings=(WAITING, WAITING), hidden=("ledgers: forbidden",), at=NOW))
    assert lines[-2:] == ["hidden    ledgers: forbidden", "          pods of other namespaces: forbidden"]
    assert lines.count("") == 2
    assert overview_lines(Overview(trainings=(status(), status()), at=NOW)).count("") == 1
    assert overview_lines(Overview(trainings=(), at=NOW)) == []


def test_a_script_reads_all_of_it_under_stable_names() -> None:
    document = to_document(Overview(trainings=(WAITING,), hidden=("x",), at=NOW), namespace="gpu-training")
    assert json.loads(json.dumps(document)) == document
    assert (document["version"], document["at"], document["hidden"]) == (1, "2026-11-30T19:24:00Z", ["x"])
    (training,) = document["trainings"]
    assert {name: training[name] for name in ("phase", "since", "waits", "ended", "cause", "cure", "curable")} == {
        "phase": "queued",
        "since": "2026-11-30T19:12:00Z",
        "waits": True,
        "ended": False,
        "cause": "gpus_taken",
        "cure": "waiting",
        "curable": True,
    }
    assert training["nodes"][1] == {"reason": "odd words", "count": 1, "cause": None}
    assert [holder["ends_by"] for holder in training["holders"]] == ["2026-11-30T20:54:00Z", None]
    assert training["clocks"][0] == {
        "clock": "queue",
        "since": "2026-11-30T19:12:00Z",
        "elapsed_seconds": 720.0,
        "limit_seconds": 86400,
    }
    assert training["hidden"] == ["pods of other namespaces: forbidden", "progress: forbidden"]
    assert training["waiters"][0]["run_id"] == "r1"
    assert training["attempts"][0]["verdict"]["category"] == "disrupted"


def test_what_is_not_known_is_null_for_a_script() -> None:
    bare = status(since=None, data_version="", waiters=None)
    (training,) = to_document(Overview(trainings=(bare,), at=NOW), namespace="n")["trainings"]
    for name in ("since", "data_version", "waiters", "cause", "cure", "curable", "summary", "remedy", "verdict"):
        assert training[name] is None, name
    assert (training["nodes"], training["holders"], training["clocks"]) == ([], [], [])
