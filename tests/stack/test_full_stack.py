"""The demo, as `make demo` runs it: to its end, interrupted and killed in the middle; nothing of it stays."""

from __future__ import annotations

import json
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sandbox.process_spec import STATE_VARIABLE
from sandbox.processes import descendants, has_variables, snapshot
from sandbox.supervisor import Supervisor
from stack import database
from stack.checkout import ROOT, airflow_python
from stack.lifecycle import Stack

pytestmark = pytest.mark.stack

RUN_DEADLINE_S = 900.0
END_DEADLINE_S = 60.0
MODEL = "flight-delay"


@contextmanager
def demo(state: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Start the demo; killed at the end if it still runs."""
    command = [airflow_python(), "-m", "stack.demo", "--once", "--state", str(state), *arguments]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def read_until(process: subprocess.Popen[str], *texts: str) -> list[str]:
    """Read the demo's output until each of the texts has occurred in some line."""
    assert process.stdout is not None
    lines: list[str] = []
    deadline = time.monotonic() + RUN_DEADLINE_S
    while any(not any(text in line for line in lines) for text in texts):
        left = deadline - time.monotonic()
        readable, _, _ = select.select([process.stdout], [], [], max(0.0, left))
        line = process.stdout.readline() if readable else ""
        assert line, f"the demo said none of {texts}:\n{''.join(lines)}"
        lines.append(line)
    return lines


def left_behind(state: Path) -> list[int]:
    """Give the processes that belong to a stack: below its supervisors, or marked with its folders."""
    processes = snapshot()
    folders = [state, state / "sandbox"]
    found = {pid for pid in processes for each in folders if has_variables(pid, {STATE_VARIABLE: str(each)})}
    for each in folders:
        if supervisor := Supervisor.attach(each):
            found |= {supervisor.pid, *(child.pid for child in descendants(supervisor.pid, processes))}
    return sorted(found)


def family_of(state: Path) -> set[tuple[int, int]]:
    """Give pid and start of every process of a stack that runs."""
    processes = snapshot()
    return {(pid, processes[pid].start) for pid in left_behind(state) if pid in processes}


def assert_all_ended(state: Path, family: set[tuple[int, int]]) -> None:
    deadline = time.monotonic() + END_DEADLINE_S
    while True:
        running = {(process.pid, process.start) for process in snapshot().values()}
        alive = sorted(family & running)
        if not alive and not left_behind(state):
            return
        assert time.monotonic() < deadline, f"{alive} of {len(family)} processes still run"
        time.sleep(0.2)


@pytest.mark.timeout(RUN_DEADLINE_S)
def test_the_demo_registers_a_model_version_and_leaves_nothing(tmp_path: Path) -> None:
    state = tmp_path / "stack"
    with demo(state, "--param", "rounds=20") as process:
        said = read_until(process, "watch it at")
        family = family_of(state)
        assert {"etcd", "kube-apiserver"} <= set(Supervisor.attach(state / "sandbox").status())  # type: ignore[union-attr]
        assert process.stdout is not None
        said += process.stdout.readlines()
        assert process.wait(END_DEADLINE_S) == 0, "".join(said)
    assert len(family) > 15
    assert_all_ended(state, family)

    outcome = json.loads(said[-1])
    assert outcome["data_version"] == "2013-03-18"
    assert outcome["fingerprint"].startswith("sha256:")
    assert outcome["job"].startswith(f"{MODEL}-")
    assert (outcome["attempts"], outcome["model_version"]) == (1, "1")
    assert outcome["gpu_seconds"] > 0
    assert outcome["metrics"]["rmse"] > 0
    assert outcome["airflow_url"].startswith("http://127.0.0.1:")
    assert outcome["mlflow_url"].startswith("http://127.0.0.1:")
    steps = {"sandbox", "object_store", "data", "mlflow", "database", "airflow", "dag", "stop", "total"}
    assert steps | {"resolve", "train", "register", "clean_up"} <= outcome["seconds"].keys()
    assert any("train: progress 100% step 20/20" in line for line in said)


@pytest.mark.timeout(RUN_DEADLINE_S)
@pytest.mark.parametrize(
    ("signum", "moment"), [(signal.SIGTERM, "airflow: started"), (signal.SIGINT, "train: deferred")]
)
def test_interrupted_in_the_middle_the_demo_ends_everything(tmp_path: Path, signum: int, moment: str) -> None:
    state = tmp_path / "stack"
    with demo(state) as process:
        read_until(process, moment)
        family = family_of(state)
        process.send_signal(signum)
        assert process.stdout is not None
        said = process.stdout.readlines()
        assert process.wait(END_DEADLINE_S) == 130, "".join(said)
        assert said[-1] == "interrupted: everything is ended\n"
    assert_all_ended(state, family)


@pytest.mark.timeout(RUN_DEADLINE_S)
def test_killed_in_the_middle_the_demo_leaves_nothing_and_the_next_one_begins_anew(tmp_path: Path) -> None:
    state = tmp_path / "stack"
    with demo(state) as process:
        read_until(process, "train: deferred")
        family = family_of(state)
        process.kill()
    assert_all_ended(state, family)
    assert Stack.attach(state) is None
    with demo(state, "--model", "no-such-model") as process:
        read_until(process, "database: done")
        family = family_of(state)
        process.kill()
    assert_all_ended(state, family)
    database.remove(state)


def test_a_folder_with_other_things_in_it_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with demo(tmp_path) as process:
        said = read_until(process, "the demo failed: state folder")
        assert process.wait(END_DEADLINE_S) == 1
    assert "holds other things than a stack's: give an empty or new folder" in said[-1]
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.txt"]
