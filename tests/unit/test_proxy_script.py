"""A script says which requests fail and how, in what order, and is told off where it makes no sense."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.errors import SandboxError
from sandbox.proxy_script import Action, Rule, Script, Stream, stream_of

pytestmark = pytest.mark.unit

JOBS = "/apis/batch/v1/namespaces/ml/jobs"


def statuses(script: Script, requests: int) -> list[int | None]:
    decided = [script.decide("GET", JOBS) for _ in range(requests)]
    return [rule and rule.status for rule in decided]


def test_rules_take_turns_and_then_all_passes() -> None:
    script = Script(
        [
            Rule(action=Action.ANSWER, status=500, count=2),
            Rule(action=Action.ANSWER, status=429, count=1),
        ]
    )
    assert statuses(script, 5) == [500, 500, 429, None, None]


def test_the_nth_request_and_some_after_it_are_meant() -> None:
    assert statuses(Script([Rule(action=Action.ANSWER, status=503, nth=2, count=2)]), 5) == [None, 503, 503, None, None]
    assert statuses(Script([Rule(action=Action.ANSWER, status=503, nth=3)]), 5) == [None, None, 503, 503, 503]


@given(nth=st.integers(1, 20), count=st.none() | st.integers(1, 20), requests=st.integers(0, 60))
def test_a_rule_acts_as_often_as_it_says(nth: int, count: int | None, requests: int) -> None:
    script = Script([Rule(action=Action.RESET, nth=nth, count=count)])
    acted = [script.decide("GET", "/") is not None for _ in range(requests)]
    due = max(0, requests - nth + 1)
    assert sum(acted) == (due if count is None else min(due, count))
    assert not any(acted[: nth - 1])


@pytest.mark.parametrize(
    ("method", "target", "stream"),
    [
        ("GET", f"{JOBS}?watch=true&resourceVersion=7", Stream.WATCH),
        ("GET", f"{JOBS}?watch=1", Stream.WATCH),
        ("GET", f"{JOBS}?watch=false", None),
        ("GET", "/api/v1/namespaces/ml/pods/p/log?follow=true", Stream.LOG),
        ("GET", "/api/v1/namespaces/ml/pods/p/log", None),
        ("POST", f"{JOBS}?watch=true", None),
    ],
)
def test_watches_and_followed_logs_are_told_from_plain_answers(method: str, target: str, stream: Stream | None) -> None:
    assert stream_of(method, target) is stream
    assert Rule(action=Action.RESET, stream=Stream.WATCH).matches(method, target) is (stream is Stream.WATCH)


@pytest.mark.parametrize(
    ("rule", "method", "matches"),
    [
        (Rule(action=Action.RESET), "GET", True),
        (Rule(action=Action.RESET, method="POST"), "GET", False),
        (Rule(action=Action.RESET, path=r"/jobs$"), "GET", True),
        (Rule(action=Action.RESET, path=r"/pods"), "GET", False),
    ],
)
def test_a_rule_speaks_of_method_and_path(rule: Rule, method: str, matches: bool) -> None:
    assert rule.matches(method, JOBS) is matches


def test_an_answer_is_a_status_as_the_api_server_words_it() -> None:
    document = Rule(action=Action.ANSWER, status=429, retry_after_s=3).status_document()
    assert (document["kind"], document["reason"], document["code"]) == ("Status", "TooManyRequests", 429)
    assert document["details"] == {"retryAfterSeconds": 3}
    assert Rule(action=Action.EXPIRE).status_document()["code"] == 410


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({}, "action is missing; it is one of forward, answer"),
        ({"action": "explode"}, "action is 'explode'; known are forward, answer"),
        ({"action": "reset", "stream": "exec"}, "stream is 'exec'; known are watch, log"),
        ({"action": "reset", "color": "red"}, "unknown key 'color'"),
        ({"action": "answer"}, "action answer needs status"),
        ({"action": "answer", "status": 200}, "status is 200: give one from 400 to 599"),
        ({"action": "cut"}, "action cut needs either after_bytes or after_s"),
        ({"action": "cut", "after_bytes": 1, "after_s": 1}, "action cut needs either"),
        ({"action": "reset", "status": 500}, "status means nothing to action reset"),
        ({"action": "reset", "nth": 0}, "nth is 0: give a number from 1 up"),
        ({"action": "reset", "path": "("}, "path '\\(' is no regular expression"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(document: dict[str, Any], message: str) -> None:
    with pytest.raises(SandboxError, match=message):
        Rule.from_document(document)
