"""Every way in which a result can be missing or wrong has an outcome of its own, and words that say what to do."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.core.damage import anything, damaged
from tests.unit.core.kubernetes_documents import (
    DATA_DIGEST,
    TRAINED,
    Document,
    complete,
    container,
    disruption,
    failed_pod,
    job,
    pod,
    running,
    succeeded_pod,
    terminated,
)

from gpu_training.contract import RESULT_LIMIT_BYTES, Result, ResultStatus, parse_result, render_result
from gpu_training.core.observation import Observation, observe
from gpu_training.core.result_document import MESSAGE_LIMIT_BYTES, POD_LIMIT_BYTES
from gpu_training.core.results import is_absence, read_result, remarks_on_result
from gpu_training.core.verdict import Action, Category, Owner, Verdict

pytestmark = pytest.mark.core

POD = "flight-delay-0123456789abcdef-g1-1-x7k2p"
UID = f"uid-of-{POD}"
RUN = "0123456789abcdef0123456789abcdef"
RESULT = parse_result(TRAINED)
SECRET = "open-sesame"


def given_run(document: Document) -> Document:
    """Give the Job as it is when its pods are given an MLflow run."""
    variables = [{"name": "MLFLOW_RUN_ID", "value": RUN}]
    template = {"spec": {"containers": [{"name": "training", "env": variables}]}}
    return {**document, "spec": {**document["spec"], "template": template}}


def seen(
    pods: Sequence[Document] = (),
    *,
    gone: Sequence[Document] = (),
    told: Mapping[str, str] | None = None,
    document: Document | None = None,
) -> Observation:
    return replace(observe(document or given_run(complete()), pods, gone_pods=gone), told_results=told or {})


def result_in(observation: Observation) -> Result:
    answer = read_result(observation)
    assert isinstance(answer, Result), answer
    return answer


def verdict_in(observation: Observation) -> Verdict:
    answer = read_result(observation)
    assert isinstance(answer, Verdict), answer
    assert len(answer.summary) <= 1000
    assert answer.summary.isprintable()
    assert answer.remedy
    assert SECRET not in answer.summary
    return answer


def text(**fields: Any) -> str:
    """Give a document of a training that went well, with these fields."""
    return json.dumps({**json.loads(TRAINED), **fields})


def signed(name: str, **fields: Any) -> str:
    """Give the same as a pod's own: a line of a log has to say so."""
    return text(pod_uid=f"uid-of-{name}", **fields)


def kept(written: str, *, containers: int = 1) -> str:
    """Give what the kubelet keeps of what a container wrote."""
    room = POD_LIMIT_BYTES // containers
    return written.encode()[-MESSAGE_LIMIT_BYTES:][:room].decode("utf-8", errors="replace")


def beside(message: str, *, others: int, init: int = 0) -> Document:
    """Give a pod that succeeded, with so many containers beside the training's."""
    states = [container(terminated(0), name=f"beside-{n}") for n in range(others)]
    first = [container(terminated(0), name=f"first-{n}") for n in range(init)]
    return pod("Succeeded", container(terminated(0, message=message)), *states, init=first)


@dataclass(frozen=True)
class Row:
    """A pod of a Job that is Complete, and the verdict on what it left.

    :param words: parts of the summary.
    :param cure: part of the remedy.
    """

    pod: Document
    category: Category
    words: tuple[str, ...]
    cure: str
    action: Action = Action.FAIL
    told: Mapping[str, str] = field(default_factory=dict)


HUGE = text(metrics={f"metric_{n}": n / 7 for n in range(9000)})
LONG = text(note="x" * 1800)
LONG_BUT_WHOLE = text(note="x" * 2000)
assert len(HUGE) > 200_000
assert len(LONG) <= RESULT_LIMIT_BYTES < len(LONG_BUT_WHOLE)

