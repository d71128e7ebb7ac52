"""From a Job's final condition to the trigger's event, with many Jobs waited on in one event loop.

`python -m bench.detect [--jobs 50]`: starts a sandbox, creates Jobs that no controller touches (managedBy), waits on
all of them with TrainingJobTrigger, and has another process set each one's final condition. Measured is the time from
the return of that PATCH to the event. Exits 1 while the goal is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from sandbox.api import Api
from sandbox.cluster import Sandbox
from sandbox.control_plane import Credentials

GOAL_S = 0.1
NAMESPACE = "gpu-training"
DEPLOYMENT = "bench"
PAUSE_S = 0.05
LISTED_DEADLINE_S = 60.0


def job_document(number: int) -> dict[str, Any]:
    from gpu_training.core.naming import LABEL_DEPLOYMENT

    container = {"name": "training", "image": "none", "command": ["true"]}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": f"bench-{number}", "namespace": NAMESPACE, "labels": {LABEL_DEPLOYMENT: DEPLOYMENT}},
        "spec": {"managedBy": "gpu-training.io/bench", "template": template},
    }


def end_jobs(folder: Path, api_url: str, jobs: int) -> None:
    """Set the final condition of each Job, one after another, and print when each PATCH returned."""
    credentials = Credentials(folder / "certificates")
    api = Api(api_url, credentials.cluster.certificate, credentials.pair("admin"))
    for number in range(jobs):
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        met = {"type": "SuccessCriteriaMet", "status": "True", "lastTransitionTime": now}
        status = {
            "startTime": now,
            "completionTime": now,
            "succeeded": 1,
            "conditions": [met, {**met, "type": "Complete"}],
        }
        api.request(
            "PATCH",
            f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs/bench-{number}/status",
            {"status": status},
            content_type="application/merge-patch+json",
        )
        print(json.dumps([number, time.monotonic()]), flush=True)
        time.sleep(PAUSE_S)


async def measure(sandbox: Sandbox, jobs: int) -> list[float]:
    """Give the seconds from each PATCH's return to the trigger's event; below 0 when the event was there before."""
    from gpu_training.triggers.training import TrainingJobTrigger

    work = dict.fromkeys(("model", "fingerprint", "data_version", "data_digest", "mlflow_run_id"), "bench")
    fired: dict[int, float] = {}

    async def wait(number: int, uid: str) -> None:
        trigger = TrainingJobTrigger(
            cluster={"conn_id": None, "config_file": str(sandbox.kubeconfig)},
            job={"namespace": NAMESPACE, "name": f"bench-{number}", "uid": uid},
            work={**work, "generation": 1},
            owner=json.dumps(["bench", "bench", "bench", number, 1]),
            deployment=DEPLOYMENT,
            mlflow_conn_id="",
            contact_limit_seconds=LISTED_DEADLINE_S,
            result_required=False,
        )
        await trigger.wait()
        fired[number] = time.monotonic()

    path = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
    uids = [sandbox.api.request("POST", path, job_document(n))["metadata"]["uid"] for n in range(jobs)]
    waiting = [asyncio.create_task(wait(number, uid)) for number, uid in enumerate(uids)]
    await _until_watching(sandbox)
    command = [sys.executable, "-m", "bench.detect", "--end", str(sandbox.folder), sandbox.api_url, str(jobs)]
    ender = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    output, _ = await ender.communicate()
    await asyncio.wait_for(asyncio.gather(*waiting), LISTED_DEADLINE_S)
    return [fired[number] - patched for number, patched in map(json.loads, output.splitlines())]


async def _until_watching(sandbox: Sandbox) -> None:
    """Wait until the API server serves a watch of the namespace's Jobs."""
    deadline = time.monotonic() + LISTED_DEADLINE_S
    while time.monotonic() < deadline:
        metrics = await asyncio.to_thread(sandbox.api.request, "GET", "/metrics")
        for line in str(metrics).splitlines():
            if line.startswith("apiserver_longrunning_requests{") and 'resource="jobs"' in line and "namespace" in line:
                return
        await asyncio.sleep(PAUSE_S)
    raise TimeoutError("the trigger did not begin to watch")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=50, help="Jobs waited on at once")
    parser.add_argument("--end", nargs=3, metavar=("FOLDER", "URL", "JOBS"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.end:
        folder, url, jobs = arguments.end
        end_jobs(Path(folder), url, int(jobs))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        sandbox = Sandbox.up(Path(folder) / "sandbox", nodes=(), owner_pid=os.getpid())
        try:
            seconds = sorted(asyncio.run(measure(sandbox, arguments.jobs)))
        finally:
            sandbox.down()
    met = seconds[-1] < GOAL_S
    figures = {"p50": statistics.median(seconds), "p99": seconds[round(0.99 * (len(seconds) - 1))], "max": seconds[-1]}
    print(
        f"condition to event, {arguments.jobs} Jobs in one loop: "
        + ", ".join(f"{name} {1000 * value:.1f} ms" for name, value in figures.items())
        + f"; goal: under {1000 * GOAL_S:.0f} ms: {'met' if met else 'MISSED'}"
    )
    return 0 if met else 1


if __name__ == "__main__":
    raise SystemExit(main())
