"""One `go build`, watched: how many packages are done, how long it takes, what the compiler says when it fails."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sandbox.child import die_with_the_parent
from sandbox.errors import BuildError
from sandbox.progress import format_duration
from sandbox.toolchain import Toolchain

SHOWN_OUTPUT_LINES = 20
TELL_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """Packages of the module in `folder` to be built into the folder `output`; `title` names them in progress texts."""

    title: str
    folder: Path
    packages: Sequence[str]
    linker_flags: str
    output: Path

    def run(self, toolchain: Toolchain, progress: Callable[[str], None]) -> None:
        """Build; the build dies with this process.

        :raises BuildError: modules could not be had or a package does not compile.
        """
        started = time.monotonic()
        progress(f"{self.title}: fetching its modules")
        listing = self._start(toolchain, "list", "-deps", stdout=subprocess.PIPE)
        listed, complaint = listing.communicate()
        if listing.returncode:
            raise BuildError(f"{self.title} can not be built, its modules could not be had: {complaint.strip()}")
        flags = ("-v", "-trimpath", "-ldflags", self.linker_flags, "-o", f"{self.output}/")
        process = self._start(toolchain, "build", *flags, stdout=subprocess.DEVNULL)
        lines: list[str] = []
        reader = threading.Thread(target=_collect, args=(process, lines), daemon=True)
        reader.start()
        try:
            while process.poll() is None:
                took = format_duration(time.monotonic() - started)
                progress(f"{self.title}: {len(lines)} of {len(listed.split())} packages built, {took}")
                with suppress(subprocess.TimeoutExpired):
                    process.wait(TELL_S)
        finally:
            process.kill()
            process.wait()
            reader.join()
        if process.returncode:
            raise BuildError(f"{self.title} can not be built: {''.join(lines[-SHOWN_OUTPUT_LINES:]).strip()}")
        progress(f"{self.title}: built in {format_duration(time.monotonic() - started)}")

    def _start(self, toolchain: Toolchain, *arguments: str, stdout: int) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [toolchain.go, *arguments, *self.packages],
            cwd=self.folder,
            env=toolchain.environment(os.environ),
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=die_with_the_parent(),
        )


def _collect(process: subprocess.Popen[str], lines: list[str]) -> None:
    assert process.stderr is not None  # noqa: S101 - a pipe was asked for
    for line in process.stderr:
        lines.append(line)  # noqa: PERF402 - one by one, since their number is shown meanwhile