TABLE = {
    # absent
    "no message": Row(succeeded_pod(""), Category.RESULT_MISSING, ("left no termination message",), "render_result"),
    "white space": Row(
        succeeded_pod(" \n\t"), Category.RESULT_MISSING, ("no termination message but 3 char",), "/dev/termination-log"
    ),
    "no container": Row(pod("Succeeded"), Category.RESULT_MISSING, ("left no termination message",), "render_result"),
    # too large
    "too large, and whole": Row(
        succeeded_pod(LONG_BUT_WHOLE), Category.RESULT_INVALID, ("bytes: at most 2048",), "leave metrics out"
    ),
    "of the most bytes that are kept, and whole": Row(
        succeeded_pod(TRAINED + " " * (MESSAGE_LIMIT_BYTES - len(TRAINED))),
        Category.RESULT_INVALID,
        ("has 4096 bytes: at most 2048",),
        "leave metrics out",
    ),
    "only its end is left": Row(
        succeeded_pod(kept(HUGE)),
        Category.RESULT_INVALID,
        ("the beginning is missing", "kept 4096"),
        "leave a document",
    ),
    "only its end is left, beginning inside a letter": Row(
        succeeded_pod(kept("€" * 3000 + '"}')), Category.RESULT_INVALID, ("the beginning is missing",), "MLflow"
    ),
    "the end of text that is no document": Row(
        succeeded_pod(kept("spam and eggs\n" * 900)), Category.RESULT_INVALID, ("the beginning is missing",), "MLflow"
    ),
    "the share of four containers": Row(
        beside(kept(HUGE, containers=4), others=3),
        Category.RESULT_INVALID,
        ("the beginning is missing, and maybe the end", "kept 3072", "4 containers share 12288"),
        "fewer containers",
    ),
    "the share of four containers, init containers among them": Row(
        beside(kept(HUGE, containers=4), others=1, init=2), Category.RESULT_INVALID, ("kept 3072",), "fewer containers"
    ),
    "a share that takes the end only": Row(
        beside(kept(text(note="x" * 3400), containers=4), others=3),
        Category.RESULT_INVALID,
        ("the end is missing", "kept 3072"),
        "fewer containers",
    ),
    "a share that is too small for a document that is not": Row(
        beside(kept(LONG, containers=7), others=6),
        Category.RESULT_INVALID,
        ("the end is missing", "kept 1755", "7 containers"),
        "fewer containers",
    ),
    # not a document
    "not JSON": Row(
        succeeded_pod(f"done, see s3://me:{SECRET}@store/log"),
        Category.RESULT_INVALID,
        ("not JSON", "begins with 'done, see s3://…@store"),
        "render_result",
    ),
    "the log's last lines": Row(
        succeeded_pod("epoch 3\nepoch 4\n"), Category.RESULT_INVALID, ("not JSON", "'epoch 3 epoch 4'"), "render_result"
    ),
    "half a document": Row(succeeded_pod(TRAINED[:50]), Category.RESULT_INVALID, ("not JSON",), "render_result"),
    "NUL": Row(succeeded_pod("\0" * 9), Category.RESULT_INVALID, ("not JSON", "�"), "render_result"),
    "deep nesting": Row(succeeded_pod("[" * 2000), Category.RESULT_INVALID, ("not JSON",), "render_result"),
    "another shape": Row(succeeded_pod("[1, 2]"), Category.RESULT_INVALID, ("list", "object"), "render_result"),
    "a number": Row(succeeded_pod("1"), Category.RESULT_INVALID, ("int", "object is expected"), "render_result"),
    "no version": Row(succeeded_pod('{"status":"trained"}'), Category.RESULT_INVALID, ("v=None",), "render_result"),
    "a version from the future": Row(
        succeeded_pod(text(v=2)), Category.RESULT_INVALID, ("v=2", "versions 1 to 1"), "upgrade the release"
    ),
    # fields
    "a status of its own": Row(
        succeeded_pod(text(status="done")), Category.RESULT_INVALID, ("'done'", "trained, failed"), "render_result"
    ),
    "a field of another type": Row(
        succeeded_pod(text(model_uri=7)), Category.RESULT_INVALID, ("model_uri=7", "text is expected"), "render_result"
    ),
    "two results in one": Row(
        succeeded_pod('{"v":1,"status":"failed","status":"trained"}'),
        Category.RESULT_INVALID,
        ("key 'status' stands twice",),
        "render_result",
    ),
    "a step below 0": Row(
        succeeded_pod(text(last_step=-1)), Category.RESULT_INVALID, ("last_step=-1", "whole number"), "render_result"
    ),
    "NaN": Row(
        succeeded_pod(text(metrics={"loss": float("nan")})),
        Category.RESULT_INVALID,
        ("metrics.loss=nan", "finite"),
        "render_result",
    ),
    "infinity": Row(
        succeeded_pod(text(metrics={"loss": float("-inf")})),
        Category.RESULT_INVALID,
        ("metrics.loss=-inf", "finite"),
        "render_result",
    ),
    "more metrics than fit": Row(
        succeeded_pod(text(metrics={f"m{n}": 0.5 for n in range(250)})),
        Category.RESULT_INVALID,
        ("bytes: at most 2048",),
        "leave metrics out",
    ),
    # contradictions
    "failed, by its own word": Row(
        succeeded_pod(render_result(Result(status=ResultStatus.FAILED, error=f"s3://me:{SECRET}@x: no rows"))),
        Category.APPLICATION_ERROR,
        ("exited with 0, but its result says failed: s3://…@x: no rows",),
        "another code than 0",
    ),
    "failed, without a reason": Row(
        succeeded_pod('{"v":1,"status":"failed"}'), Category.APPLICATION_ERROR, ("no reason given",), "another code"
    ),
    "other data": Row(
        succeeded_pod(text(data_digest="sha256:" + "0" * 64)),
        Category.BAD_DATA,
        ("sha256:000", f"{DATA_DIGEST} was to be used"),
        "the data version that it is given",
    ),
    "another MLflow run": Row(
        succeeded_pod(text(mlflow_run_id="mine")),
        Category.RESULT_INVALID,
        ("MLflow run 'mine'", f"'{RUN}' was given"),
        "MLFLOW_RUN_ID",
    ),
    "another pod's": Row(
        succeeded_pod(text(pod_uid="uid-of-another")),
        Category.RESULT_INVALID,
        ("pod_uid='uid-of-another'", f"this pod's is '{UID}'"),
        "GPU_TRAINING_POD_UID",
    ),
    # told to stop
    "told to stop, without a word": Row(
        succeeded_pod("", conditions=[disruption(9)]),
        Category.INTERRUPTED,
        ("told to stop (EvictionByEvictionAPI)", "exited with 0"),
        "exit with 85",
        Action.RETRY,
    ),
    "deleted, as by a queue or a person, without a word": Row(
        succeeded_pod("", deleting=True),
        Category.INTERRUPTED,
        ("told to stop (deleted)", "exited with 0"),
        "exit with 85",
        Action.RETRY,
    ),
    "told to stop, with half a document": Row(
        succeeded_pod(TRAINED[:50], conditions=[disruption(9)]),
        Category.INTERRUPTED,
        ("told to stop", "not JSON"),
        "exit with 85",
        Action.RETRY,
    ),
    # the line in the log is no better
    "neither the message nor the log": Row(
        succeeded_pod("half"),
        Category.RESULT_INVALID,
        ("not JSON", "nor is the result line of its log valid", "v=7"),
        "render_result",
        told={POD: signed(POD, v=7)},
    ),
    "the log says that it failed": Row(
        succeeded_pod(""),
        Category.APPLICATION_ERROR,
        ("by the result line of its log", "its result says failed: no rows", "no termination message"),
        "another code",
        told={POD: signed(POD, status="failed", error="no rows")},
    ),
    "a line of the log that does not bear the pod's UID is none": Row(
        succeeded_pod(""),
        Category.RESULT_MISSING,
        ("left no termination message",),
        "render_result",
        told={POD: '{"v":1,"status":"failed","error":"no rows"}'},
    ),
}


