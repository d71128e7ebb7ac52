"""What a pod's log says about its end, kept in bounded memory whatever it prints."""

from __future__ import annotations

from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_training.core import log_matcher
from gpu_training.core.contract_lines import progress_in
from gpu_training.core.log_matcher import LONGEST_LINE, LogMatcher
from gpu_training.core.text_pattern import fits, occurs
from gpu_training.rule_table import built_in_rules

pytestmark = pytest.mark.core

XID = "[ 12.5] NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus."
ECC = "RuntimeError: CUDA error: uncorrectable ECC error encountered"
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB."
TIMEOUT = "[rank0]:[E] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7) ran for 600 ms"
PROGRESS = 'GPU_TRAINING_PROGRESS {"v":1,"step":5,"total":10}'


def found(*lines: str) -> str | None:
    matcher = LogMatcher(built_in_rules())
    for line in lines:
        matcher.feed_all("p", [line])
    return matcher.findings.get("p")


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        (XID, "gpu-hardware"),
        (ECC, "gpu-hardware"),
        ("CUDA error: an ECC error that can be corrected no more", "gpu-hardware"),
        (OOM, "cuda-out-of-memory"),
        ("std::bad_alloc: cudaErrorMemoryAllocation: out of memory", "cuda-out-of-memory"),
        (TIMEOUT, "communication-timeout"),
        ("NCCL error: socket timed out", "communication-timeout"),
        ("KeyError: 'dep_delay'", None),
        ("cuda OUT OF MEMORY", None),
        ("NCCL WARN", None),
        ("", None),
    ],
)
def test_a_line_tells_a_rule(line: str, rule: str | None) -> None:
    assert found(line) == rule


@pytest.mark.parametrize("lines", [[XID, TIMEOUT], [TIMEOUT, XID], [TIMEOUT, OOM, "x", XID, OOM]])
def test_of_several_the_first_of_the_table_counts_in_whatever_order_they_were_said(lines: list[str]) -> None:
    """A broken GPU makes the ranks time out, and which of the two is printed first is chance."""
    assert found(*lines) == "gpu-hardware"


def test_a_program_that_makes_progress_was_not_ended_by_what_it_said_before() -> None:
    assert found(OOM, "with half the batch", PROGRESS) is None
    assert found(OOM, PROGRESS, TIMEOUT) == "communication-timeout"
    assert found(OOM, f"INFO:root:{PROGRESS}") is None
    assert found(OOM, PROGRESS.replace('"v":1', '"v":2')) is None


def test_a_line_of_source_that_would_print_progress_is_none() -> None:
    assert found(OOM, """  print(f"GPU_TRAINING_PROGRESS {json.dumps(body)}")""") == "cuda-out-of-memory"


def test_each_pod_has_its_own_finding() -> None:
    matcher = LogMatcher(built_in_rules())
    for pod, line in [("a", OOM), ("b", "fine"), ("c", XID), ("a", "more"), ("b", PROGRESS)]:
        matcher.feed_all(pod, [line])
    assert matcher.findings == {"a": "cuda-out-of-memory", "c": "gpu-hardware"}


def test_only_the_beginning_of_an_endless_line_is_looked_at() -> None:
    assert found("x" * (LONGEST_LINE - len(OOM)) + OOM) == "cuda-out-of-memory"
    assert found("x" * LONGEST_LINE + OOM) is None


def test_findings_of_many_pods_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_matcher, "MOST_PODS", 3)
    matcher = LogMatcher(built_in_rules())
    for n in range(10):
        matcher.feed_all(f"p-{n}", [OOM])
    assert list(matcher.findings) == ["p-7", "p-8", "p-9"]


said = st.sampled_from(
    [
        XID,
        ECC,
        OOM,
        TIMEOUT,
        PROGRESS,
        f"[rank0]: {PROGRESS}",
        f"x {PROGRESS}",
        f"{PROGRESS} x",
        "NCCL WARN",
        "NCCL timed out",
        "words",
        "",
    ]
) | st.text(max_size=5)


