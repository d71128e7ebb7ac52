"""A report in words: one line that stays the same while nothing changes, a table, and a small document."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.core.damage import anything, damaged
from tests.unit.core.kubernetes_documents import moment

from gpu_training.core.pending_cause import Cause, Cure
from gpu_training.core.pending_document import LONGEST, from_document, to_document
from gpu_training.core.pending_report import GpuHolder, NodeCount, Report
from gpu_training.core.pending_text import holder_text, line, table, time_text

pytestmark = pytest.mark.core

SOON = GpuHolder(who="pod nightly-x of model flight-delay", node="g5-1", gpus=2, ends_by=moment(3600))
ENDLESS = GpuHolder(who="pod notebook in namespace research", node="g5-2", gpus=1)
REPORT = Report(
    cause=Cause.GPUS_TAKEN,
    cure=Cure.WAITING,
    summary="Waiting for 2 GPUs: all 8 nvidia.com/gpu of 4 matching nodes are taken.",
    remedy="It starts when others have ended. No autoscaler is there to add nodes.",
    subject="pod flight-delay-x7k2p",
    nodes=(
        NodeCount(reason="has less than 2 nvidia.com/gpu free", count=4, cause=Cause.GPUS_TAKEN),
        NodeCount(reason="no known words", count=1),
    ),
    nearest="1 GPU would fit now on g5-3",
    holders=(SOON, ENDLESS),
    words="0/5 nodes are available: 4 Insufficient nvidia.com/gpu.",
    hidden=("pods of other namespaces: the account may not list them",),
)


def test_a_line_says_what_who_what_else_and_what_to_do() -> None:
    assert line(REPORT) == (
        "Waiting for 2 GPUs: all 8 nvidia.com/gpu of 4 matching nodes are taken (pod nightly-x of model flight-delay "
        "holds 2 GPUs on g5-1 until 2026-11-30 20:24 UTC at the latest, and 1 more). 1 GPU would fit now on g5-3. It "
        "starts when others have ended. No autoscaler is there to add nodes. Not looked at: pods of other namespaces: "
        "the account may not list them."
    )


def test_a_line_leaves_out_what_is_not_known() -> None:
    bare = Report(cause=Cause.UNSCHEDULABLE, cure=Cure.WAITING, summary="it says: no", remedy="read it")
    assert line(bare) == "It says: no. Read it."


def test_a_table_has_everything() -> None:
    assert table(REPORT, moment(0)) == [
        "cause         gpus_taken (waiting can cure it)",
        "what waits    pod flight-delay-x7k2p",
        "why           Waiting for 2 GPUs: all 8 nvidia.com/gpu of 4 matching nodes are taken.",
        "would fit     1 GPU would fit now on g5-3",
        "remedy        It starts when others have ended. No autoscaler is there to add nodes.",
        "nodes             4  has less than 2 nvidia.com/gpu free",
        "                  1  no known words",
        "held by           2  g5-1  pod nightly-x of model flight-delay, until 2026-11-30 20:24 UTC at the latest "
        "(in 60 min)",
        "                  1  g5-2  pod notebook in namespace research, no end known",
        "in its words  0/5 nodes are available: 4 Insufficient nvidia.com/gpu.",
        "not looked at pods of other namespaces: the account may not list them",
    ]


@pytest.mark.parametrize("ends_by", [None, float("inf"), float("nan"), -1.0, 1e300])
def test_a_time_that_is_none_is_not_shown(ends_by: float | None) -> None:
    assert time_text(ends_by) == ""
    assert holder_text(replace(SOON, ends_by=ends_by)) == "pod nightly-x of model flight-delay holds 2 GPUs on g5-1"


def test_a_document_gives_the_report_back() -> None:
    document = json.loads(json.dumps(to_document(REPORT)))
    assert from_document(document) == REPORT
    assert (document["v"], document["cause"], document["curable"]) == (1, "gpus_taken", True)


texts = st.text(max_size=30) | st.sampled_from(["x" * 3000, "😀" * 900, "\n\ud800"])
counts = st.builds(NodeCount, reason=texts, count=st.integers(0, 10**6), cause=st.none() | st.sampled_from(Cause))
holders = st.builds(GpuHolder, who=texts, node=texts, gpus=st.integers(0, 64), ends_by=st.none() | st.floats())
reports = st.builds(
    Report,
    cause=st.sampled_from(Cause),
    cure=st.sampled_from(Cure),
    summary=texts,
    remedy=texts,
    subject=texts,
    nodes=st.lists(counts, max_size=12).map(tuple),
    nearest=texts,
    holders=st.lists(holders, max_size=12).map(tuple),
    words=texts,
    hidden=st.lists(texts, max_size=9).map(tuple),
)


@given(reports, st.floats())
def test_any_report_is_written_in_little_room(report: Report, now: float) -> None:
    text = json.dumps(to_document(report), allow_nan=False)
    assert len(text) <= LONGEST
    read = from_document(json.loads(text))
    assert read is not None
    assert (read.cause, read.cure) == (report.cause, report.cure)
    assert to_document(read) == json.loads(text)
    assert line(report).isprintable()
    assert len(line(report)) <= 1500
    assert all(row.isprintable() for row in table(report, now))


@pytest.mark.parametrize("document", [None, [], {}, {"v": 2}, {"v": 1}, {"v": 1, "cause": "x", "cure": "never"}, "{}"])
def test_another_document_is_no_report(document: object) -> None:
    assert from_document(document) is None


@given(damaged(to_document(REPORT)) | anything)
def test_a_damaged_document_is_a_report_or_none(document: object) -> None:
    report = from_document(document)
    assert report is None or (line(report) is not None and table(report, 0.0))