@pytest.mark.case("C083")
@pytest.mark.parametrize("row", TABLE.values(), ids=TABLE.keys())
def test_a_result_that_is_missing_or_wrong_is_told_with_what_was_found_and_what_to_do(row: Row) -> None:
    verdict = verdict_in(seen([row.pod], told=row.told))

    assert (verdict.category, verdict.action, verdict.owner) == (row.category, row.action, Owner.APPLICATION)
    assert verdict.summary.startswith(f"pod {POD}: ")
    assert [part for part in row.words if part not in verdict.summary] == []
    assert row.cure in verdict.remedy


@pytest.mark.parametrize(
    "message",
    [
        text(mlflow_run_id=RUN, pod_uid=UID, data_digest=DATA_DIGEST),
        text(mlflow_run_id=None, pod_uid=None, data_digest=None),
        f"\n {TRAINED}\n",
        text(colour="blue"),
        LONG,
    ],
)
def test_a_result_that_is_the_pods_own_counts(message: str) -> None:
    assert result_in(seen([succeeded_pod(message)])) == parse_result(message)


def test_where_the_job_was_given_no_run_the_result_may_name_one() -> None:
    named = text(mlflow_run_id="mine")
    assert result_in(seen([succeeded_pod(named)], document=complete())) == parse_result(named)


