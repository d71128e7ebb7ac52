"""Real builds with Go of a module that needs nothing: cache, locks, kills and complaints."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from sandbox.binaries import Source, find_binaries
from sandbox.building import Edit
from sandbox.errors import BuildError
from sandbox.processes import has_variables, snapshot
from sandbox.waiting import wait_for

pytestmark = pytest.mark.cluster

MODULE = """module example.invalid/tiny

go 1.26

require example.invalid/pinned v1.2.3

replace example.invalid/pinned => ./pinned
"""
PROGRAM = """package main

import (
	"fmt"

	"example.invalid/pinned/version"
)

func main() { fmt.Println(version.Word() + "ok") }
"""
PINNED = """package version

var gitVersion = "not stamped"

func Word() string { return gitVersion + " " }
"""
BUILDER = """
import sys
from pathlib import Path
sys.path[:0] = [{tests!r}, {include!r}]
from test_sandbox_binaries import source_in
from sandbox.binaries import find_binaries
find_binaries(lambda text: print(text, flush=True), sources=(source_in(Path({folder!r})),), cache=Path({cache!r}))
"""
MARK = {"TINY_BUILD": "1"}


def source_in(folder: Path) -> Source:
    """Give the source of the tiny program."""
    return Source(
        name="tiny",
        folder=folder,
        module="example.invalid/pinned",
        programs=(("greeter", "example.invalid/tiny/cmd/greet"),),
        version_variable="example.invalid/pinned/version",
    )


@pytest.fixture
def source(tmp_path: Path) -> Source:
    folder = tmp_path / "source"
    for name, text in {
        "go.mod": MODULE,
        "go.sum": "",
        "cmd/greet/main.go": PROGRAM,
        "pinned/go.mod": "module example.invalid/pinned\n\ngo 1.26\n",
        "pinned/version/version.go": PINNED,
    }.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return source_in(folder)


def find(source: Source, cache: Path) -> tuple[Path, list[str]]:
    told: list[str] = []
    return find_binaries(told.append, sources=(source,), cache=cache)["greeter"], told


def test_a_program_is_built_once_with_its_version_stamped(source: Source, tmp_path: Path) -> None:
    program, told = find(source, tmp_path / "cache")
    assert subprocess.run([program], capture_output=True, text=True, check=True).stdout == "v1.2.3 ok\n"
    assert told[0] == "tiny v1.2.3: fetching its modules"
    assert find(source, tmp_path / "cache") == (program, [])


def test_another_pin_or_flag_is_another_entry_of_the_cache(source: Source) -> None:
    before = source.key()
    (source.folder / "go.sum").write_text("\n")
    assert source.key() != before


def test_a_truncated_program_is_built_again(source: Source, tmp_path: Path) -> None:
    program, _ = find(source, tmp_path / "cache")
    program.write_bytes(program.read_bytes()[:1000])
    again, told = find(source, tmp_path / "cache")
    assert told
    assert subprocess.run([again], capture_output=True, text=True, check=True).stdout == "v1.2.3 ok\n"


def test_a_source_may_edit_its_module_and_keep_folders_of_it(source: Source, tmp_path: Path) -> None:
    edit = Edit(file="version/version.go", old='gitVersion + " "', new='"edited "')
    edited = replace(source, edits=(edit,), files=("version",))
    program, _ = find(edited, tmp_path / "cache")
    assert subprocess.run([program], capture_output=True, text=True, check=True).stdout == "edited ok\n"
    assert (program.parent / "version" / "version.go").read_text() == PINNED
    (program.parent / "version" / "version.go").unlink()
    assert find(edited, tmp_path / "cache")[1]
    with pytest.raises(BuildError, match=r"version.go has 'no such' 0 times, not once"):
        find(replace(source, edits=(replace(edit, old="no such"),)), tmp_path / "cache")


def test_two_builds_at_once_wait_for_one_another(source: Source, tmp_path: Path) -> None:
    with ThreadPoolExecutor() as pool:
        results = list(pool.map(lambda _: find(source, tmp_path / "cache"), range(2)))
    assert results[0][0] == results[1][0]
    assert sum(any("fetching" in text for text in told) for _, told in results) == 1


def test_a_killed_build_is_redone_and_its_remains_are_removed(source: Source, tmp_path: Path) -> None:
    # A compiler that never ends, so that the kill comes in the middle of the build however fast the machine is.
    stuck = tmp_path / "bin"
    stuck.mkdir()
    (stuck / "go").write_text(
        '#!/bin/sh\ncase "$1" in env) echo go1.99 ;; list) echo one ;; *) touch started; exec sleep 600 ;; esac\n'
    )
    (stuck / "go").chmod(0o755)
    cache = tmp_path / "cache"
    places = {"tests": str(Path(__file__).parent), "include": str(Path(sys.modules["sandbox"].__path__[0]).parent)}
    code = BUILDER.format(folder=str(source.folder), cache=str(cache), **places)
    environment = os.environ | MARK | {"PATH": f"{stuck}:{os.environ['PATH']}"}
    builder = subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.DEVNULL)
    wait_for((source.folder / "started").exists, 30, "the stuck compiler to start")
    assert list(cache.glob(".tiny-*"))
    builder.send_signal(signal.SIGKILL)
    builder.wait()
    wait_for(lambda: not any(has_variables(pid, MARK) for pid in snapshot()), 10, "the killed build's compiler to end")
    program, _ = find(source, cache)
    assert program.exists()
    assert not list(cache.glob(".tiny-*"))


def test_a_failing_build_gives_the_compilers_words_and_leaves_nothing(source: Source, tmp_path: Path) -> None:
    (source.folder / "cmd" / "greet" / "main.go").write_text("package main\n\nfunc main() { nonsense() }\n")
    with pytest.raises(BuildError, match=r"tiny v1\.2\.3 can not be built: (.|\n)*undefined: nonsense"):
        find(source, tmp_path / "cache")
    assert not [entry for entry in (tmp_path / "cache").iterdir() if entry.suffix != ".lock"]


def test_modules_that_can_not_be_had_are_told(source: Source, tmp_path: Path) -> None:
    (source.folder / "go.mod").write_text(MODULE.replace("./pinned", "./missing"))
    with pytest.raises(BuildError, match=r"its modules could not be had: (.|\n)*missing"):
        find(source, tmp_path / "cache")
