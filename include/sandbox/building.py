"""One `go build`, watched: how many packages are done, how long it takes, what the compiler says when it fails."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from sandbox.child import die_with_the_parent
from sandbox.errors import BuildError
from sandbox.progress import format_duration
from sandbox.toolchain import Toolchain

SHOWN_OUTPUT_LINES = 20
TELL_S = 1.0
FULL = os.strerror(errno.ENOSPC).lower()
FULL_REMEDY = "free some space there, or set GPU_TRAINING_CACHE, GOCACHE or TMPDIR, whichever it is, to another folder"


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """One text of a module's source file that another one takes the place of; it has to be there once."""

    file: str
    old: str
    new: str

    def apply(self, text: str) -> str:
        """Give the edited text.

        :raises BuildError: the text is not there exactly once.
        """
        if (found := text.count(self.old)) != 1:
            raise BuildError(f"{self.file} has {self.old!r} {found} times, not once: adapt the edit to the new version")
        return text.replace(self.old, self.new)


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """Packages to be built from the go.mod in `folder` into the folder `output`; `title` names them in progress texts.

    :param module: where edited and copied files come from.
    """

    title: str
    folder: Path
    packages: Sequence[str]
    linker_flags: str
    output: Path
    module: str
    edits: Sequence[Edit] = ()

    def run(self, toolchain: Toolchain, progress: Callable[[str], None]) -> None:
        """Build; the build dies with this process.

        :raises BuildError: modules could not be had or a package does not compile.
        """
        started = time.monotonic()
        progress(f"{self.title}: fetching its modules")
        listed = self._answer(toolchain, "list", "-deps", *self.packages)
        with ExitStack() as stack:
            flags = ["-v", "-trimpath", "-ldflags", self.linker_flags, "-o", f"{self.output}/"]
            if self.edits:
                drafts = Path(stack.enter_context(tempfile.TemporaryDirectory()))
                flags += [f"-modfile={self._edited(toolchain, drafts)}"]
            self._compile(toolchain, flags, len(listed.split()), progress, started)
        progress(f"{self.title}: built in {format_duration(time.monotonic() - started)}")

    def copy(self, toolchain: Toolchain, folders: Sequence[str]) -> None:
        """Copy folders of the module into the output, under the same paths."""
        for folder in folders:
            _copy_tree(self._module_folder(toolchain) / folder, self.output / folder)

    def _edited(self, toolchain: Toolchain, drafts: Path) -> Path:
        """Write an edited copy of the module and a go.mod that takes it; in its own place Go lets none be changed."""
        module = drafts / "module"
        _copy_tree(self._module_folder(toolchain), module)
        for edit in self.edits:
            file = module / edit.file
            file.write_text(edit.apply(file.read_text()))
        for name in ("go.mod", "go.sum"):
            shutil.copyfile(self.folder / name, drafts / name)
        replacement = f"-replace={self.module}={module}"
        self._answer(toolchain, "mod", "edit", replacement, str(drafts / "go.mod"))
        return drafts / "go.mod"

    def _module_folder(self, toolchain: Toolchain) -> Path:
        return Path(self._answer(toolchain, "list", "-m", "-f", "{{.Dir}}", self.module).strip())

    def _compile(
        self,
        toolchain: Toolchain,
        flags: Sequence[str],
        packages: int,
        progress: Callable[[str], None],
        started: float,
    ) -> None:
        process = self._start(toolchain, "build", *flags, *self.packages, stdout=subprocess.DEVNULL)
        lines: list[str] = []
        reader = threading.Thread(target=_collect, args=(process, lines), daemon=True)
        reader.start()
        try:
            while process.poll() is None:
                took = format_duration(time.monotonic() - started)
                progress(f"{self.title}: {len(lines)} of {packages} packages built, {took}")
                with suppress(subprocess.TimeoutExpired):
                    process.wait(TELL_S)
        finally:
            process.kill()
            process.wait()
            reader.join()
        if process.returncode:
            words = "".join(lines[-SHOWN_OUTPUT_LINES:]).strip()
            remedy = f"; {FULL_REMEDY}" if FULL in words else ""
            raise BuildError(f"{self.title} can not be built: {words}{remedy}")

    def _answer(self, toolchain: Toolchain, *arguments: str) -> str:
        process = self._start(toolchain, *arguments, stdout=subprocess.PIPE)
        answer, complaint = process.communicate()
        if process.returncode:
            raise BuildError(f"{self.title} can not be built, its modules could not be had: {complaint.strip()}")
        return answer

    def _start(self, toolchain: Toolchain, *arguments: str, stdout: int) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [toolchain.go, *arguments],
            cwd=self.folder,
            env=toolchain.environment(os.environ),
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=die_with_the_parent(),
        )


def _copy_tree(source: Path, target: Path) -> None:
    """Copy files without their modes: those of modules are read-only, their copies are to be edited and removed."""
    for file in source.rglob("*"):
        if file.is_file():
            copy = target / file.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copy)


def _collect(process: subprocess.Popen[str], lines: list[str]) -> None:
    assert process.stderr is not None  # noqa: S101 - a pipe was asked for
    for line in process.stderr:
        lines.append(line)  # noqa: PERF402 - one by one, since their number is shown meanwhile
