"""Containers as real processes: exit codes, signals, output, mounts, and what a successor of the agent finds."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from sandbox.agent import namespaces
from sandbox.agent.launcher import Launcher
from sandbox.agent.logs import LogOptions, read_log, read_tail
from sandbox.agent.processes import (
    ContainerProcess,
    Exit,
    LaunchSpec,
    PodNamespaces,
    StartError,
    ViewError,
    read_exit,
)

pytestmark = pytest.mark.unit

T = TypeVar("T")
FAULT = namespaces.fault_of_namespaces()
needs_namespaces = pytest.mark.skipif(FAULT is not None, reason=f"no mount namespaces on this machine: {FAULT}")
SEGFAULT = "exec python3 -c 'import ctypes; ctypes.string_at(0)'"
VIEWS = [False] if FAULT else [True, False]


def spec(script: str, *, private: bool = False, **more: Any) -> LaunchSpec:
    environment = {"PATH": os.pathsep.join([str(Path(sys.executable).resolve().parent), "/usr/bin", "/bin"])}
    values: dict[str, Any] = {
        "command": ["/bin/sh", "-c", script],
        "environment": environment,
        "working_directory": "/",
    }
    return LaunchSpec(private=private, **{**values, **more})


def run(folder: Path, launch: LaunchSpec, then: Callable[[ContainerProcess], Awaitable[None]] | None = None) -> Exit:
    async def started() -> Exit:
        with contextlib.closing(Launcher()) as launcher:
            process = await ContainerProcess.start(launcher, folder, launch)
            if then is not None:
                await then(process)
            return await asyncio.wait_for(process.wait(), 30)

    return asyncio.run(started())


def output(folder: Path) -> bytes:
    async def collect() -> bytes:
        return b"".join([data async for data in read_log(folder / "log", LogOptions(), running=lambda: False)])

    return asyncio.run(collect())


@pytest.mark.parametrize("private", VIEWS)
@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("exit 0", 0),
        ("exit 3", 3),
        ("exit 255", 255),
        ("sh -c 'kill -s SEGV $$'; exit $?", 139),
    ],
)
def test_exit_code_is_the_program_s_or_128_and_its_signal(
    tmp_path: Path, script: str, code: int, private: bool
) -> None:
    end = run(tmp_path, spec(script, private=private))
    assert end.exit_code == code
    assert end.started_ns is not None
    assert end.finished_ns is not None
    assert end.started_ns <= end.finished_ns


@pytest.mark.parametrize("private", VIEWS)
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"command": ["/no/such"]}, r"executable file `/no/such` not found in \$PATH: No such file or directory"),
        ({"command": ["nosuchprogram"]}, r"executable file `nosuchprogram` not found in \$PATH"),
        ({"command": ["./not-executable"]}, "exec `./not-executable`: Permission denied"),
        ({"working_directory": "/etc/passwd"}, "chdir to `/etc/passwd`: Not a directory"),
    ],
)
def test_program_that_does_not_start_is_worded_as_a_container_runtime_does(
    tmp_path: Path, change: dict[str, Any], words: str, private: bool
) -> None:
    (tmp_path / "not-executable").write_text("#!/bin/sh\n")
    with pytest.raises(StartError, match=words):
        run(tmp_path, spec("", private=private, **{"working_directory": str(tmp_path), **change}))
    assert read_exit(tmp_path).exit_code == 128


@pytest.mark.parametrize("private", VIEWS)
def test_every_byte_of_both_streams_is_in_the_log(tmp_path: Path, private: bool) -> None:
    script = (
        "import sys; w = sys.stdout.buffer.write; w(b'a\\rb\\n'); w(b'\\xff\\xc3\\n'); w(b'y' * 100000 + b'\\n');"
        "w(b'\\x1b[2Kprogress\\r' * 1000); sys.stdout.flush(); sys.stderr.write('to err\\n')"
    )
    run(tmp_path, spec("", private=private, command=["python3", "-c", script]))
    entries = read_tail(tmp_path / "log", 1000)
    assert [entry.content for entry in entries if entry.stream == "stderr"] == [b"to err"]
    written = b"".join(e.content if e.partial else e.content + b"\n" for e in entries if e.stream == "stdout")
    assert written == b"a\rb\n\xff\xc3\n" + b"y" * 100000 + b"\n" + b"\x1b[2Kprogress\r" * 1000


@pytest.mark.parametrize("private", VIEWS)
def test_much_output_is_not_lost_at_the_end(tmp_path: Path, private: bool) -> None:
    run(tmp_path, spec("seq 200000", private=private))
    assert output(tmp_path) == "".join(f"{n}\n" for n in range(1, 200001)).encode()


@pytest.mark.parametrize("private", VIEWS)
def test_sigterm_lets_the_program_finish_and_kill_does_not(tmp_path: Path, private: bool) -> None:
    async def until_up(folder: Path) -> None:
        options = LogOptions(follow=True, limit_bytes=1)
        async with asyncio.timeout(10):
            async for _ in read_log(folder / "log", options, running=lambda: True):
                return

    first, second = tmp_path / "1", tmp_path / "2"
    first.mkdir()
    second.mkdir()

    async def terminate(process: ContainerProcess) -> None:
        await until_up(first)
        process.terminate()

    async def kill(process: ContainerProcess) -> None:
        await until_up(second)
        process.terminate()
        process.kill()

    polite = "trap 'echo bye; exit 85' TERM; echo up; while :; do sleep 0.05; done"
    assert run(first, spec(polite, private=private), terminate).exit_code == 85
    assert output(first) == b"up\nbye\n"
    deaf = "trap '' TERM; echo up; while :; do sleep 0.05; done"
    assert run(second, spec(deaf, private=private), kill).exit_code == 137


@pytest.mark.parametrize("private", VIEWS)
def test_what_the_program_leaves_behind_ends_with_it(tmp_path: Path, private: bool) -> None:
    end = run(tmp_path, spec("setsid sleep 1234 & sleep 1235 & echo $!; exit 4", private=private))
    assert end.exit_code == 4
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes()
        except OSError:
            continue
        assert command not in (b"sleep\x001234\0", b"sleep\x001235\0")


@pytest.mark.parametrize("private", VIEWS)
def test_environment_is_what_was_given_and_no_more(
    tmp_path: Path, private: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OF_THE_AGENT", "1")
    run(tmp_path, spec("", private=private, command=["/usr/bin/env"], environment={"A": "b\udcff\nc"}))
    assert output(tmp_path) == b"A=b\xff\nc\n"


@pytest.mark.parametrize("private", VIEWS)
def test_no_descriptor_of_the_agent_reaches_the_program(tmp_path: Path, private: bool) -> None:
    # The listing itself holds one more.
    run(tmp_path, spec("", private=private, command=["ls", "/proc/self/fd"]))
    assert output(tmp_path).split() == [b"0", b"1", b"2", b"3"]


@needs_namespaces
def test_mounts_are_made_where_nothing_is_and_only_for_the_container(tmp_path: Path) -> None:
    volume, file = tmp_path / "volume", tmp_path / "file"
    volume.mkdir()
    (volume / "a").write_text("from the volume\n")
    file.touch()
    mounts = [
        {"source": str(volume), "target": "/not/there/before", "read_only": True},
        {"source": str(volume), "target": "/etc/not-there-before"},
        {"source": str(volume / "sub"), "target": "/etc/not-there-before/inner/most"},
        {"source": str(file), "target": "/dev/termination-log"},
    ]
    script = (
        "cat /not/there/before/a; touch /not/there/before/b 2>/dev/null || echo read-only; pwd; hostname;"
        "touch /etc/not-there-before/c /etc/not-there-before/inner/most/d; echo told > /dev/termination-log;"
        "test -c /dev/null && test -d /proc/1 && test -e /etc/passwd && echo all there"
    )
    run(tmp_path, spec(script, private=True, mounts=mounts, host_name="pod-1", working_directory="/nowhere/yet"))
    assert output(tmp_path).decode().split("\n") == [
        "from the volume", "read-only", "/nowhere/yet", "pod-1", "all there", ""
    ]  # fmt: skip
    assert file.read_text() == "told\n"
    assert sorted(path.name for path in volume.iterdir()) == ["a", "c", "inner", "sub"]
    assert (volume / "sub" / "d").exists()
    assert not any(map(os.path.lexists, ("/not", "/etc/not-there-before", "/dev/termination-log", "/nowhere")))


@needs_namespaces
@pytest.mark.parametrize(
    ("mount", "words"),
    [
        ({"target": "/etc/passwd"}, "/etc/passwd is no folder that can be mounted on here"),
        ({"target": "/"}, "/ is no folder that can be mounted on here"),
        ({"target": "relative"}, "'relative' is not an absolute path"),
    ],
)
def test_mount_that_is_impossible_says_why(tmp_path: Path, mount: dict[str, Any], words: str) -> None:
    (tmp_path / "v").mkdir()
    with pytest.raises(ViewError, match=words):
        run(tmp_path, spec("true", private=True, mounts=[{"source": str(tmp_path / "v"), **mount}]))


@needs_namespaces
def test_memory_volume_is_shared_by_the_pod_s_containers_and_leaves_no_trace(tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    volume.mkdir()
    mounts = [{"source": str(volume), "target": "/dev/shm"}]  # noqa: S108

    async def both() -> bytes:
        launcher = Launcher()
        pod = await PodNamespaces.open(launcher, tmp_path, {str(volume): 1 << 20})
        for name, script in (("1", "echo shared > /dev/shm/x"), ("2", "cat /dev/shm/x; df --output=size /dev/shm")):
            folder = tmp_path / name
            folder.mkdir()
            process = await ContainerProcess.start(launcher, folder, spec(script, private=True, mounts=mounts), pod)
            await process.wait()
        pod.close()
        launcher.close()
        return b"".join([data async for data in read_log(tmp_path / "2" / "log", LogOptions(), running=lambda: False)])

    assert asyncio.run(both()).split() == [b"shared", b"1K-blocks", b"1024"]
    assert list(volume.iterdir()) == []


@pytest.mark.parametrize("private", VIEWS)
def test_successor_finds_a_running_container_and_later_its_end(tmp_path: Path, private: bool) -> None:
    script = f"""