def test_the_data_version_stands_in_for_a_digest_that_nobody_reported() -> None:
    annotations = {"gpu-training.io/data-digest": DATA_DIGEST, "gpu-training.io/data-version": "2026-03-02"}
    document = {**complete(), "metadata": {**complete()["metadata"], "annotations": annotations}}

    assert "'2026-03-02' was to be used" in verdict_in(seen([succeeded_pod()], document=document)).summary
    with_digest = succeeded_pod(text(data_digest=DATA_DIGEST))
    assert result_in(seen([with_digest], document=document)).data_version == "2026-03-01"


# Which pods count.


@pytest.mark.case("C003")
def test_what_a_pod_says_that_the_job_does_not_own_is_never_read() -> None:
    assert verdict_in(seen([succeeded_pod(owner="another-job")])).category is Category.RESULT_MISSING
    assert verdict_in(seen([succeeded_pod(owner=None)])).category is Category.RESULT_MISSING


@pytest.mark.parametrize(
    "attempt",
    [
        failed_pod(1, message=TRAINED, name="first"),
        pod("Running", container(terminated(1, message=TRAINED)), name="first"),
        # Its training went well, and what stood beside it did not: Kubernetes calls the attempt failed.
        pod("Failed", container(terminated(0, message=TRAINED)), container(terminated(1), name="b"), name="first"),
    ],
)
@pytest.mark.parametrize("told", [{}, {"first": TRAINED}])
def test_what_an_attempt_left_that_failed_is_never_the_result(attempt: Document, told: dict[str, str]) -> None:
    second = succeeded_pod("", name="second", created=20)

    assert verdict_in(seen([second], gone=[attempt], told=told)).summary.startswith("pod second: ")
    assert verdict_in(seen(gone=[attempt], told=told)).category is Category.RESULT_MISSING


def test_a_pod_that_failed_without_a_word_of_why_is_no_success_either() -> None:
    assert verdict_in(seen(gone=[pod("Failed")], told={POD: TRAINED})).category is Category.RESULT_MISSING


def test_a_message_counts_that_was_seen_before_the_pod_s_phase_was() -> None:
    """The phase follows a second after the container's end."""
    ended = pod("Running", container(terminated(0, message=TRAINED)))
    assert result_in(seen(gone=[ended])) == RESULT
    assert remarks_on_result(seen(gone=[ended])) == ()


def test_of_attempts_whose_end_nobody_saw_the_newest_is_the_one_that_succeeded() -> None:
    first, second = (pod("Running", container(running()), name=n, created=c) for n, c in (("first", 0), ("second", 9)))

    assert verdict_in(seen(gone=[first, second], told={"first": signed("first")})).summary.startswith("pod second: ")
    assert result_in(seen(gone=[first, second], told={"first": "", "second": signed("second")})) == parse_result(
        signed("second")
    )


# Deleted before it was read.

UNSEEN = pod("Running", container(running()))


def test_a_pod_that_was_deleted_before_it_was_read_and_told_nothing_is_worth_a_retry() -> None:
    verdict = verdict_in(seen(gone=[UNSEEN]))

    assert (verdict.category, verdict.action) == (Category.RESULT_MISSING, Action.RETRY)
    assert verdict.owner is Owner.INFRASTRUCTURE
    assert POD in verdict.summary
    assert "gone before anybody read its result, and its log did not tell it" in verdict.summary
    assert "goes on from the last checkpoint" in verdict.remedy


@pytest.mark.parametrize(
    ("gone", "why"),
    [
        ([UNSEEN], "its termination message was not seen"),
        ([succeeded_pod("")], "left no termination message"),
        ([succeeded_pod(kept(HUGE))], "the beginning is missing"),
        ([succeeded_pod("", conditions=[disruption(9)])], "left no termination message"),
        ([], "its termination message was not seen"),
    ],
)
def test_the_result_that_the_log_told_counts_where_the_message_gives_none(gone: list[Document], why: str) -> None:
    told = signed(POD, mlflow_run_id=RUN)
    observation = seen(gone=gone, told={POD: told})

    assert result_in(observation) == parse_result(told)
    (remark,) = remarks_on_result(observation)
    assert f"the result of pod {POD} is the one that its log tells: " in remark
    assert why in remark


