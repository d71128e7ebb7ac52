"""Logs as the API server gives them: parts, growth, and the words where there is none."""

from __future__ import annotations

import pytest
from tests.contract.pods import Pods, state_of

from sandbox.api import ApiError


def test_log_gives_what_is_asked_for(pods: Pods) -> None:
    name = pods.create("printf 'one\\ntwo\\rstill two\\n'; sleep 1.1; printf '\\377\\n'; printf end")
    pods.ended(name)
    assert pods.log(name) == "one\ntwo\rstill two\n\ufffd\nend"
    assert pods.log(name, tailLines="2") == "\ufffd\nend"
    assert pods.log(name, tailLines="0") == ""
    assert pods.log(name, limitBytes="5") == "one\nt"
    stamped = pods.log(name, timestamps="true").split("\n")
    assert [line.split(" ", 1)[1] for line in stamped] == ["one", "two\rstill two", "\ufffd", "end"]
    assert pods.log(name, sinceTime=stamped[2].split(" ")[0]) == "\ufffd\nend"
    assert pods.log(name, sinceSeconds="300") == pods.log(name)


def test_log_follows_a_running_container_to_its_end(pods: Pods) -> None:
    name = pods.create("for n in 1 2 3 4 5; do echo line $n; sleep 0.2; done")
    pods.running(name)
    assert pods.log(name, follow="true") == "".join(f"line {n}\n" for n in range(1, 6))


def test_long_line_comes_whole(pods: Pods) -> None:
    name = pods.create("head -c 40000 /dev/zero | tr '\\0' x; echo; echo next")
    pods.ended(name)
    assert pods.log(name) == "x" * 40000 + "\nnext\n"
    assert pods.log(name, tailLines="1") == "next\n"


def test_log_that_is_not_there_is_an_error_in_the_kubelet_s_words(pods: Pods) -> None:
    waiting = pods.create(volumes=[{"name": "v", "configMap": {"name": "never-made"}}])
    once = pods.create("echo once")
    pods.wait(waiting, state_of)
    with pytest.raises(ApiError, match=f'container "main" in pod "{waiting}" is waiting to start: ContainerCreating'):
        pods.log(waiting)
    pods.ended(once)
    for name in (waiting, once):
        words = f'previous terminated container "main" in pod "{name}" not found'
        with pytest.raises(ApiError, match=f"400: {words}"):
            pods.log(name, previous="true")
