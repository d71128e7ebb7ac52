"""The real program as a process, on data that the real builder made, against real servers."""

from __future__ import annotations

import hashlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gpu_training.contract import (
    Manifest,
    ManifestFile,
    Progress,
    Result,
    parse_manifest,
    parse_progress,
    parse_result,
    render_manifest,
)

ROOT = Path(__file__).resolve().parents[2]
SERVICES = ROOT / ".venv-services" / "bin"
VERSION = "2013-03-11"
DEADLINE_S = 120.0
START_DEADLINE_S = 200.0
"""A server's first start on a busy machine compiles thousands of modules."""


def environment(**variables: str) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": os.environ["HOME"],
        "PYTHONPATH": f"{ROOT / 'include'}{os.pathsep}{ROOT / 'plugins'}",
        "OMP_NUM_THREADS": "1",
        **variables,
    }


def eventually(condition: Callable[[], Any], what: str, *, seconds: float = DEADLINE_S) -> Any:
    """Wait for a condition to give something true; fails, saying what was waited for, when it does not in time."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > deadline:
            pytest.fail(f"{what}: not within {seconds:g} s")
        time.sleep(0.05)
    return found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


@dataclass
class Ended:
    """A training that has ended."""

    code: int
    stdout: str
    stderr: str
    result: Result

    @property
    def progress(self) -> list[Progress]:
        return [progress for line in self.stdout.splitlines() if (progress := parse_progress(line))]


class Running:
    """A training that runs; its lines are read as they come."""

    def __init__(self, process: subprocess.Popen[str], result: Path) -> None:
        self.process = process
        self._result = result
        self._stdout: list[str] = []
        self._stderr: list[str] = []
        self._readers = [
            threading.Thread(target=lines.extend, args=(stream,), daemon=True)
            for lines, stream in ((self._stdout, process.stdout), (self._stderr, process.stderr))
        ]
        for reader in self._readers:
            reader.start()

    def wait_for(self, wanted: Callable[[Progress], bool]) -> Progress:
        def find() -> Progress | None:
            parsed = [parse_progress(line) for line in list(self._stdout)]
            return next((progress for progress in parsed if progress and wanted(progress)), None)

        return eventually(lambda: find() or self._fail_when_ended(), "progress")

    def _fail_when_ended(self) -> None:
        if self.process.poll() is not None:
            pytest.fail(f"the training ended early:\n{''.join(self._stdout)}\n{''.join(self._stderr)}")

    def output(self, *, seconds: float = DEADLINE_S) -> tuple[str, str]:
        """Give all that it wrote to standard output and standard error, when it has ended."""
        for reader in self._readers:
            reader.join(seconds)
        return "".join(self._stdout), "".join(self._stderr)

    def end(self, *, seconds: float = DEADLINE_S) -> Ended:
        code = self.process.wait(seconds)
        stdout, stderr = self.output(seconds=seconds)
        text = self._result.read_text() if self._result.exists() else ""
        if not text:
            pytest.fail(f"no result document, exit code {code}:\n{stderr}")
        return Ended(code=code, stdout=stdout, stderr=stderr, result=parse_result(text))


@dataclass
class Trainer:
    """Starts trainings of one lineage, each as another pod."""

    folder: Path
    manifest: Path
    variables: dict[str, str] = field(default_factory=dict)
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def checkpoints(self) -> Path:
        return self.folder / "checkpoints"

    def start(self, *arguments: str, version: str = VERSION, **variables: str) -> Running:
        number = len(self.started) + 1
        result = self.folder / f"result-{number}.json"
        process = subprocess.Popen(
            [sys.executable, "-m", "trainer", "--data-version", version, *arguments],
            env={
                **environment(
                    GPU_TRAINING_DATA_URI=self.manifest.as_uri(),
                    GPU_TRAINING_DATA_DIGEST=parse_manifest(self.manifest.read_text()).digest,
                    GPU_TRAINING_CHECKPOINT_URI=self.checkpoints.as_uri(),
                    GPU_TRAINING_FINGERPRINT="f" * 64,
                    GPU_TRAINING_POD_UID=f"pod-{number}",
                    GPU_TRAINING_TERMINATION_LOG=str(result),
                ),
                **self.variables,
                **variables,
            },
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.started.append(process)
        return Running(process, result)

    def run(self, *arguments: str, version: str = VERSION, **variables: str) -> Ended:
        return self.start(*arguments, version=version, **variables).end()


def publish(target: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "trainer.publish_flights", "--to", target, *arguments],
        env=environment(**variables),
        capture_output=True,
        text=True,
        check=False,
    )


@contextmanager
def served(command: list[str], *, url: str, log: Path, **variables: str) -> Iterator[None]:
    """Run a server in a process group of its own until the block ends; begins when it answers."""
    if not Path(command[0]).exists():
        pytest.fail(f"{command[0]} is missing: run make install")
    with log.open("w") as output:
        process = subprocess.Popen(
            command,
            env={**environment(**variables), "PYTHONPATH": ""},
            cwd=log.parent,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:

        def answers() -> bool:
            if process.poll() is not None:
                pytest.fail(f"{command[0]} ended early:\n{log.read_text()}")
            with suppress(OSError), urllib.request.urlopen(url, timeout=30):  # noqa: S310
                return True
            return False

        eventually(answers, f"{url} answers", seconds=START_DEADLINE_S)
        yield
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(10)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def write_version(folder: Path, rows: list[dict[str, Any]], *, version: str = VERSION) -> Path:
    """Write a data version of hand-made flights; gives its manifest."""
    columns = list(rows[0])
    lines = [",".join(columns), *(",".join(str(row[column]) for column in columns) for row in rows)]
    content = ("\n".join(lines) + "\n").encode()
    target = folder / version
    target.mkdir(parents=True)
    (target / "flights.csv").write_bytes(content)
    entry = ManifestFile(path="flights.csv", size=len(content), sha256=hashlib.sha256(content).hexdigest())
    manifest = Manifest(id=version, created_at=f"{version}T00:00:00+00:00", files=(entry,))
    (target / "manifest.json").write_text(render_manifest(manifest))
    return target / "manifest.json"


def flight(day: int = 1, **changes: Any) -> dict[str, Any]:
    return {
        "year": 2013,
        "month": 1,
        "day": day,
        "sched_dep_time": 515,
        "sched_arr_time": 819,
        "carrier": "UA",
        "origin": "EWR",
        "dest": "IAH",
        "distance": 1400,
        "dep_delay": 2,
        "arr_delay": 11,
        "air_time": 227,
        **changes,
    }


class Gate:
    """A TCP port before a server, which can be shut so that the server seems down, and opened again."""

    def __init__(self, target_port: int) -> None:
        self._target = ("127.0.0.1", target_port)
        self._port = free_port()
        self._listener: socket.socket | None = None
        self._connections: list[socket.socket] = []

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def open(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", self._port))
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def shut(self) -> None:
        sockets, self._connections = [*self._connections, self._listener], []
        for each in sockets:
            if each is not None:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
                each.close()

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                near, _ = listener.accept()
                far = socket.create_connection(self._target)
                self._connections += [near, far]
                for source, sink in ((near, far), (far, near)):
                    threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    @staticmethod
    def _pump(source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        with suppress(OSError):
            sink.shutdown(socket.SHUT_WR)