@pytest.mark.parametrize(
    ("told", "category", "words"),
    [
        (signed(POD, error="x" * 2100), Category.RESULT_INVALID, "at most 2048"),
        (signed(POD)[:-1], Category.RESULT_INVALID, "not JSON"),
        (signed(POD, mlflow_run_id="another"), Category.RESULT_INVALID, "MLflow run 'another'"),
        (signed(POD, data_digest="another"), Category.BAD_DATA, "was to be used"),
    ],
)
def test_the_line_in_the_log_is_held_to_the_same(told: str, category: Category, words: str) -> None:
    verdict = verdict_in(seen(gone=[UNSEEN], told={POD: told}))

    assert verdict.category is category
    assert "by the result line of its log: " in verdict.summary
    assert words in verdict.summary


@pytest.mark.parametrize(
    "told", ["", "nonsense", HUGE, TRAINED, text(pod_uid="another"), text(pod_uid=7), text(status="failed"), "[]"]
)
def test_a_line_that_does_not_bear_the_pod_s_uid_is_as_if_it_were_not_there(told: str) -> None:
    """A program may print anything, such as a sample of a text: that must not cost it its retry."""
    verdict = verdict_in(seen(gone=[UNSEEN], told={POD: told}))

    assert verdict == verdict_in(seen(gone=[UNSEEN]))
    assert verdict.action is Action.RETRY
    assert "bears its pod_uid" in verdict.remedy
    assert remarks_on_result(seen([succeeded_pod()], told={POD: told})) == ()


def test_whose_result_the_one_log_tells_need_not_be_known_where_it_names_what_the_job_was_given() -> None:
    for named in ({"mlflow_run_id": RUN}, {"data_digest": DATA_DIGEST}):
        mine = text(pod_uid=UID, **named)
        assert result_in(seen(told={POD: mine})) == parse_result(mine)
    other = text(pod_uid=UID, data_version="2000-01-01", data_digest=None, mlflow_run_id=None)
    for told in (TRAINED, other, signed(POD)[:-1]):
        assert verdict_in(seen(told={POD: told})).action is Action.RETRY


def test_a_denial_of_the_success_is_not_taken_back_by_the_log() -> None:
    verdict = verdict_in(seen([succeeded_pod('{"v":1,"status":"failed"}')], told={POD: TRAINED}))
    assert verdict.category is Category.APPLICATION_ERROR


@pytest.mark.parametrize("gone", [[UNSEEN], []])
def test_a_pod_that_says_that_it_failed_is_not_the_one_that_succeeded_unseen(gone: list[Document]) -> None:
    """Reclaimed, it told that it was interrupted; the pod that replaced it was never seen."""
    told = {POD: signed(POD, status="failed", error="interrupted")}
    verdict = verdict_in(seen(gone=gone, told=told))
    assert (verdict.category, verdict.action) == (Category.RESULT_MISSING, Action.RETRY)

    second = pod("Running", container(running()), name="second", created=20)
    assert result_in(seen(gone=[*gone, second], told={**told, "second": signed("second")})) == parse_result(
        signed("second")
    )


def test_a_message_that_is_valid_wins_over_the_log_which_is_said() -> None:
    other = signed(POD, model_uri="models:/m-2", metrics={"rmse": 1.0})

    assert result_in(seen([succeeded_pod()], told={POD: other})) == RESULT
    (remark,) = remarks_on_result(seen([succeeded_pod()], told={POD: other}))
    assert "its log tells another model_uri, metrics than its termination message, which counts" in remark
    (remark,) = remarks_on_result(seen([succeeded_pod()], told={POD: signed(POD)[:-1]}))
    assert "does not count" in remark
    assert remarks_on_result(seen([succeeded_pod()], told={POD: signed(POD)})) == ()


