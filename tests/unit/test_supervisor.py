"""Real processes: none is ever left behind, whoever dies and however."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from sandbox.processes import Process, descendants, is_alive, read_process, snapshot
from sandbox.supervision import WATCH_S
from sandbox.supervisor import STATE_VARIABLE, ProcessSpec, Supervisor, SupervisorError, clean_stale

pytestmark = pytest.mark.unit

T = TypeVar("T")
DEADLINE_S = 20.0
ENVIRONMENT = {"PATH": os.environ["PATH"]}

DAEMON = """
import os, pathlib, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        pathlib.Path(sys.argv[1] + ".new").write_text(str(os.getpid()))
        os.rename(sys.argv[1] + ".new", sys.argv[1])
        time.sleep(600)
    os._exit(0)
time.sleep(600)
"""
"""A child whose grandchild loses its parent, its session and its process group."""

CONTAINER = """
import os, pathlib, subprocess, sys, time
if os.fork() == 0:
    os.setsid()
    sleeper = subprocess.Popen(["sleep", "600"], env={}, start_new_session=True)
    pathlib.Path(sys.argv[1] + ".new").write_text(str(sleeper.pid))
    os.rename(sys.argv[1] + ".new", sys.argv[1])
time.sleep(600)
"""
"""A grandchild in a session of its own that starts a process with a clean environment, in one of its own too."""

TERM_IGNORED = """
import pathlib, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
pathlib.Path(sys.argv[1]).write_text("ready")
time.sleep(600)
"""

OWNER = """
import json, os, pathlib, signal, sys, time
from sandbox.supervisor import ProcessSpec, Supervisor
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs inherit that it is ignored
folder = pathlib.Path(sys.argv[1])
supervisor = Supervisor.start(folder, owner_pid=os.getpid())
pid = supervisor.run(ProcessSpec(name="sleeper", argv=("sleep", "600"), environment={"PATH": os.environ["PATH"]},
                                 log=folder / "sleeper.log"))
