"""What a training says reaches the task log: live, each line once, whatever breaks; and never fails the training."""

from __future__ import annotations

import pytest
from tests.cluster.trainings import (
    RESULT,
    SUCCEED,
    TaskInstance,
    TaskLogRecord,
    defer,
    fire,
    operator,
    recorded,
    spec,
)
from tests.fake_mlflow import FakeMlflow

from sandbox.manifests import NAMESPACE
from sandbox.proxy import FaultyProxy
from sandbox.proxy_script import Action, Rule, Stream

pytestmark = pytest.mark.cluster

LEAVE_RESULT = f"echo '{RESULT}' > /dev/termination-log"


def log_of(script: str, **changes: object) -> tuple[str, TaskLogRecord]:
    """Train, and give how it ended and the task log."""
    trigger = recorded(defer(operator(spec(NAMESPACE, script), **changes), TaskInstance()))
    return fire(trigger)["kind"], trigger.record


@pytest.mark.case("C060")
@pytest.mark.case("C061")
@pytest.mark.case("C062")
@pytest.mark.case("C069")
def test_a_thousand_lines_arrive_once_each_though_the_stream_is_cut_again_and_again(proxy: FaultyProxy) -> None:
    proxy.follow(Rule(action=Action.CUT, stream=Stream.LOG, after_s=0.3))
    say = "import time\nfor n in range(1, 1001): print('line', n, 'of the log'); time.sleep(0.008)"
    kind, log = log_of(f'python3 -c "{say}"; {LEAVE_RESULT}')

    assert kind == "succeeded"
    assert log.about(" of the log") == [f"line {n} of the log" for n in range(1, 1001)]
    assert proxy.asked("/log?") > 5


@pytest.mark.case("C059")
def test_the_last_words_of_a_training_that_fails_at_once_are_told(connected: FakeMlflow) -> None:
    kind, log = log_of("echo boom; exit 1")

    assert kind == "failed"
    assert log.lines.index("boom") < log.lines.index(log.about("failed: ")[-1])


@pytest.mark.case("C065")
@pytest.mark.case("C067")
def test_odd_bytes_carriage_returns_and_colours_survive(connected: FakeMlflow) -> None:
    script = (
        r"printf 'bad \306 byte\n\n'; printf '10%%\r20%%\r30%%\n'; "
        r"printf '\033[31mred\033[0m \033[2K\rdone\n'; printf 'no line end'; " + LEAVE_RESULT
    )
    kind, log = log_of(script)

    assert kind == "succeeded"
    assert "bad \\xc6 byte" in log.lines
    assert "" in log.lines
    assert "30%" in log.lines
    assert "done" in log.lines
    assert "no line end" in log.lines


@pytest.mark.case("C067")
def test_a_giant_line_is_cut_with_a_mark(connected: FakeMlflow) -> None:
    kind, log = log_of(f"python3 -c 'print(\"x\" * 300_000)'; echo after; {LEAVE_RESULT}")

    assert kind == "succeeded"
    (giant,) = log.about("xxx")
    assert len(giant) < 20_000
    assert "cut" in giant
    assert "after" in log.lines


@pytest.mark.case("C067")
def test_a_progress_bar_that_never_ends_its_line_leaves_its_last_state(connected: FakeMlflow) -> None:
    bar = "import sys\nfor n in range(20_001): sys.stdout.write(f'\\r{n}/20000 [' + '#' * 40 + ']')"
    kind, log = log_of(f'python3 -c "{bar}"; {LEAVE_RESULT}')

    assert kind == "succeeded"
    assert log.about("/20000 [") == ["20000/20000 [" + "#" * 40 + "]"]


@pytest.mark.case("C064")
def test_a_log_of_many_mebibytes_is_told_to_its_end(connected: FakeMlflow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__GPU_TRAINING__LOG_BURST_LINES", "50000")
    monkeypatch.setenv("AIRFLOW__GPU_TRAINING__LOG_BURST_KIB", "65536")
    say = "for n in range(1, 40_001): print(n, 'x' * 200)"
    kind, log = log_of(f'python3 -c "{say}"; {LEAVE_RESULT}')

    assert kind == "succeeded"
    assert log.about(" " + "x" * 200) == [f"{n} {'x' * 200}" for n in range(1, 40_001)]


@pytest.mark.case("C071")
def test_init_containers_are_heard_too(connected: FakeMlflow) -> None:
    init = {
        "name": "download",
        "image": "sandbox-shell:1",
        "command": ["sh", "-c", "echo fetched"],
        "resources": {"limits": {"memory": "32Mi"}},
    }
    job = {"spec": {"template": {"spec": {"containers": [], "initContainers": [init]}}}}
    _, log = log_of(SUCCEED, full_job_spec=job)

    assert log.lines.index("fetched") < log.lines.index("hello")


def test_progress_lines_become_words(connected: FakeMlflow) -> None:
    line = 'GPU_TRAINING_PROGRESS {"v":1,"step":%d,"total":4,"loss":0.5}'
    script = "; ".join([*(f"echo '{line % step}'" for step in range(1, 5)), LEAVE_RESULT])
    _, log = log_of(script)

    assert log.about("GPU_TRAINING_PROGRESS") == []
    assert log.about("progress ")[-1] == "progress 100% step 4/4 loss 0.5"


@pytest.mark.case("C064")
def test_logs_can_be_turned_off(connected: FakeMlflow) -> None:
    kind, log = log_of(SUCCEED, get_logs=False)

    assert kind == "succeeded"
    assert "hello" not in log.lines


UNREADABLE = [
    Rule(action=Action.ANSWER, status=403, path="/log"),
    Rule(action=Action.ANSWER, status=500, path="/log"),
    Rule(action=Action.RESET, path="/log"),
    Rule(action=Action.STALL, path="/log"),
]


@pytest.mark.case("C062")
@pytest.mark.parametrize("rule", UNREADABLE, ids=["forbidden", "error", "reset", "silence"])
def test_logs_that_can_not_be_read_do_not_fail_the_training(proxy: FaultyProxy, rule: Rule) -> None:
    proxy.follow(rule)
    kind, log = log_of(SUCCEED)

    assert kind == "succeeded"
    assert log.about("log")