@pytest.mark.parametrize(
    ("document", "told", "words"),
    [
        # One of them failed, and nobody can say which.
        (complete() | {"status": {**complete()["status"], "failed": 1}}, {"a": TRAINED}, "logs of 1 pods"),
        (complete(), {"a": TRAINED, "b": TRAINED}, "which of them succeeded was not seen"),
        (complete(), {}, "no log told it"),
    ],
)
def test_logs_of_pods_that_nobody_saw_are_not_guessed_among(
    document: Document, told: dict[str, str], words: str
) -> None:
    verdict = verdict_in(seen(told=told, document=document))
    assert (verdict.category, verdict.action) == (Category.RESULT_MISSING, Action.RETRY)
    assert words in verdict.summary


# Several pods.


def ranks(*messages: str) -> list[Document]:
    return [succeeded_pod(message, name=f"rank-{n}", index=n) for n, message in enumerate(messages)]


def several(count: int, **spec: Any) -> Document:
    """Give an Indexed Job of so many pods that is Complete."""
    document = complete()
    return {
        **document,
        "spec": {**document["spec"], "completions": count, "parallelism": count, **spec},
        "status": {**document["status"], "succeeded": count},
    }


@pytest.mark.case("C016")
def test_of_several_ranks_the_lowest_index_with_a_result_counts() -> None:
    second, third = text(model_uri="models:/m-2"), text(model_uri="models:/m-3")
    observation = seen(list(reversed(ranks("", second, third, second))), document=several(4))

    assert result_in(observation).model_uri == "models:/m-2"
    (remark,) = remarks_on_result(observation)
    assert "the result of pod rank-1 counts: pod rank-2 leaves another model_uri" in remark


def test_ranks_that_agree_or_say_nothing_are_no_matter() -> None:
    same = [text(pod_uid=f"uid-of-rank-{n}", device=f"cuda:{n}") for n in range(2)]
    assert remarks_on_result(seen(ranks(*same, ""), document=several(3))) == ()


def test_what_does_not_count_beside_a_result_is_said_in_two_lines_at_most() -> None:
    odd = [text(model_uri=f"models:/m-{n}") for n in range(5)]
    remarks = remarks_on_result(seen(ranks(TRAINED, *odd, *["half"] * 7), document=several(13)))

    assert len(remarks) == 2
    assert "and 3 more do" in remarks[0]
    assert "pod rank-6 leaves a result that does not count" in remarks[1]
    assert "and 6 more are like it" in remarks[1]


@pytest.mark.parametrize("denial", ['{"v":1,"status":"failed"}', text(data_digest="another")])
def test_one_rank_that_denies_its_success_denies_it_for_all(denial: str) -> None:
    verdict = verdict_in(seen(ranks(TRAINED, "", denial), document=several(3)))
    assert verdict.summary.startswith("pod rank-2: ")
    assert not is_absence(verdict)


def test_of_ranks_one_of_which_was_deleted_before_it_was_read_the_log_tells_its_result() -> None:
    first, second = ranks("", "")
    lost = pod("Running", container(running()), name="rank-0", index=0)

    assert result_in(
        seen([second], gone=[lost], told={"rank-0": signed("rank-0")}, document=several(2))
    ) == parse_result(signed("rank-0"))
    verdict = verdict_in(seen([second], gone=[lost], document=several(2)))
    assert (verdict.action, verdict.owner) == (Action.RETRY, Owner.INFRASTRUCTURE)
    verdict = verdict_in(seen([first, second], document=several(2)))
    assert (verdict.action, verdict.owner) == (Action.FAIL, Owner.APPLICATION)


def test_where_one_rank_was_lost_a_retry_may_bring_what_the_others_do_not_leave() -> None:
    lost = pod("Running", container(running()), name="rank-1", index=1)
    verdict = verdict_in(seen(ranks(""), gone=[lost], document=several(2)))
    assert verdict.summary.startswith("pod rank-1: ")
    assert verdict.action is Action.RETRY


def test_of_the_attempts_of_a_rank_only_the_newest_counts() -> None:
    first, second, other = (
        pod("Running", container(running()), name=name, index=index, created=created)
        for name, index, created in (("first", 0, 20), ("second", 0, 30), ("other", 1, 0))
    )
    told = {"first": signed("first", model_uri="models:/m-2"), "second": signed("second"), "other": signed("other")}

    assert result_in(seen(gone=[first, second], told=told, document=several(2))) == parse_result(signed("second"))
    again = succeeded_pod("", name="again", index=0, created=40)
    answer = result_in(seen([again], gone=[first, other], told=told, document=several(2)))
    assert answer == parse_result(signed("other"))


