"""What only real containers can show: limits that are enforced, and a machine that they do not see."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.containerd.restricted import GROUP, USER, RestrictedPods
from tests.contract.pods import end_of, status_of

from sandbox.containerd.store import Store
from sandbox.waiting import wait_for

pytestmark = pytest.mark.containerd

DEADLINE_S = 60.0
ROOT = Path(__file__).resolve().parents[2]


def limited(memory: str) -> dict[str, Any]:
    return {"resources": {"limits": {"memory": memory, "cpu": "100m"}}}


def test_program_that_takes_more_memory_than_its_limit_is_killed_for_it(pods: RestrictedPods) -> None:
    greedy = "exec python3 -c 'held = bytearray(200 << 20)'"
    alone = pods.create(greedy, container=limited("48Mi"))
    child = pods.create(f"({greedy}); echo $?; exit 0", container=limited("48Mi"))
    end = end_of(pods.ended(alone))
    assert (end["reason"], end["exitCode"]) == ("OOMKilled", 137)
    # What exits with 0 has succeeded, whatever the kernel took from it: the reason stays, the phase is another.
    pod = pods.ended(child)
    assert (end_of(pod)["exitCode"], pod["status"]["phase"]) == (0, "Succeeded")
    assert "137" in pods.log(child)


def test_container_is_who_it_is_to_be_and_writes_only_where_it_may(pods: RestrictedPods) -> None:
    script = """
        id -u; id -g
        touch /etc/mine 2>/dev/null && echo root is writable
        touch /scratch/mine && echo volume is writable
        grep -E '^(CapEff|NoNewPrivs|Seccomp):' /proc/self/status | tr -d '\\t'
    """
    name = pods.create(
        script,
        container={"volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}]},
        volumes=[{"name": "scratch", "emptyDir": {}}],
    )
    pods.ended(name)
    assert pods.log(name).split("\n") == [
        *(str(USER), str(GROUP), "volume is writable", "CapEff:0000000000000000", "NoNewPrivs:1", "Seccomp:2", ""),
    ]


def test_container_sees_nothing_of_the_machine_but_its_network(pods: RestrictedPods) -> None:
    port = urlsplit(pods.api.url).port
    script = f"""
        ls -d {ROOT} 2>&1
        ls /proc | grep -c '^[0-9]'
        python3 -c "import socket; print(socket.create_connection(('127.0.0.1', {port})).getpeername()[0])"
        cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max 2>/dev/null
    """
    name = pods.create(script, container=limited("64Mi"))
    pods.ended(name)
    seen = pods.log(name).splitlines()
    assert "No such file" in seen[0]
    assert int(seen[1]) < 8
    assert seen[2:] == ["127.0.0.1", str(64 << 20)]


def test_image_is_had_by_its_digest_and_told_by_it(pods: RestrictedPods) -> None:
    reference = Store.prepare(lambda _: None).reference("xgboost-trainer")
    name = pods.create("python -c 'import trainer, gpu_training.contract'", container={"image": reference})
    pod = pods.ended(name)
    assert end_of(pod)["exitCode"] == 0
    assert status_of(pod)["imageID"] == f"docker.io/library/{reference}"


def test_log_is_rotated_by_size_and_its_end_is_kept(pods: RestrictedPods, sandbox_folder: Path) -> None:
    line = "x" * 1000
    name = pods.create(f"for n in $(seq 300); do echo $n {line}; done; exec sleep 600")
    uid = pods.running(name)["metadata"]["uid"]
    folder = next((sandbox_folder / "nodes" / pods.node.name / "logs" / "pods").glob(f"*{uid}")) / "main"
    wait_for(lambda: len(list(folder.iterdir())) > 1, DEADLINE_S, "the log to be rotated")
    rotated = [file.stat().st_size for file in folder.iterdir()]
    assert len(rotated) == 2
    assert not pods.log(name).startswith("1 ")
