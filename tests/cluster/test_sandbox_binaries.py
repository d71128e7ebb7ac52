"""Real builds with Go of a module that needs nothing: cache, locks, kills and complaints."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.cluster.situations import INCLUDE, ROOT, needs_namespaces, python, run, with_mounts

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
from tests.cluster.test_sandbox_binaries import source_in
from sandbox.binaries import find_binaries
source, cache = source_in(Path(sys.argv[1])), Path(sys.argv[2])
for name, path in find_binaries(lambda text: print(text, flush=True), sources=(source,), cache=cache).items():
    print(f"{name}: {path}")
"""
FULL_CACHE = """
import subprocess, sys
from pathlib import Path
from tests.cluster.test_sandbox_binaries import source_in
from sandbox.binaries import find_binaries
from sandbox.errors import BuildError
source, cache = source_in(Path(sys.argv[1])), Path(sys.argv[2])
try:
    find_binaries(print, sources=(source,), cache=cache)
except BuildError as error:
    print(error)
print("left:", [entry.name for entry in cache.iterdir() if entry.suffix != ".lock"])
subprocess.run(["mount", "-o", "remount,size=64m", cache], check=True)
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


def truncate(program: Path) -> None:
    program.write_bytes(program.read_bytes()[:1000])


def remove_manifest(program: Path) -> None:
    (program.parent / "complete.json").unlink()


def cut_off_before_the_rename(program: Path) -> None:
    program.parent.rename(program.parents[1] / f".{program.parent.name}.draft")


@pytest.mark.parametrize("spoil", [truncate, remove_manifest, cut_off_before_the_rename])
def test_what_a_build_left_half_made_is_built_again(
    source: Source, tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    program, _ = find(source, tmp_path / "cache")
    spoil(program)
    again, told = find(source, tmp_path / "cache")
    assert told
    assert subprocess.run([again], capture_output=True, text=True, check=True).stdout == "v1.2.3 ok\n"
    assert not list((tmp_path / "cache").glob(".tiny-*"))


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


def test_two_processes_that_build_at_once_wait_for_one_another(source: Source, tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": f"{INCLUDE}:{ROOT}"}
    command = python(BUILDER, source.folder, tmp_path / "cache")
    builders = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) for _ in range(2)]
    told = [builder.communicate()[0] for builder in builders]
    assert [builder.returncode for builder in builders] == [0, 0]
    assert sum("fetching" in text for text in told) == 1
    assert {text.splitlines()[-1] for text in told} == {f"greeter: {tmp_path / 'cache' / source.key() / 'greeter'}"}


@needs_namespaces
def test_a_full_disk_under_the_cache_is_told_and_nothing_half_built_stays(source: Source, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    prefix = with_mounts(f"-t tmpfs -o size=1m none {cache}")
    told = run(*prefix, *python(FULL_CACHE + BUILDER, source.folder, cache))
    assert told.returncode == 0, told.stderr
    assert "tiny v1.2.3 can not be built: " in told.stdout
    assert "no space left on device; free some space there, or set GPU_TRAINING_CACHE" in told.stdout
    assert "left: []" in told.stdout
    assert told.stdout.endswith(f"greeter: {cache / source.key() / 'greeter'}\n")


@needs_namespaces
def test_a_read_only_cache_gives_what_it_has_and_is_told_when_something_is_to_be_built(
    source: Source, tmp_path: Path
) -> None:
    program, _ = find(source, tmp_path / "cache")
    sealed = with_mounts(
        f"--bind {tmp_path / 'cache'} {tmp_path / 'cache'}", f"-o remount,bind,ro {tmp_path / 'cache'}"
    )
    assert run(*sealed, *python(BUILDER, source.folder, tmp_path / "cache")).stdout == f"greeter: {program}\n"
    (source.folder / "go.sum").write_text("\n")
    told = run(*sealed, *python(BUILDER, source.folder, tmp_path / "cache"))
    words = f"binary cache {tmp_path / 'cache'} can not be used: [Errno 30] Read-only file system"
    assert words in told.stderr
    assert "set GPU_TRAINING_CACHE to another folder" in told.stderr


def test_a_killed_build_is_redone_and_its_remains_are_removed(source: Source, tmp_path: Path) -> None:
    # A compiler that never ends, so that the kill comes in the middle of the build however fast the machine is.
    stuck = tmp_path / "bin"
    stuck.mkdir()
    (stuck / "go").write_text(
        '#!/bin/sh\ncase "$1" in env) echo go1.99 ;; list) echo one ;; *) touch started; exec sleep 600 ;; esac\n'
    )
    (stuck / "go").chmod(0o755)
    cache = tmp_path / "cache"
    places = {"PATH": f"{stuck}:{os.environ['PATH']}", "PYTHONPATH": f"{INCLUDE}:{ROOT}"}
    command = python(BUILDER, source.folder, cache)
    builder = subprocess.Popen(command, env=os.environ | MARK | places, stdout=subprocess.DEVNULL)
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
