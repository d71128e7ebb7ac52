"""Pods of the sandbox that say numbered lines when they are told to."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.logs import writer
from sandbox.cluster import Sandbox
from sandbox.waiting import wait_for

NAMESPACE = "bench-logs"
NODE = "logs"
CONTAINER = "training"
LABEL = "bench-logs"
DEADLINE_S = 120.0
WRITTEN_S = 900.0


class Stream:
    """Pods that say as many lines each.

    :ivar label: that all of them have, and no others.
    """

    def __init__(self, sandbox: Sandbox, folder: Path, *, pods: int, lines: int) -> None:
        self.lines = lines
        self._api = sandbox.api
        self._path = f"/api/v1/namespaces/{NAMESPACE}/pods"
        name = f"says-{secrets.token_hex(3)}"
        self.label = f"{LABEL}={name}"
        self._folder = folder / name
        self._folder.mkdir()
        self.names = [f"{name}-{number}" for number in range(pods)]
        for each in self.names:
            self._api.request("POST", self._path, self._document(each, name))
        wait_for(lambda: self._count(self._is_running) == pods, DEADLINE_S, f"{pods} pods to run")

    def go(self) -> None:
        """Have them say all but the first line."""
        (self._folder / writer.GO).touch()

    def end(self) -> None:
        """Have them end, once they have said all; return when they have."""
        (self._folder / writer.END).touch()
        pods = len(self.names)
        wait_for(
            lambda: self._count(lambda pod: pod["status"]["phase"] == "Succeeded") == pods, DEADLINE_S, "their end"
        )

    def wait_until_written(self) -> None:
        """Wait until all that they say is in their logs."""
        last = writer.TEXT % (self.lines - 1) + "\n"
        for name in self.names:
            path, query = f"{self._path}/{name}/log", {"tailLines": "1"}
            wait_for(
                lambda path=path, query=query: self._api.request("GET", path, query=query) == last,  # type: ignore[misc]
                WRITTEN_S,
                f"all lines of {name}",
                pause_s=0.2,
            )

    def remove(self) -> None:
        """Remove the pods, and their logs with them."""
        for name in self.names:
            self._api.request("DELETE", f"{self._path}/{name}", {"gracePeriodSeconds": 1})
        wait_for(lambda: not self._items(), DEADLINE_S, "the pods to be gone")

    def _items(self) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self._api.request("GET", self._path, query={"labelSelector": self.label})["items"]
        return items

    def _count(self, is_so: Any) -> int:
        return sum(map(bool, map(is_so, self._items())))

    @staticmethod
    def _is_running(pod: dict[str, Any]) -> bool:
        return any("running" in each["state"] for each in pod["status"].get("containerStatuses", ()))

    def _document(self, name: str, value: str) -> dict[str, Any]:
        command = ["python3", "-S", "-E", writer.__file__, str(self.lines), str(self._folder)]
        return {
            "metadata": {"name": name, "labels": {LABEL: value}},
            "spec": {
                "nodeName": NODE,
                "restartPolicy": "Never",
                "automountServiceAccountToken": False,
                "containers": [{"name": CONTAINER, "image": "sandbox-shell:1", "command": command}],
            },
        }


@contextmanager
def stream(sandbox: Sandbox, folder: Path, *, pods: int, lines: int) -> Iterator[Stream]:
    """Give pods that run and have said their first line, and remove them afterwards."""
    made = Stream(sandbox, folder, pods=pods, lines=lines)
    try:
        yield made
    finally:
        made.remove()
