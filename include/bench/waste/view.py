"""The scenarios' pods and Jobs as the API server tells of them, live; no operator is asked."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

from bench.waste.meter import Hold, Meter
from bench.waste.rows import LABEL
from bench.waste.settings import NAMESPACE
from sandbox.api import Api, ApiError, Document

PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
JOBS = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
_WATCH_S = 300
_PAUSE_S = 0.2


class View:
    """Watches from its making until :meth:`stop`. Moments are those of `time.monotonic`."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._lock = threading.Lock()
        self._meter = Meter()
        self._jobs: dict[str, Document] = {}
        self._over = threading.Event()
        for path, listed, seen in ((PODS, self._list_pods, self._see_pod), (JOBS, self._list_jobs, self._see_job)):
            threading.Thread(target=self._follow, args=(path, listed, seen), daemon=True).start()

    def stop(self) -> None:
        self._over.set()

    def holds(self, scenario: str) -> list[Hold]:
        """Give who of a scenario held GPUs, in the order in which they began."""
        with self._lock:
            return self._meter.holds(scenario)

    def jobs(self, scenario: str) -> list[Document]:
        """Give a scenario's Jobs that are there."""
        with self._lock:
            return [job for job in self._jobs.values() if job["metadata"]["labels"][LABEL] == scenario]

    def is_quiet(self, scenario: str) -> bool:
        """Tell whether no pod of a scenario holds a GPU, and no Job of it will make another."""
        with self._lock:
            held = self._meter.is_held(scenario)
        return not held and all(has_ended(job) for job in self.jobs(scenario))

    def _follow(
        self, path: str, listed: Callable[[list[Document]], None], seen: Callable[[str, Document], None]
    ) -> None:
        while not self._over.is_set():
            try:
                found = self._api.request("GET", path, query={"labelSelector": LABEL})
                with self._lock:
                    listed(found["items"])
                for event in self._events(path, found["metadata"]["resourceVersion"]):
                    if event["type"] == "ERROR":
                        break
                    with self._lock:
                        seen(event["type"], event["object"])
            except (ApiError, OSError, http.client.HTTPException, ValueError):
                time.sleep(_PAUSE_S)

    def _events(self, path: str, version: str) -> Iterator[dict[str, Any]]:
        target = f"{path}?watch=1&labelSelector={LABEL}&resourceVersion={version}&timeoutSeconds={_WATCH_S}"
        with closing(self._api.connect(_WATCH_S + 10)) as connection:
            connection.request("GET", target, headers={"Accept": "application/json"})
            response = connection.getresponse()
            while line := response.readline():
                yield json.loads(line)

    def _list_pods(self, pods: list[Document]) -> None:
        now = time.monotonic()
        self._meter.forget_absent({pod["metadata"]["uid"] for pod in pods}, now)
        for pod in pods:
            self._meter.see(pod, now)

    def _see_pod(self, kind: str, pod: Document) -> None:
        self._meter.see(pod, time.monotonic(), gone=kind == "DELETED")

    def _list_jobs(self, jobs: list[Document]) -> None:
        self._jobs = {job["metadata"]["uid"]: job for job in jobs}

    def _see_job(self, kind: str, job: Document) -> None:
        if kind == "DELETED":
            self._jobs.pop(job["metadata"]["uid"], None)
        else:
            self._jobs[job["metadata"]["uid"]] = job


def has_ended(job: Document) -> bool:
    """Tell whether a Job makes no pods any more."""
    conditions = job.get("status", {}).get("conditions") or ()
    return any(each["type"] in ("Complete", "Failed") and each["status"] == "True" for each in conditions)
