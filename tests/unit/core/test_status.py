"""What is read of a namespace shows every training as it is, and what could not be read is said, never guessed at."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.core.damage import anything, damaged
from tests.unit.core.kubernetes_documents import (
    JOB_NAME,
    JOB_UID,
    Document,
    complete,
    condition,
    container,
    disruption,
    failed,
    failed_pod,
    job,
    moment,
    pod,
    running,
    succeeded_pod,
    waiting,
)
from tests.unit.core.ledgers import attempt, ended_job, ledger_job, ledger_of, trained

from gpu_training.contract import Progress, Result, ResultStatus
from gpu_training.core.clocks import Clock, Clocks, clocks_annotation
from gpu_training.core.decide import Policy
from gpu_training.core.ledger import Ending, Ledger
from gpu_training.core.ledger_document import to_text
from gpu_training.core.naming import TaskTry
from gpu_training.core.pending_cause import Cause, Cure
from gpu_training.core.pending_report import Report
from gpu_training.core.progress_document import ToldProgress
from gpu_training.core.progress_document import to_text as progress_text
from gpu_training.core.status import Listing, Overview, TrainingStatus, in_order, named
from gpu_training.core.status_document import to_document
from gpu_training.core.status_pending import explained, is_to_explain
from gpu_training.core.status_progress import LINES, with_progress
from gpu_training.core.status_reading import RECENT_S, read_overview
from gpu_training.core.status_text import block, overview_lines
from gpu_training.core.steps import Steps
from gpu_training.core.surroundings import Autoscaler, Node, Surroundings
from gpu_training.core.verdict import Action
from gpu_training.core.waiters import to_text as waiters_text
from gpu_training.rule_table import built_in_rules

pytestmark = pytest.mark.core

POLICY = Policy(rules=built_in_rules())
LINEAGE = "0123456789abcdef"
TRY = TaskTry(dag_id="nightly", run_id="r1", task_id="train", map_index=-1, try_number=2)
UNSCHEDULABLE = condition("PodScheduled", status="False", reason="Unschedulable", message="0/3 nodes are available")


def marks(lineage: str = LINEAGE, model: str = "flight-delay", deployment: str = "airflow") -> dict[str, str]:
    return {
        "gpu-training.io/model": model,
        "gpu-training.io/deployment": deployment,
        "gpu-training.io/lineage": lineage,
    }


def ours(document: Document, *, lineage: str = LINEAGE, model: str = "flight-delay", **annotations: str) -> Document:
    """Give a Job with the marks that the operator gives it."""
    metadata = {
        **document["metadata"],
        "labels": marks(lineage, model),
        "annotations": {
            "gpu-training.io/data-version": "2026-03-01",
            "gpu-training.io/generation": "1",
            "gpu-training.io/waiters": waiters_text([TRY]),
            **{f"gpu-training.io/{name}": value for name, value in annotations.items()},
        },
    }
    return {**document, "metadata": metadata}


def ledger_map(ledger: Ledger | str, lineage: str = LINEAGE) -> Document:
    content = ledger if isinstance(ledger, str) else to_text(ledger)
    name = f"flight-delay-{lineage}-ledger"
    return {"metadata": {"name": name, "labels": marks(lineage)}, "data": {"ledger.json": content}}


def overview(
    jobs: tuple[Document, ...] = (),
    pods: tuple[Document, ...] | None = (),
    ledgers: tuple[Document, ...] | None = (),
    *,
    second: float = 60,
) -> Overview:
    listing = Listing(jobs=jobs, pods=pods, ledgers=ledgers)
    return read_overview(listing, namespace="gpu-training", policy=POLICY, now=moment(0) + second)


def only(*arguments: Any, **options: Any) -> TrainingStatus:
    (status,) = overview(*arguments, **options).trainings
    return status


QUEUED = pod("Pending", scheduled=None, created=3, conditions=[UNSCHEDULABLE])
PULLING = pod("Pending", container(waiting("ImagePullBackOff", "x")), scheduled=4)
RUNNING = pod("Running", container(running(5)))

PHASES = [
    (job(), (), "pending", 0),
    (job(condition("Suspended", second=7), spec={"suspend": True}), (), "suspended", 7),
    (job(), (QUEUED,), "queued", 3),
    (job(), (PULLING,), "starting", 4),
    (job(), (RUNNING,), "running", 5),
    (job(), (failed_pod(1),), "retrying", 11),
    (job(), (pod("Running", container(running()), conditions=[disruption(9)]),), "retrying", 9),
    (job(condition("SuccessCriteriaMet", second=12)), (succeeded_pod(),), "finishing", 12),
    (job(), (succeeded_pod(),), "finishing", 11),
    (job(metadata={"deletionTimestamp": "2026-11-30T19:24:30Z"}), (RUNNING,), "stopping", None),
    (complete(13), (succeeded_pod(),), "succeeded", 13),
    (failed(second=14), (failed_pod(80),), "failed", 14),
    (failed("DeadlineExceeded", second=15), (RUNNING,), "timed_out", 15),
]


@pytest.mark.parametrize(("document", "pods", "phase", "since"), PHASES)
def test_a_training_shows_its_phase_and_since_when(
    document: Document, pods: tuple[Document, ...], phase: str, since: int | None
) -> None:
    status = only((ours(document),), pods)
    assert status.phase == phase
    assert status.since == (None if since is None else moment(since))
    assert status.ended == (phase in {"succeeded", "failed", "timed_out"})
    assert (status.model, status.data_version, status.job) == ("flight-delay", "2026-03-01", JOB_NAME)


@pytest.mark.parametrize("phase", ["planned", "pending", "suspended", "queued", "starting", "retrying"])
def test_what_is_meant_to_run_and_does_not_waits(phase: str) -> None:
    assert a_status(phase=phase).waits


@pytest.mark.parametrize("phase", ["running", "finishing", "stopping", "unknown", "failed", "succeeded"])
def test_what_runs_or_has_ended_does_not_wait(phase: str) -> None:
    assert not a_status(phase=phase).waits


def test_who_waits_is_read_from_the_job_and_unknown_where_somebody_edited_that() -> None:
    assert only((ours(job()),)).waiters == (TRY,)
    assert only((ours(job(), waiters="[]"),)).waiters == ()
    assert only((ours(job(), waiters="?"),)).waiters is None


def test_the_clocks_that_run_are_read_with_the_limits_that_the_job_bears() -> None:
    clocks = clocks_annotation(Clocks(queue_seconds=600, total_seconds=None), 900)
    status = only((ours(job(), clocks=clocks),), (QUEUED,), second=63)
    read = {reading.clock: (reading.elapsed, reading.limit) for reading in status.clocks}
    assert read == {Clock.QUEUE: (60.0, 600), Clock.TOTAL: (63.0, None)}


def test_attempts_and_gpu_seconds_are_those_of_all_jobs_of_the_generation() -> None:
    earlier = ended_job(1, attempts=(attempt("x", action=Action.RETRY),), unseen_gpu_seconds=2.5)
    here = ledger_job(2, uid=JOB_UID, name=JOB_NAME, created_at=moment(0))
    status = only((ours(job()),), (RUNNING,), (ledger_map(ledger_of(earlier, here)),), second=31)
    assert [each.pod for each in status.attempts] == ["pod-x", RUNNING["metadata"]["name"]]
    assert status.attempts[-1].ended_at is None
    assert status.gpu_seconds == 10 + 2.5 + 30


def test_what_was_written_of_an_attempt_stays_though_its_pod_is_gone() -> None:
    seen = attempt("gone", start=moment(1), end=moment(9), action=Action.WAIT)
    here = ledger_job(1, uid=JOB_UID, name=JOB_NAME, created_at=moment(0), attempts=(seen,))
    status = only((ours(job()),), (QUEUED,), (ledger_map(ledger_of(here)),))
    assert [each.pod for each in status.attempts] == ["pod-gone", QUEUED["metadata"]["name"]]
    assert status.gpu_seconds == 8


def test_an_end_that_somebody_watched_counts_more_than_what_is_to_be_seen_now() -> None:
    closed = ended_job(1, uid=JOB_UID, name=JOB_NAME, ending=Ending.TIMED_OUT)
    status = only((ours(failed()),), (), (ledger_map(ledger_of(closed)),))
    assert (status.phase, status.verdict) == ("timed_out", closed.verdict)


def test_a_job_that_was_just_made_is_the_one_that_the_ledger_announced() -> None:
    announced = ledger_job(1, uid=None, name=JOB_NAME)
    status = only((ours(job()),), (RUNNING,), (ledger_map(ledger_of(announced)),), second=31)
    assert [each.pod for each in status.attempts] == [RUNNING["metadata"]["name"]]
    assert status.gpu_seconds == 30


def test_the_job_that_lives_speaks_for_its_lineage() -> None:
    old = failed()
    old["metadata"] = {**old["metadata"], "name": "old", "uid": "another", "creationTimestamp": "2026-11-30T20:00:00Z"}
    assert only((ours(job()), ours(old))).job == JOB_NAME
    assert [status.job for status in overview((ours(job()), ours(old, lineage="f" * 16))).trainings] == [
        JOB_NAME,
        "old",
    ]


GONE = [
    ({"ended_at": moment(0), "ending": Ending.SUCCEEDED, "verdict": None}, "succeeded"),
    ({"ended_at": moment(0), "ending": Ending.DELETED}, "deleted"),
    ({"ended_at": None, "ending": None, "created_at": moment(0)}, "lost"),
    ({"ended_at": None, "ending": None, "created_at": moment(0), "uid": None}, "planned"),
]


@pytest.mark.parametrize(("changes", "phase"), GONE)
def test_the_ledger_tells_of_what_is_gone_for_a_day(changes: dict[str, Any], phase: str) -> None:
    ledger = ledger_map(ledger_of(ended_job(3, **changes)))
    assert only((), (), (ledger,)).phase == phase
    assert only((), (), (ledger,)).ended == (phase != "planned")
    assert overview((), (), (ledger,), second=RECENT_S + 1).trainings == ()


def test_what_a_success_was_trained_on_is_known_though_its_job_is_gone() -> None:
    done = trained(3)
    done = replace(done, result=Result(status=ResultStatus.TRAINED, data_version="2013-03-04"))
    ledger = ledger_of(ended_job(3, action=None, ended_at=moment(0)), trained=(done,))
    assert only((), (), (ledger_map(ledger),)).data_version == "2013-03-04"


def test_a_ledger_that_somebody_edited_is_said_and_hides_nothing_else() -> None:
    seen = overview((ours(job()),), (RUNNING,), (ledger_map("{"), ledger_map("{", "f" * 16)))
    (status,) = seen.trainings
    assert status.phase == "running"
    assert [len(status.attempts), len(seen.hidden)] == [1, 2]
    assert all("was edited and can not be read" in reason for reason in seen.hidden)


def test_without_its_pods_a_job_is_not_called_pending_nor_a_success() -> None:
    active = job(status={"active": 1})
    assert (only((ours(active),), None).phase, only((ours(active),), None).since) == ("unknown", moment(0))
    assert only((ours(job()),), None).phase == "pending"
    done = only((ours(complete()),), None)
    assert (done.phase, done.ended, done.verdict) == ("unknown", True, None)
    assert only((ours(failed()),), None).phase == "failed"


def test_attempts_that_are_known_are_not_called_lost_because_pods_can_not_be_seen() -> None:
    lives = attempt("x", start=moment(1), end=None)
    here = ledger_job(1, uid=JOB_UID, name=JOB_NAME, attempts=(lives,))
    status = only((ours(job(status={"active": 1})),), None, (ledger_map(ledger_of(here)),))
    assert status.attempts == (lives,)


def test_without_ledgers_what_is_seen_is_told() -> None:
    status = only((ours(job()),), (RUNNING,), None, second=31)
    assert (len(status.attempts), status.gpu_seconds, status.deployment) == (1, 30, "airflow")


NODES = (Node(name="gpu-1", ready=True, labels={"pool": "a"}),)


def test_what_waits_is_explained_by_what_is_around_it() -> None:
    around = Surroundings(nodes=NODES, tenants=(), events=(), autoscaler=Autoscaler.NONE, hidden=("events: forbidden",))
    status = explained(only((ours(job()),), (QUEUED,)), around, moment(60))
    assert status.pending is not None
    assert (status.pending.cause, status.pending.curable) == (Cause.NO_GPU_NODES, False)
    assert status.pending.hidden == around.hidden


@pytest.mark.parametrize(
    ("document", "pods"), [(job(), (RUNNING,)), (complete(), (succeeded_pod(),)), (job(status={"active": 1}), None)]
)
def test_what_does_not_wait_or_can_not_be_seen_is_not_explained(
    document: Document, pods: tuple[Document, ...] | None
) -> None:
    status = only((ours(document),), pods)
    assert not is_to_explain(status)
    assert explained(status, Surroundings(nodes=NODES), moment(60)) == status


def test_the_pod_that_waits_says_more_than_the_template_of_its_job() -> None:
    template = {"spec": {"priorityClassName": "nightly"}}
    document = ours(job(spec={"template": template}))
    assert only((document,), (failed_pod(1, name="first"), QUEUED)).wanting == QUEUED
    assert only((document,), (failed_pod(1),)).wanting == template


def a_status(**changes: Any) -> TrainingStatus:
    fields = {"model": "m", "namespace": "n", "deployment": "airflow", "job": "j", "generation": 1, "phase": "queued"}
    return TrainingStatus(**{**fields, **changes})


def test_what_no_waiting_cures_comes_first_then_the_longest_wait_and_the_newest_end_of_all_ends() -> None:
    never = Report(cause=Cause.NO_GPU_NODES, cure=Cure.NEVER, summary="", remedy="")
    statuses = [
        a_status(job="old end", phase="failed", ended=True, since=1.0),
        a_status(job="new end", phase="succeeded", ended=True, since=2.0),
        a_status(job="runs", phase="running", since=1.0),
        a_status(job="unknown", phase="unknown"),
        a_status(job="waits", since=9.0),
        a_status(job="waits longer", since=8.0),
        a_status(job="stuck", since=10.0, pending=never),
    ]
    order = ["stuck", "waits longer", "waits", "runs", "unknown", "new end", "old end"]
    assert [status.job for status in in_order(statuses)] == order


def test_a_training_is_found_by_its_model_and_by_each_of_its_jobs() -> None:
    statuses = [a_status(jobs=("j-1", "j-2")), a_status(model="other", job="k", jobs=("k",))]
    assert [status.job for status in named(statuses, "m")] == ["j"]
    assert [status.job for status in named(statuses, "j-1")] == ["j"]
    assert [status.job for status in named(statuses, "k")] == ["k"]
    assert named(statuses, "nothing") == ()


STALLING = clocks_annotation(Clocks(stall_seconds=300), 900)
POD = RUNNING["metadata"]["name"]


def said(second: float, step: int, **more: Any) -> str:
    """Give a progress line of a log, said so many seconds after the start."""
    at = datetime.fromtimestamp(moment(0) + second, UTC)
    body = json.dumps({"v": 1, "step": step, "total": 200, **more})
    return f"{at:%Y-%m-%dT%H:%M:%S.%f}789Z GPU_TRAINING_PROGRESS {body}\n"


def written(second: float, step: int, *, pod: str = POD, **more: Any) -> str:
    """Give the annotation that tells of a step since so many seconds after the start."""
    steps = {pod: Steps(first=1, least=1, last=step, checkpoint=more.get("checkpoint_step"))}
    progress = Progress(step=step, total=200, **more)
    return progress_text(ToldProgress(at=moment(0) + second, pod=pod, progress=progress, steps=steps))


def at_the_log(log: str, *, annotation: str | None = None) -> TrainingStatus:
    """Give the status of a training that runs, a minute after the start."""
    more = {} if annotation is None else {"progress": annotation}
    return with_progress(only((ours(job(), clocks=STALLING, **more),), (RUNNING,)), POD, log, moment(60))


def stalls_for(status: TrainingStatus) -> float | None:
    return next((reading.elapsed for reading in status.clocks if reading.clock is Clock.STALL), None)


def place(status: TrainingStatus) -> tuple[int, float | None]:
    """Give the step that is shown, and the seconds after the start since which it is."""
    assert status.progress is not None
    return status.progress.step, None if status.progress_at is None else round(status.progress_at - moment(0), 1)


def test_progress_comes_from_the_end_of_the_log_and_starts_the_stall_clock_anew() -> None:
    assert stalls_for(only((ours(job(), clocks=STALLING),), (RUNNING,))) is None
    told = at_the_log(f"2026-11-30T19:24:10Z begun\n{said(20, 80)}2026-11-30T19:24:30Z other words\n")
    assert told.progress == Progress(step=80, total=200)
    assert (told.progresses, place(told), told.progress_pod) == (True, (80, 20), POD)
    assert stalls_for(told) == pytest.approx(60 - 20, abs=0.001)
    assert [reading.clock for reading in told.clocks] == [Clock.RUN, Clock.STALL, Clock.TOTAL]


def test_a_step_that_is_repeated_is_shown_since_it_was_reported_first() -> None:
    assert place(at_the_log(said(20, 80) + said(30, 80) + said(40, 80))) == (80, 20)


def test_a_bar_that_has_no_end_yet_is_progress() -> None:
    told = at_the_log(
        "2026-11-30T19:24:10Z \r 10%|#| 20/200 [00:01<00:09, 20.00it/s]\r 45%|#| 90/200 [00:02<00:36, 3.02it/s]\r"
    )
    assert place(told)[0] == 90


def test_the_stall_clock_is_not_told_where_progress_may_stand_before_the_lines_that_were_read() -> None:
    assert stalls_for(at_the_log("2026-11-30T19:24:10Z begun\n")) == 55
    chatty = "2026-11-30T19:24:10Z words\n" * LINES
    assert stalls_for(at_the_log(chatty)) is None
    assert stalls_for(at_the_log(chatty, annotation=written(20, 80))) is None


@pytest.mark.parametrize(
    ("annotation", "log", "shown"),
    [
        # The log was read after the annotation was written.
        (written(20, 80), said(21, 81), (81, 21)),
        (written(20, 80), "", (80, 20)),
        (written(20, 80), "2026-11-30T19:24:50Z words\n" * LINES, (80, 20)),
        # A step that is repeated in all of what was read has been there for longer.
        (written(20, 80), said(40, 80) + said(50, 80), (80, 20)),
        (written(20, 80), said(40, 80, checkpoint_step=80), (80, 40)),
        # Another pod may have told more since, or may have been the one before.
        (written(30, 90, pod="another"), said(20, 80), (90, 30)),
        (written(10, 90, pod="another"), said(20, 80), (80, 20)),
        # Bars count for nothing beside progress lines.
        (written(20, 80), "2026-11-30T19:24:50Z 45%|#| 3/9 [00:02<00:36, 3.02it/s]\n", (80, 20)),
        ("edited", said(20, 80), (80, 20)),
    ],
)
def test_of_log_and_annotation_the_newer_one_is_shown(annotation: str, log: str, shown: tuple[int, float]) -> None:
    assert place(at_the_log(log, annotation=annotation)) == shown


def test_where_the_log_may_not_be_read_the_annotation_tells_how_far_it_is_and_no_stall() -> None:
    status = only((ours(job(), clocks=STALLING, progress=written(20, 80, checkpoint_step=60)),), (RUNNING,))
    assert (place(status), status.progresses, stalls_for(status)) == ((80, 20), True, None)
    assert attempts_told(status) == [(1, 80, 60)]


def attempts_told(status: TrainingStatus) -> list[tuple[int | None, int | None, int | None]]:
    return [(each.first_step, each.last_step, each.checkpoint_step) for each in status.attempts]


@pytest.mark.parametrize(
    ("document", "pods", "phase"),
    [
        (job(), (failed_pod(1),), "retrying"),
        (job(), (QUEUED,), "queued"),
        (job(condition("Suspended", second=7), spec={"suspend": True}), (), "suspended"),
        (failed(second=14), (failed_pod(80),), "failed"),
    ],
)
def test_what_does_not_run_shows_where_it_was(document: Document, pods: tuple[Document, ...], phase: str) -> None:
    status = only((ours(document, progress=written(20, 120, pod="was", throughput=2.0)),), pods)
    assert (status.phase, place(status), status.progresses) == (phase, (120, 20), False)
    assert "  progress  was at 60% step 120/200; 40 s ago" in block(status, moment(60))
    (training,) = to_document(Overview(trainings=(status,), at=moment(60)), namespace="n")["trainings"]
    assert (training["progress"]["percent"], training["progress"]["seconds_left"]) == (60, None)


def test_a_new_attempt_that_has_not_said_anything_yet_shows_where_the_last_one_was() -> None:
    status = at_the_log("", annotation=written(20, 120, pod="was"))
    assert (status.phase, place(status), status.progresses) == ("running", (120, 20), False)


def test_where_only_the_ledger_is_left_it_tells_how_far_the_last_attempt_was() -> None:
    ran = replace(attempt("x", action=Action.WAIT), first_step=1, last_step=120, checkpoint_step=100)
    silent = attempt("y", action=Action.WAIT)
    ledger = ledger_of(replace(ended_job(1, ended_at=moment(0)), attempts=(ran, silent)))
    status = only((), (), (ledger_map(ledger),))
    assert status.progress == Progress(step=120, checkpoint_step=100)
    assert (status.progress_at, status.progress_pod) == (None, "pod-x")
    assert attempts_told(status) == [(1, 120, 100), (None, None, None)]
    assert "  progress  was at step 120 checkpoint 100" in block(status, moment(60))


jobs = damaged(
    ours(job(), clocks=STALLING, progress=written(20, 80)),
    ours(complete()),
    ours(failed()),
    ours(job(status={"active": 1})),
)
pods = damaged(QUEUED, PULLING, RUNNING, failed_pod(83), succeeded_pod(index=1))
ledgers = damaged(
    ledger_map(ledger_of(ledger_job(1, uid=JOB_UID, name=JOB_NAME, attempts=(attempt("x", action=Action.RETRY),)))),
    ledger_map(ledger_of(ended_job(1, ended_at=moment(0)))),
)


@given(
    st.lists(jobs, max_size=2) | st.lists(anything, max_size=2),
    st.none() | st.lists(pods, max_size=3),
    st.none() | st.lists(ledgers, max_size=2),
    st.sampled_from([Surroundings(), Surroundings(nodes=NODES, tenants=(), events=(), autoscaler=Autoscaler.NONE)]),
    st.text(max_size=40) | st.text(max_size=9).map(lambda more: said(20, 80) + more),
    st.floats(min_value=0, max_value=4e9),
)
def test_whatever_the_documents_hold_is_shown_and_never_an_error(
    some_jobs: list[Any],
    some_pods: list[Any] | None,
    some_ledgers: list[Any] | None,
    around: Surroundings,
    log: str,
    now: float,
) -> None:
    listing = Listing(
        jobs=tuple(some_jobs),
        pods=None if some_pods is None else tuple(some_pods),
        ledgers=None if some_ledgers is None else tuple(some_ledgers),
    )
    seen = read_overview(listing, namespace="n", policy=POLICY, now=now)
    told = (with_progress(explained(status, around, now), "p", log, now) for status in seen.trainings)
    seen = replace(seen, trainings=tuple(told))
    document = to_document(seen, namespace="n")
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    for line in overview_lines(seen, width=100):
        assert not line or line.isprintable()
