"""What Kubernetes, its autoscalers, registries and Kueue are recorded to say means what the table says it means.

Each line of pending_messages.jsonl names the product and version that prints the message, and where that is known from:
`measured` on the project's own clusters, or the source that has the format.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_training.core.admission_words import Refusal, parse_refusal
from gpu_training.core.autoscaler_words import parse_autoscaler
from gpu_training.core.kubelet_words import KubeletWords, parse_container_wait, parse_kubelet_event
from gpu_training.core.queue_words import QueueWords, parse_queue
from gpu_training.core.sayings import LONGEST
from gpu_training.core.scheduler_words import parse_scheduler
from gpu_training.core.surroundings import QueueCondition, Workload

pytestmark = pytest.mark.core

TABLE = [
    json.loads(line) for line in Path(__file__).with_name("pending_messages.jsonl").read_text("utf-8").splitlines()
]
FEWEST = 120
MOST_SECONDS = 3.0
"""Of processor time; a pattern that looks at a message again and again needs minutes."""

Row = Mapping[str, Any]


def rows(*speakers: str) -> list[Any]:
    return [
        pytest.param(row, id=f"{row['product']} {row['version']}: {row['message'][:60]}")
        for row in TABLE
        if speaker_of(row) in speakers
    ]


def speaker_of(row: Row) -> str:
    expected = row["expect"]
    if "reasons" in expected:
        return "scheduler"
    if "state" in expected:
        return "autoscaler"
    if "conditions" in row:
        return "queue"
    if row["reason"] == "FailedCreate":
        return "admission"
    return "state" if row["component"] == "kubelet state" else "event"


def assert_says(row: Row, *texts: str) -> None:
    told = " ".join(texts)
    missing = [words for words in row["expect"].get("says", ()) if words not in told]
    assert not missing, told


def assert_means(row: Row, words: KubeletWords | QueueWords | Refusal | None) -> None:
    expected = row["expect"]
    assert (words is None) == (expected["cause"] is None), words
    if words is None:
        return
    assert (words.cause, words.cure) == (expected["cause"], expected["cure"])
    assert_says(row, words.summary, words.remedy)
    assert_reads_well(words.summary)
    assert_reads_well(words.remedy or "Wait.")


def assert_reads_well(sentence: str) -> None:
    assert sentence.endswith("."), sentence
    assert sentence.isprintable()
    assert not sentence.endswith((" .", ".."))
    assert not re.search(r"\{[a-z]+\}|(^|\s)\?(\s|[.,:]|$)", sentence), sentence


@pytest.mark.case("C035")
@pytest.mark.parametrize("row", rows("scheduler"))
def test_the_schedulers_words_are_counted_by_cause(row: Row) -> None:
    expected = row["expect"]
    words = parse_scheduler(row["message"])
    assert words is not None
    assert [[reason.count, reason.cause] for reason in words.reasons] == expected["reasons"]
    assert (words.total, words.preemption) == (expected["total"], expected["preemption"])
    assert (words.node, words.victims) == (expected.get("node", ""), expected.get("victims", 0))
    assert {reason.cure for reason in words.reasons} >= ({expected["cure"]} if "cure" in expected else set())
    assert words.whole == " ".join(row["message"].split())
    assert_says(row, *(f"{reason.reason} {reason.remedy}" for reason in words.reasons))


@pytest.mark.case("C041")
@pytest.mark.parametrize("row", rows("admission"))
def test_why_no_pod_is_made_is_told(row: Row) -> None:
    words = parse_refusal(row["message"])
    assert_means(row, words)
    assert words is not None
    for name in ("asked", "used", "hard"):
        assert row["expect"].get(name, getattr(words, name)) == getattr(words, name)


@pytest.mark.case("C038")
@pytest.mark.parametrize("row", rows("state"))
def test_why_a_container_waits_is_told(row: Row) -> None:
    assert_means(row, parse_container_wait(row["reason"], row["message"]))


@pytest.mark.parametrize("row", rows("event"))
def test_what_an_event_of_a_pod_or_claim_means_is_told(row: Row) -> None:
    assert_means(row, parse_kubelet_event(row["reason"], row["message"]))


@pytest.mark.parametrize("row", rows("autoscaler"))
def test_what_the_autoscaler_does_is_told(row: Row) -> None:
    words = parse_autoscaler(row["reason"], row["message"], row["component"])
    assert (words.state if words else None) == row["expect"]["state"]
    if words is not None:
        assert words.why == " ".join(row["message"].split())


@pytest.mark.case("C044")
@pytest.mark.parametrize("row", rows("queue"))
def test_why_the_queue_does_not_let_it_begin_is_told(row: Row) -> None:
    workload = Workload(
        name="job-train-f27a5",
        job_uid="u",
        queue="team",
        active=row["active"],
        position=row.get("position"),
        conditions=tuple(
            QueueCondition(
                type=each["type"], holds=each["status"] == "True", reason=each["reason"], message=each["message"]
            )
            for each in row["conditions"]
        ),
    )
    words = parse_queue(workload)
    assert_means(row, words)
    assert (words.admitted if words else False) == row["expect"]["admitted"]


HOSTILE = (
    "a",
    "{",
    '"',
    ", 1 a",
    ". ",
    "\0",
    "flavor ",
    "untolerated taint x in flavor ",
    "insufficient unused quota for a in flavor b, ",
    "maximum x usage per y is 1",
    'admission webhook "a" denied the request: ',
    "x max limit to request ratio per ",
    "rpc error: code = x desc = ",
    'Failed to pull image "a": ',
    "exec: ",
    'exec: "',
    'failed to resolve reference "a": ',
    "reading manifest ",
    " lease ",
    "service unavailabl",
    "ValidatingAdmissionPolicy 'a' denied request: ",
    "LimitRange constraints: ",
    "0/1 nodes are available: ",
)
SOME = st.text(max_size=60) | st.sampled_from(HOSTILE) | st.sampled_from([row["message"] for row in TABLE])
TEXTS = st.lists(SOME, max_size=4).map("".join)
REASONS = st.sampled_from(sorted({row["reason"] for row in TABLE})) | st.text(max_size=12)


def everything_said(reason: str, text: str) -> Iterator[str]:
    """Give what every parser makes of a text, as texts that a person reads."""
    workload = Workload(
        name="w",
        job_uid="u",
        queue=text,
        conditions=(
            QueueCondition(type="Evicted", holds=True, reason=reason, message=text),
            QueueCondition(type="QuotaReserved", holds=False, reason=reason, message=text),
        ),
    )
    scheduler = parse_scheduler(text)
    if scheduler is not None:
        yield scheduler.whole
        for each in scheduler.reasons:
            yield from (each.reason, each.remedy, each.said)
    for words in (
        parse_refusal(text),
        parse_container_wait(reason, text),
        parse_kubelet_event(reason, text),
        parse_queue(workload),
        parse_queue(replace(workload, conditions=workload.conditions[1:])),
    ):
        if words is not None:
            yield from (words.summary, words.remedy)
    autoscaler = parse_autoscaler(reason, text, reason)
    if autoscaler is not None:
        yield autoscaler.why


@given(REASONS, TEXTS)
def test_any_text_is_read_and_told_in_printable_words_of_bounded_length(reason: str, text: str) -> None:
    for told in everything_said(reason, text):
        assert told.isprintable()
        assert len(told) <= LONGEST


@pytest.mark.parametrize("piece", HOSTILE)
@pytest.mark.parametrize("reason", ["ErrImagePull", "RunContainerError", "FailedMount", "FailedCreatePodSandBox"])
def test_a_message_of_any_length_costs_no_more_than_its_beginning(reason: str, piece: str) -> None:
    begun = time.process_time()
    for start in ("", "0/9 nodes are available: ", "exceeded quota: a, requested: "):
        assert list(everything_said(reason, start + piece * (400_000 // len(piece))))
    assert time.process_time() - begun < MOST_SECONDS


def test_the_table_is_large_and_says_of_each_message_who_prints_it() -> None:
    assert len(TABLE) >= FEWEST
    assert all(row["product"] and row["version"] and row["component"] and row["origin"] for row in TABLE)
    speakers = Counter(map(speaker_of, TABLE))
    assert min(speakers[name] for name in ("scheduler", "admission", "state", "event", "autoscaler", "queue")) >= 20
    assert len(
        {json.dumps([row["component"], row["reason"], row["message"], row.get("conditions")]) for row in TABLE}
    ) > (len(TABLE) - 8)