@given(st.lists(st.tuples(st.sampled_from("ab"), said), max_size=15), st.booleans())
def test_many_lines_at_once_tell_what_they_tell_one_by_one(lines: list[tuple[str, str]], stamped: bool) -> None:
    """The reference looks for every pattern in every line."""
    ranks: dict[str, int] = {}
    rules = list(built_in_rules())
    for pod, line in lines:
        if progress_in(line) is not None:
            ranks.pop(pod, None)
        for rank, rule in enumerate(rules):
            if any(occurs(pattern, line) for pattern in rule.log_patterns):
                ranks[pod] = min(rank, ranks.get(pod, rank))
    one_by_one, at_once = LogMatcher(built_in_rules()), LogMatcher(built_in_rules())
    for pod, line in lines:
        one_by_one.feed_all(pod, [line])
    for pod, group in groupby(lines, key=lambda each: each[0]):
        texts = [line for _, line in group]
        if stamped:
            behind = [f"2026-11-30T19:24:20Z {line}" for line in texts]
            at_once.feed_all(pod, behind, joined="\n".join(behind), text_of=lambda line: line.partition(" ")[2])
        else:
            at_once.feed_all(pod, texts)
    assert one_by_one.findings == at_once.findings == {pod: rules[rank].name for pod, rank in ranks.items()}


def test_a_stamp_takes_no_room_of_the_beginning_of_a_line_that_is_looked_at() -> None:
    matcher = LogMatcher(built_in_rules())
    line = "2026-11-30T19:24:20Z " + "x" * (LONGEST_LINE - len(OOM)) + OOM
    matcher.feed_all("p", [line], text_of=lambda line: line.partition(" ")[2])
    assert matcher.findings == {"p": "cuda-out-of-memory"}
    matcher.feed_all("q", [line.replace("x", "xx")], text_of=lambda line: line.partition(" ")[2])
    assert "q" not in matcher.findings


def test_what_another_found_is_kept_beside_what_is_found() -> None:
    matcher = LogMatcher(built_in_rules())
    matcher.feed_all("a", [OOM])
    matcher.feed_all("b", [XID])
    matcher.recall({"a": "gpu-hardware", "b": "cuda-out-of-memory", "c": "communication-timeout", "d": "no-rule"})
    assert matcher.findings == {"a": "gpu-hardware", "b": "gpu-hardware", "c": "communication-timeout"}


def test_what_was_found_is_no_window_into_the_matcher() -> None:
    matcher = LogMatcher(built_in_rules())
    before = matcher.findings
    matcher.feed_all("p", [OOM])
    assert before == {}


# The patterns.


@pytest.mark.parametrize(
    ("pattern", "text", "whole", "part"),
    [
        ("abc", "abc", True, True),
        ("abc", "xabcx", False, True),
        ("abc", "ab", False, False),
        ("a*c", "abbc", True, True),
        ("a*c", "ac", True, True),
        ("a*c", "xacx", False, True),
        ("*", "", True, True),
        ("*", "anything", True, True),
        ("a*", "abc", True, True),
        ("*c", "abc", True, True),
        ("*b*", "abc", True, True),
        ("a*b*a", "aba", True, True),
        ("a*a", "a", False, False),
        ("ab*ba", "aba", False, False),
        ("a**b", "axb", True, True),
        ("a.c", "abc", False, False),
        ("(a+)+$", "aaaa", False, False),
        ("OutOf*", "OutOfnvidia.com/gpu", True, True),
    ],
)
def test_a_star_stands_for_any_text_and_all_else_for_itself(pattern: str, text: str, whole: bool, part: bool) -> None:
    assert (fits(pattern, text), occurs(pattern, text)) == (whole, part)


letters = st.text(alphabet="ab*", max_size=8)


@given(letters, st.text(alphabet="ab", max_size=3), st.text(alphabet="ab", max_size=3), st.data())
def test_a_pattern_fits_whatever_its_stars_are_replaced_by(
    pattern: str, left: str, right: str, data: st.DataObject
) -> None:
    fillings = st.text(alphabet="ab", max_size=3)
    text = "".join(data.draw(fillings) if character == "*" else character for character in pattern)
    assert fits(pattern, text)
    assert occurs(pattern, left + text + right)
    assert fits(f"*{pattern}*", left + text + right)


@given(letters, letters, st.data())
def test_what_one_pattern_finds_in_another_it_finds_in_all_that_the_other_describes(
    one: str, other: str, data: st.DataObject
) -> None:
    text = "".join(data.draw(st.text(alphabet="ab", max_size=3)) if c == "*" else c for c in other)
    assert not fits(one, other) or fits(one, text)
    assert not occurs(one, other) or occurs(one, text)


@given(letters, st.text(alphabet="ab", max_size=12))
def test_a_part_is_a_whole_between_any_others(pattern: str, text: str) -> None:
    assert occurs(pattern, text) is fits(f"*{pattern}*", text)
