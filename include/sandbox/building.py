"""One `go build`, watched: how many packages are done, how long it takes, what the compiler says when it fails."""

from __future__ import annotations

import errno
import json
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
        listing = self._start(toolchain, "list", "-deps", stdout=subprocess.PIPE)
        listed, complaint = listing.communicate()
        if listing.returncode:
            raise BuildError(f"{self.title} can not be built, its modules could not be had: {complaint.strip()}")
        with ExitStack() as stack:
            flags = ["-v", "-trimpath", "-ldflags", self.linker_flags, "-o", f"{self.output}/"]
            if self.edits:
                drafts = Path(stack.enter_context(tempfile.TemporaryDirectory()))
                flags += ["-overlay", str(self._overlay(toolchain, drafts))]
            self._compile(toolchain, flags, len(listed.split()), progress, started)
        progress(f"{self.title}: built in {format_duration(time.monotonic() - started)}")

    def copy(self, toolchain: Toolchain, folders: Sequence[str]) -> None:
        """Copy folders of the module into the output, under the same paths."""
        source = self._module_folder(toolchain) if folders else self.folder
        for folder in folders:
            for file in (source / folder).rglob("*"):
                if file.is_file():
                    target = self.output / file.relative_to(source)
                    target.parent.mkdir(parents=True, exist_ok=True)
                    # Modules are read-only; the copy takes no modes, so that the cache can be removed.
                    shutil.copyfile(file, target)

    def _overlay(self, toolchain: Toolchain, drafts: Path) -> Path:
        """Write the edited files and what Go is to read instead of what."""
        source = self._module_folder(toolchain)
        texts: dict[str, str] = {}
        for edit in self.edits:
            texts[edit.file] = edit.apply(texts.get(edit.file) or (source / edit.file).read_text())
        replaced = {}
        for number, (file, text) in enumerate(texts.items()):
            draft = drafts / f"{number}.go"
            draft.write_text(text)
            replaced[str(source / file)] = str(draft)
        overlay = drafts / "overlay.json"
        overlay.write_text(json.dumps({"Replace": replaced}))
        return overlay

    def _module_folder(self, toolchain: Toolchain) -> Path:
        listing = self._start(toolchain, "list", "-m", "-f", "{{.Dir}}", packages=[self.module], stdout=subprocess.PIPE)
        listed, complaint = listing.communicate()
        if listing.returncode:
            raise BuildError(f"{self.title} can not be built, {self.module} could not be had: {complaint.strip()}")
        return Path(listed.strip())

    def _compile(
        self,
        toolchain: Toolchain,
        flags: Sequence[str],
        packages: int,
        progress: Callable[[str], None],
        started: float,
    ) -> None:
        process = self._start(toolchain, "build", *flags, stdout=subprocess.DEVNULL)
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

    def _start(
        self, toolchain: Toolchain, *arguments: str, stdout: int, packages: Sequence[str] | None = None
    ) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [toolchain.go, *arguments, *(self.packages if packages is None else packages)],
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