import asyncio, json, sys
from pathlib import Path
from sandbox.agent.launcher import Launcher
from sandbox.agent.processes import ContainerProcess, LaunchSpec
launch = LaunchSpec(command=["/bin/sh", "-c", "echo one; sleep 1; echo two; exit 6"], environment={{}},
                    working_directory="/", private={private}, record={{"kept": 1}})
asyncio.run(ContainerProcess.start(Launcher(), Path(sys.argv[1]), launch))
"""
    include = str(Path(namespaces.__file__).parents[2])
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True, env={"PYTHONPATH": include})

    async def find() -> Exit:
        process = ContainerProcess.find(tmp_path)
        assert process is not None
        return await asyncio.wait_for(process.wait(), 30)

    assert asyncio.run(find()).exit_code == 6
    assert output(tmp_path) == b"one\ntwo\n"
    assert json.loads((tmp_path / "spec.json").read_text())["record"] == {"kept": 1}
    assert ContainerProcess.find(tmp_path) is None


def test_container_whose_shim_was_killed_ends_with_it_and_nobody_knows_how(tmp_path: Path) -> None:
    async def kill_shim(process: ContainerProcess) -> None:
        state = json.loads((tmp_path / "state.json").read_text())
        os.kill(state["pid"], 9)

    end = run(tmp_path, spec("sleep 600"), kill_shim)
    assert (end.exit_code, end.seen) == (137, False)


def test_pid_that_was_given_to_another_process_is_not_taken_for_the_container(tmp_path: Path) -> None:
    state = {"pid": os.getpid(), "birth": 1, "container_pid": os.getpid(), "started_ns": 0}
    (tmp_path / "state.json").write_text(json.dumps(state))
    assert ContainerProcess.find(tmp_path) is None


def test_containers_start_although_the_zygote_was_killed(tmp_path: Path) -> None:
    first, second = tmp_path / "1", tmp_path / "2"
    first.mkdir()
    second.mkdir()

    def kill_parent_of_shim() -> None:
        shim = json.loads((first / "state.json").read_text())["pid"]
        os.kill(int(Path(f"/proc/{shim}/stat").read_text().split()[3]), 9)

    async def both() -> list[int]:
        with contextlib.closing(Launcher()) as launcher:
            slow = await ContainerProcess.start(launcher, first, spec("sleep 1; exit 3"))
            kill_parent_of_shim()
            next_one = await ContainerProcess.start(launcher, second, spec("exit 4"))
            return [(await process.wait()).exit_code for process in (slow, next_one)]

    assert asyncio.run(both()) == [3, 4]
