"""A clear word or a clean recovery: full, foreign and read-only folders, no root, killed parents, two at once."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster.situations import INCLUDE, needs_namespaces, python, run, sandbox_command, with_mounts, without_root

from sandbox.cluster import Sandbox, clean
from sandbox.process_spec import STATE_VARIABLE
from sandbox.processes import has_variables, snapshot
from sandbox.waiting import wait_for

pytestmark = pytest.mark.cluster

FULL_DISK = """
import os, sys
from pathlib import Path
from sandbox.cluster import NodeRequest, Sandbox
from sandbox.errors import SandboxError
from sandbox.process_spec import STATE_VARIABLE
from sandbox.processes import has_variables, snapshot

folder = Path(sys.argv[1])
filler = folder.with_name("filler")

def fill(text=""):
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(1 << 20))
        except OSError:
            pass

def left():
    return [pid for pid in snapshot() if has_variables(pid, {STATE_VARIABLE: str(folder)})]

def refusal(act):
    try:
        act()
    except SandboxError as error:
        return str(error)

filler.write_bytes(bytes(64 << 20))
print("1", refusal(lambda: Sandbox.up(folder)))
filler.unlink()
print("2", refusal(lambda: Sandbox.up(folder, progress=fill)), left())
filler.unlink()
sandbox = Sandbox.up(folder, nodes=(), owner_pid=os.getpid())
fill()
print("3", refusal(lambda: sandbox.add_node(NodeRequest(name="gpu-2"))))
sandbox.down()
print("4", folder.exists(), left())
"""

POD = """
import os, sys
from pathlib import Path
from sandbox.cluster import Sandbox
from sandbox.waiting import wait_for

sandbox = Sandbox.up(Path(sys.argv[1]), owner_pid=os.getpid())
container = {
    "name": "train",
    "image": "sandbox-shell:1",
    "command": ["sh", "-c", "echo -n $(cat /volume/word) > /dev/termination-log"],
    "volumeMounts": [{"name": "volume", "mountPath": "/volume"}],
}
spec = {
    "containers": [container],
    "restartPolicy": "Never",
    "volumes": [{"name": "volume", "configMap": {"name": "words"}}],
    "tolerations": [{"operator": "Exists"}],
}
space = "/api/v1/namespaces/default"
sandbox.api.request("POST", f"{space}/configmaps", {"metadata": {"name": "words"}, "data": {"word": "well"}})
sandbox.api.request("POST", f"{space}/pods", {"metadata": {"name": "training"}, "spec": spec})

def end():
    status = sandbox.api.request("GET", f"{space}/pods/training")["status"]
    return status if status.get("phase") in ("Succeeded", "Failed") else None

status = wait_for(end, 60, "the pod's end")
print(os.geteuid(), status["phase"], status["containerStatuses"][0]["state"]["terminated"]["message"])
sandbox.down()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "state"
    yield folder
    clean(folder)


def left_of(folder: Path) -> list[int]:
    return [pid for pid in snapshot() if has_variables(pid, {STATE_VARIABLE: str(folder)})]


@needs_namespaces
def test_a_full_disk_is_told_nothing_half_made_stays_and_down_still_works(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    told = run(*with_mounts(f"-t tmpfs -o size=300m none {disk}"), *python(FULL_DISK, disk / "state"))
    lines = {line[0]: line for line in told.stdout.splitlines() if line[:2] in ("1 ", "2 ", "3 ", "4 ")}
    assert told.returncode == 0, told.stderr
    assert f"state folder {disk}/state has 236 MiB free and 256 MiB are needed: free some space" in lines["1"]
    assert "No space left on device" in lines["2"] or "is full" in lines["2"]
    assert told.stdout.count("[]") == 2
    assert f"state folder {disk}/state can not be used: [Errno 28] No space left on device" in lines["3"]
    assert lines["4"] == "4 False []"


@needs_namespaces
@pytest.mark.parametrize(
    ("mount", "state", "message"),
    [
        ("-t tmpfs -o ro none {}", "{}/state", "state folder {}/state can not be used: .*Read-only file system"),
        ("-t tmpfs -o mode=700,uid=1 none {}", "{}", "state folder {} can not be used: .*Permission denied"),
        ("-t tmpfs none {}", "/etc/hostname", "state folder /etc/hostname is no folder: give another one"),
        (
            "-t tmpfs none {}",
            "/etc/hostname/state",
            "state folder /etc/hostname/state can not be used: .*Not a directory",
        ),
        ("-t tmpfs none {}", "{}/" + "x" * 300, "state folder .* can not be used: .*File name too long"),
        ("-t tmpfs none {}", "{}" + "/long" * 820, "state folder .* can not be used: .*File name too long"),
    ],
    ids=["read-only", "another user's", "a file", "below a file", "a long name", "a long path"],
)
def test_a_folder_that_can_not_be_used_is_told(tmp_path: Path, mount: str, state: str, message: str) -> None:
    place = tmp_path / "place"
    place.mkdir()
    prefix = [*with_mounts(mount.format(place)), *without_root(namespaces=True)]
    told = run(*prefix, *sandbox_command("up", "--state", state.format(place)))
    assert told.returncode == 1
    (line,) = told.stderr.splitlines()
    assert re.match(message.format(place), line), line
    assert line.endswith(("(--state DIR)", "give another one"))


@needs_namespaces
def test_without_root_and_namespaces_up_says_at_once_that_no_pod_can_run(folder: Path) -> None:
    told = run(*without_root(namespaces=False), *sandbox_command("up", "--state", folder))
    assert told.returncode == 1
    assert "nodes of kind process can run no pods here" in told.stderr
    assert "user.max_user_namespaces above 0" in told.stderr
    assert len(told.stderr.splitlines()) == 1
    assert not folder.exists()


@needs_namespaces
def test_without_root_pods_run_in_user_namespaces(folder: Path) -> None:
    told = run(*without_root(namespaces=True), *python(POD, folder))
    assert told.stdout == "65534 Succeeded well\n", told.stderr
    assert not folder.exists()


def test_a_killed_up_leaves_nothing_that_runs(folder: Path) -> None:
    environment = os.environ | {"PYTHONPATH": INCLUDE}
    command = sandbox_command("up", "--state", folder)
    up = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for((folder / "logs" / "kube-apiserver.log").exists, 60, "the API server's start")
    assert left_of(folder)
    up.kill()
    up.wait()
    wait_for(lambda: not left_of(folder), 30, "the end of what a killed up had started")


def test_two_ups_at_once_have_one_cluster_and_a_killed_supervisor_leaves_nothing_after_down(folder: Path) -> None:
    environment = os.environ | {"PYTHONPATH": INCLUDE}
    command = sandbox_command("up", "--state", folder)
    ups = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    told = {up.communicate()[0].splitlines()[0].split()[0] for up in ups}
    assert [up.returncode for up in ups] == [0, 0]
    sandbox = Sandbox.attach(folder)
    assert sandbox is not None
    assert told == {sandbox.api_url}
    os.kill(sandbox.supervisor.pid, signal.SIGKILL)
    told_now = run(*sandbox_command("status", "--state", folder))
    assert (told_now.returncode, "no sandbox runs in" in told_now.stdout) == (1, True)
    assert run(*sandbox_command("down", "--state", folder)).returncode == 0
    assert left_of(folder) == []
    assert not folder.exists()