print(json.dumps({"pid": pid, "supervisor": supervisor.pid}), flush=True)
time.sleep(600)
"""


def until(condition: Callable[[], T], what: str) -> T:
    deadline = time.monotonic() + DEADLINE_S
    while not (value := condition()):
        assert time.monotonic() < deadline, f"after {DEADLINE_S} s: {what}"
        time.sleep(0.01)
    return value


def identity(pid: int) -> Process:
    process = read_process(pid)
    assert process is not None, f"process {pid} should run"
    return process


def runs(process: Process) -> bool:
    return is_alive(process.pid, process.start)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "state"
    yield folder
    if folder.exists():
        if supervisor := Supervisor.attach(folder):
            supervisor.shutdown()
        clean_stale(folder)


@pytest.fixture
def supervisor(folder: Path) -> Supervisor:
    return Supervisor.start(folder, owner_pid=os.getpid())


def spec(folder: Path, name: str, *argv: str, grace_s: float = 5.0) -> ProcessSpec:
    log = folder / "logs" / f"{name}.log"
    return ProcessSpec(name=name, argv=argv, environment=ENVIRONMENT, log=log, grace_s=grace_s)


def start_daemon(supervisor: Supervisor) -> tuple[Process, Process]:
    """Give a direct child and its daemonised grandchild."""
    note = supervisor.folder / "grandchild.pid"
    child = supervisor.run(spec(supervisor.folder, "parent", sys.executable, "-c", DAEMON, str(note)))
    return identity(child), identity(int(until(lambda: note.exists() and note.read_text(), "no grandchild")))


def test_children_and_daemonised_grandchildren_are_gone_after_shutdown(supervisor: Supervisor) -> None:
    child, grandchild = start_daemon(supervisor)
    supervisor.shutdown()
    assert not runs(child)
    assert not runs(grandchild)
    assert read_process(supervisor.pid) is None
    assert Supervisor.attach(supervisor.folder) is None


def test_children_and_grandchildren_are_gone_after_kill_9_of_the_owner(folder: Path) -> None:
    environment = os.environ | {"PYTHONPATH": str(Path(sys.modules["sandbox"].__path__[0]).parent)}
    owner = subprocess.Popen([sys.executable, "-c", OWNER, str(folder)], stdout=subprocess.PIPE, env=environment)
    assert owner.stdout is not None
    pids = json.loads(owner.stdout.readline())
    everything = [identity(pid) for pid in pids.values()]
    owner.kill()
    # Not read yet, so a zombie: an owner in that state counts as gone, since test runners may read it late.
    until(lambda: not any(map(runs, everything)), "what a killed owner had started still runs")
    owner.communicate()


def test_direct_children_die_with_a_killed_supervisor_and_the_rest_at_the_next_start(supervisor: Supervisor) -> None:
    child, grandchild = start_daemon(supervisor)
    os.kill(supervisor.pid, signal.SIGKILL)
    until(lambda: not runs(child), "a direct child outlived its supervisor")
    assert runs(grandchild)
    again = Supervisor.start(supervisor.folder, owner_pid=os.getpid())
    assert not runs(grandchild)
    assert again.status() == {}


def test_leftovers_that_destroyed_their_environment_are_known_by_their_session(supervisor: Supervisor) -> None:
    script = "env -i sleep 600 & echo $! > note.new; mv note.new note; wait"
    supervisor.run(spec(supervisor.folder, "shell", "sh", "-c", script))
    note = supervisor.folder / "note"
    sleeper = identity(int(until(lambda: note.exists() and note.read_text(), "no sleeper")))
    os.kill(supervisor.pid, signal.SIGKILL)
    until(lambda: read_process(supervisor.pid) is None, "the supervisor outlived SIGKILL")
    assert runs(sleeper)
    assert clean_stale(supervisor.folder) == [sleeper.pid]
    assert not runs(sleeper)


def test_leftovers_take_along_what_they_started_with_a_clean_environment(supervisor: Supervisor) -> None:
    note = supervisor.folder / "note"
    supervisor.run(spec(supervisor.folder, "agent", sys.executable, "-c", CONTAINER, str(note)))
    sleeper = identity(int(until(lambda: note.exists() and note.read_text(), "no sleeper")))
    os.kill(supervisor.pid, signal.SIGKILL)
    until(lambda: read_process(supervisor.pid) is None, "the supervisor outlived SIGKILL")
    assert runs(sleeper)
    clean_stale(supervisor.folder)
    assert not runs(sleeper)


def test_cleaning_ends_nothing_that_is_not_of_this_folder(tmp_path: Path) -> None:
    stranger = subprocess.Popen(["sleep", "600"], env=ENVIRONMENT | {STATE_VARIABLE: str(tmp_path / "other")})
    assert clean_stale(tmp_path) == []
    assert stranger.poll() is None
    stranger.kill()
    stranger.wait()


def test_cleaning_leaves_a_living_supervisor_alone(supervisor: Supervisor) -> None:
    child = identity(supervisor.run(spec(supervisor.folder, "sleeper", "sleep", "600")))
    assert clean_stale(supervisor.folder) == []
    assert runs(child)


def test_everything_ends_when_the_state_folder_is_removed(supervisor: Supervisor) -> None:
    child, grandchild = start_daemon(supervisor)
    shutil.rmtree(supervisor.folder)
    until(lambda: not runs(child) and not runs(grandchild), "processes outlived their state folder")
    until(lambda: read_process(supervisor.pid) is None, "the supervisor outlived its folder")


def test_restart_runs_the_same_spec_anew(supervisor: Supervisor) -> None:
    first = identity(supervisor.run(spec(supervisor.folder, "sleeper", "sleep", "600")))
    second = identity(supervisor.restart("sleeper"))
    assert not runs(first)
    assert runs(second)
    assert supervisor.status()["sleeper"].pid == second.pid


def test_a_restart_of_one_process_alone_leaves_what_it_started_and_a_later_stop_ends_that_too(
    supervisor: Supervisor,
) -> None:
    child, grandchild = start_daemon(supervisor)
    again = identity(supervisor.restart("parent", alone=True))
    assert [runs(each) for each in (child, grandchild, again)] == [False, True, True]
    supervisor.stop("parent")
    assert [runs(each) for each in (grandchild, again)] == [False, False]


def test_a_released_supervisor_outlives_its_owner(folder: Path) -> None:
    owner = subprocess.Popen(["sleep", "600"])
    supervisor = Supervisor.start(folder, owner_pid=owner.pid)
    child = identity(supervisor.run(spec(folder, "sleeper", "sleep", "600")))
    supervisor.release()
    owner.kill()
    owner.wait()
    looked = time.monotonic() + 3 * WATCH_S
    until(lambda: time.monotonic() > looked, "three looks at its owner")
    assert runs(child)


def test_a_process_that_can_not_be_written_down_is_not_left_running(supervisor: Supervisor) -> None:
    (supervisor.folder / "supervisor.json.new").mkdir()
    with pytest.raises(SupervisorError, match=r"Is a directory: 'supervisor\.json\.new'"):
        supervisor.run(spec(supervisor.folder, "sleeper", "sleep", "600"))
    assert supervisor.status() == {}
    until(lambda: not descendants(supervisor.pid, snapshot()), "the process runs on")


def test_stop_ends_one_process_and_all_that_it_started(supervisor: Supervisor) -> None:
    other = identity(supervisor.run(spec(supervisor.folder, "other", "sleep", "600")))
    child, grandchild = start_daemon(supervisor)
    supervisor.stop("parent")
    assert not runs(child)
    assert not runs(grandchild)
    assert runs(other)
    assert supervisor.status()["parent"].exit_code == -signal.SIGTERM


def test_a_removed_process_is_forgotten(supervisor: Supervisor) -> None:
    child = identity(supervisor.run(spec(supervisor.folder, "sleeper", "sleep", "600")))
    supervisor.remove("sleeper")
    assert not runs(child)
    assert supervisor.status() == {}


def test_what_ignores_sigterm_is_killed_after_its_grace(supervisor: Supervisor) -> None:
    note = supervisor.folder / "ready"
    supervisor.run(spec(supervisor.folder, "deaf", sys.executable, "-c", TERM_IGNORED, str(note), grace_s=0.2))
    until(note.exists, "the deaf process did not start")
    supervisor.stop("deaf")
    assert supervisor.status()["deaf"].exit_code == -signal.SIGKILL


def test_shutdown_ends_the_last_started_first(supervisor: Supervisor) -> None:
    for name in ("first", "second"):
        script = f"trap 'echo {name} >> order; exit 0' TERM; touch {name}.ready; while :; do sleep 0.05; done"
        supervisor.run(spec(supervisor.folder, name, "sh", "-c", script))
        until((supervisor.folder / f"{name}.ready").exists, f"{name} did not start")
    supervisor.shutdown()
    assert (supervisor.folder / "order").read_text().split() == ["second", "first"]


def test_a_signal_to_the_terminals_process_group_reaches_neither_supervisor_nor_children(folder: Path) -> None:
    environment = os.environ | {"PYTHONPATH": str(Path(sys.modules["sandbox"].__path__[0]).parent)}
    command = [sys.executable, "-c", OWNER.replace("owner_pid=os.getpid()", "owner_pid=None"), str(folder)]
    owner = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, start_new_session=True
    )
    assert owner.stdout is not None
    pids = json.loads(owner.stdout.readline())
    everything = [identity(pid) for pid in pids.values()]
    os.killpg(owner.pid, signal.SIGINT)
    owner.communicate()
    assert all(map(runs, everything))


def test_a_state_folder_with_a_very_long_path_works(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 40) / ("path" * 40)
    supervisor = Supervisor.start(folder, owner_pid=os.getpid())
    child = identity(supervisor.run(spec(folder, "sleeper", "sleep", "600")))
    supervisor.shutdown()
    assert not runs(child)


def test_output_goes_to_the_log_and_the_exit_code_to_the_status(supervisor: Supervisor) -> None:
    told = spec(supervisor.folder, "talker", "sh", "-c", "echo out; echo err >&2; exit 7")
    supervisor.run(told)
    until(lambda: not supervisor.status()["talker"].alive, "the talker does not end")
    assert supervisor.status()["talker"].exit_code == 7
    assert told.log.read_text() == "out\nerr\n"


def test_starting_twice_gives_the_one_supervisor(supervisor: Supervisor) -> None:
    assert Supervisor.start(supervisor.folder, owner_pid=None).pid == supervisor.pid


def test_two_folders_have_two_supervisors(supervisor: Supervisor, tmp_path: Path) -> None:
    other = Supervisor.start(tmp_path / "other", owner_pid=os.getpid())
    child = identity(supervisor.run(spec(supervisor.folder, "sleeper", "sleep", "600")))
    other.shutdown()
    assert runs(child)


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda each: each.stop("nobody"), "no process is named nobody; known are: sleeper"),
        (lambda each: each.run(spec(each.folder, "sleeper", "sleep", "1")), "a process named sleeper runs already"),
        (lambda each: each.run(spec(each.folder, "ghost", "/no/such/program")), "No such file .*'/no/such/program'"),
    ],
)
def test_a_refusal_says_what_and_why(supervisor: Supervisor, act: Callable[[Supervisor], object], message: str) -> None:
    supervisor.run(spec(supervisor.folder, "sleeper", "sleep", "600"))
    with pytest.raises(SupervisorError, match=message):
        act(supervisor)


def test_an_owner_that_does_not_run_is_refused(tmp_path: Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    with pytest.raises(SupervisorError, match=f"owner_pid {ended.pid} does not run"):
        Supervisor.start(tmp_path, owner_pid=ended.pid)
