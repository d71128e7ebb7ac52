"""What trainings cost, counted from the cluster alone: how long each pod has its GPUs, how many Jobs live at once.

Nothing of the project is asked, and nothing that it writes is read: a training is known by an argument of its program.
"""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from sandbox.api import Api, ApiError

Document = Mapping[str, Any]

_WATCH_S = 300
_SILENCE_S = 30.0
_PAUSE_S = 0.5


@dataclass(slots=True, kw_only=True)
class Hold:
    """A pod that has a node.

    :param since: seconds of a monotonic clock.
    :param until: None while it holds its GPUs.
    """

    pod: str
    gpus: int
    since: float
    until: float | None = None

    def gpu_seconds(self, now: float) -> float:
        return self.gpu_seconds_until(now, now)

    def gpu_seconds_until(self, moment: float, now: float) -> float:
        """Give what it has had by a moment."""
        end = now if self.until is None else self.until
        return self.gpus * max(0.0, min(moment, end) - self.since)


@dataclass(slots=True, kw_only=True)
class Tally:
    """What is known of one training. Fed with what a watch tells, in its order.

    A pod holds GPUs from the moment that it has a node until it is in a final phase or gone; a Job lives from its
    creation until it is Complete, Failed or gone, and not before its pods have ended.

    :param most_live_jobs: at any moment so far.
    """

    holds: dict[str, Hold] = field(default_factory=dict)
    live_jobs: dict[str, str] = field(default_factory=dict)
    jobs: list[str] = field(default_factory=list)
    most_live_jobs: int = 0

    def see_pod(self, pod: Document, *, gone: bool, now: float) -> None:
        uid, node = pod["metadata"]["uid"], pod["spec"].get("nodeName")
        if uid not in self.holds and node and not _has_ended(pod) and not gone:
            self.holds[uid] = Hold(pod=pod["metadata"]["name"], gpus=gpus_of(pod), since=now)
        hold = self.holds.get(uid)
        if hold is not None and hold.until is None and (gone or _has_ended(pod)):
            hold.until = now

    def see_job(self, job: Document, *, gone: bool) -> None:
        uid, name = job["metadata"]["uid"], job["metadata"]["name"]
        if name not in self.jobs:
            self.jobs.append(name)
        if gone or _is_final(job):
            self.live_jobs.pop(uid, None)
        else:
            self.live_jobs[uid] = name
        self.most_live_jobs = max(self.most_live_jobs, len(self.live_jobs))

    def gpu_seconds(self, now: float) -> float:
        return sum(hold.gpu_seconds(now) for hold in self.holds.values())

    def holding(self) -> list[str]:
        """Give the pods that hold GPUs."""
        return [hold.pod for hold in self.holds.values() if hold.until is None]

    def uids_holding(self) -> list[str]:
        return [uid for uid, hold in self.holds.items() if hold.until is None]


class GpuMeter:
    """Watches Jobs and pods of a namespace in two threads; a list comes first and after every break.

    :param key_of: which training a pod spec is of; None: none that counts.
    """

    def __init__(self, api: Api, namespace: str, key_of: Callable[[Document], str | None]) -> None:
        self._api = api
        self._key_of = key_of
        self._lock = threading.Lock()
        self._tallies: dict[str, Tally] = {}
        self._stopped = threading.Event()
        self._known: dict[str, dict[str, Document]] = {}
        paths = (f"/api/v1/namespaces/{namespace}/pods", f"/apis/batch/v1/namespaces/{namespace}/jobs")
        self._threads = [threading.Thread(target=self._watch, args=(path,), daemon=True) for path in paths]
        for thread in self._threads:
            thread.start()

    def read(self, key: str) -> Tally:
        """Give what is known of a training, as a copy."""
        with self._lock:
            tally = self._tallies.get(key, Tally())
            holds = {
                uid: Hold(pod=hold.pod, gpus=hold.gpus, since=hold.since, until=hold.until)
                for uid, hold in tally.holds.items()
            }
            return Tally(
                holds=holds,
                live_jobs=dict(tally.live_jobs),
                jobs=list(tally.jobs),
                most_live_jobs=tally.most_live_jobs,
            )

    def stop(self) -> None:
        self._stopped.set()

    def _watch(self, path: str) -> None:
        while not self._stopped.is_set():
            try:
                version = self._list(path)
                for event in self._events(path, version):
                    if event["type"] == "ERROR":
                        break
                    if event["type"] != "BOOKMARK":
                        self._take(path, event["object"], gone=event["type"] == "DELETED")
            except (OSError, http.client.HTTPException, ApiError, ValueError):
                self._stopped.wait(_PAUSE_S)

    def _list(self, path: str) -> str:
        listed = self._api.request("GET", path)
        there = {item["metadata"]["uid"]: item for item in listed["items"]}
        for uid, document in list(self._known.get(path, {}).items()):
            if uid not in there:
                self._take(path, document, gone=True)
        for document in there.values():
            self._take(path, document, gone=False)
        return str(listed["metadata"]["resourceVersion"])

    def _events(self, path: str, version: str) -> Iterator[dict[str, Any]]:
        target = f"{path}?watch=1&allowWatchBookmarks=true&resourceVersion={version}&timeoutSeconds={_WATCH_S}"
        with closing(self._api.connect(_WATCH_S + _SILENCE_S)) as connection:
            connection.request("GET", target, headers={"Accept": "application/json"})
            with connection.getresponse() as response:
                for line in response:
                    if self._stopped.is_set():
                        return
                    yield json.loads(line)

    def _take(self, path: str, document: Document, *, gone: bool) -> None:
        is_job = path.endswith("/jobs")
        key = self._key_of(document["spec"]["template"]["spec"] if is_job else document["spec"])
        known = self._known.setdefault(path, {})
        if gone:
            known.pop(document["metadata"]["uid"], None)
        else:
            known[document["metadata"]["uid"]] = document
        if key is None:
            return
        with self._lock:
            tally = self._tallies.setdefault(key, Tally())
            if is_job:
                tally.see_job(document, gone=gone)
            else:
                tally.see_pod(document, gone=gone, now=time.monotonic())


def gpus_of(pod: Document) -> int:
    """Give how many GPUs the containers of a pod have."""
    limits = (each.get("resources", {}).get("limits", {}) for each in pod["spec"]["containers"])
    return sum(int(limit.get("nvidia.com/gpu", 0)) for limit in limits)


def _has_ended(pod: Document) -> bool:
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def _is_final(job: Document) -> bool:
    conditions = job.get("status", {}).get("conditions") or ()
    return any(each["type"] in ("Complete", "Failed") and each["status"] == "True" for each in conditions)