def test_ranks_that_a_success_policy_ended_are_no_losses() -> None:
    """Only index 0 has to succeed; the rest is deleted while it runs."""
    rest = [pod("Running", container(running()), name=f"rank-{n}", index=n) for n in (1, 2)]
    document = several(3)
    document["status"]["succeeded"] = 1

    assert verdict_in(seen(ranks(""), gone=rest, document=document)).action is Action.FAIL
    assert result_in(seen(ranks(TRAINED), gone=rest, document=document)) == RESULT


def test_a_result_that_is_missing_where_none_is_required_is_said() -> None:
    (remark,) = remarks_on_result(seen([succeeded_pod("half")]))
    assert remark.startswith(f"no result is handed on, and none is required: pod {POD}: result document is not JSON")


# Totality.

good = st.sampled_from([TRAINED, text(mlflow_run_id=RUN), text(pod_uid="uid-of-a"), text(metrics={"\0": 1, "a": 2})])
odd = st.one_of(
    st.text(max_size=60),
    st.binary(max_size=5000).map(lambda data: data.decode("utf-8", errors="replace")),
    st.integers(min_value=0, max_value=5000).map(lambda size: "x" * size),
    damaged(json.loads(TRAINED)).map(json.dumps),
    st.sampled_from(["", "{", "[" * 100_000, "9" * 5000, "\ud800", '"\\ud800"', '{"v":1}', HUGE]),
)
messages = st.integers(0, 2).flatmap(lambda n: odd if n == 0 else good)
names = st.sampled_from(["a", "b", "c"])


@st.composite
def observations(draw: st.DrawFn) -> Observation:
    documents = [
        pod(
            draw(st.sampled_from(["Succeeded", "Succeeded", "Running", "Failed", "Odd"])),
            container(draw(st.sampled_from([terminated(0, message=draw(messages)), running(), {}]))),
            *[container(terminated(0), name=f"beside-{n}") for n in range(draw(st.integers(0, 7)))],
            name=draw(names),
            created=draw(st.integers(0, 50)),
            index=draw(st.none() | st.integers(0, 2)),
            conditions=draw(st.sampled_from([[], [disruption(9)]])),
        )
        for _ in range(draw(st.integers(0, 3)))
    ]
    jobs = [given_run(complete()), given_run(several(3)), complete()]
    document = draw(st.sampled_from(jobs) | damaged(*jobs, job()))
    live = draw(st.integers(0, len(documents)))
    told = draw(st.dictionaries(names, messages, max_size=3))
    return replace(observe(document, documents[:live], gone_pods=documents[live:]), told_results=told)


@given(observations())
def test_any_text_in_any_pod_gives_a_result_that_the_schema_takes_or_a_verdict(observation: Observation) -> None:
    answer = read_result(observation)
    remarks = remarks_on_result(observation)

    assert len(remarks) <= 3
    assert all(len(remark) < 1500 and remark.isprintable() for remark in remarks)
    if isinstance(answer, Verdict):
        assert answer.action in (Action.FAIL, Action.RETRY)
        assert answer.summary.isprintable()
        assert len(answer.summary) <= 1000
        return
    assert answer.status is ResultStatus.TRAINED
    left = [pod.training.message for pod in observation.pods if pod.training is not None]
    assert answer in [parse_result(text) for text in (*left, *observation.told_results.values()) if _is_valid(text)]
    plain = json.dumps(asdict(answer), allow_nan=False, ensure_ascii=False)
    assert "\0" not in plain.encode().decode()
    assert "\\u0000" not in plain


def _is_valid(text: str) -> bool:
    try:
        parse_result(text)
    except ValueError:
        return False
    return True


@given(st.lists(anything | messages, max_size=3), st.dictionaries(names, messages, max_size=2))
def test_documents_that_are_nothing_of_the_kind_leave_a_verdict(live: list[Any], told: dict[str, str]) -> None:
    observation = replace(observe(failed_job(), live), told_results=told)
    assert isinstance(read_result(observation), Verdict)


def failed_job() -> Document:
    """Give a Job of which a pod has failed, and which of its pods succeeded is not known."""
    return job(status={"failed": 1})
