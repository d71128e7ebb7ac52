"""Pods of one namespace on one node, as anyone sees them through the API server."""

from __future__ import annotations

import contextlib
import itertools
import json
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandbox.cluster import Sandbox
from sandbox.faults.nodes import drop_gpus, restore_gpus
from sandbox.nodes import NodeRequest
from sandbox.waiting import DeadlineError, wait_for

Document = dict[str, Any]
DEADLINE_S = 60.0
MERGE_PATCH = "application/merge-patch+json"

_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractNode:
    """The node under contract."""

    sandbox: Sandbox
    request: NodeRequest

    @property
    def name(self) -> str:
        """The Node's name."""
        return self.request.name

    @property
    def kind(self) -> str:
        """The kind of node, `process` or `containerd`."""
        return self.request.kind

    def image(self, name: str) -> str:
        """Give the reference of an image that every kind of node has."""
        return f"{name}:1"

    @contextlib.contextmanager
    def down(self) -> Iterator[None]:
        """Kill the node's program, its containers running on, and start another one afterwards."""
        supervisor, process = self.sandbox.supervisor, self.sandbox.site.process_name(self.name)
        supervisor.signal(process, signal.SIGKILL)
        wait_for(lambda: not supervisor.status()[process].alive, DEADLINE_S, "the end of the node's program")
        try:
            yield
        finally:
            supervisor.restart(process, alone=True)

    @contextlib.contextmanager
    def without_device_plugin(self) -> Iterator[None]:
        """Have the node lose its device plugin, and get it again afterwards."""
        supervisor, plugin = self.sandbox.supervisor, f"{self.sandbox.site.process_name(self.name)}.device-plugin"
        has_plugin = plugin in supervisor.status()
        if has_plugin:
            supervisor.stop(plugin)
        else:
            drop_gpus(self.sandbox, self.name)
        try:
            self._await_gpus(0)
            yield
        finally:
            if has_plugin:
                supervisor.restart(plugin)
            else:
                restore_gpus(self.sandbox, self.name)
            self._await_gpus(self.request.gpus)

    def _await_gpus(self, count: int) -> None:
        def allocatable() -> str:
            status: Document = self.sandbox.api.request("GET", self.path)["status"]
            return str(status["allocatable"].get("nvidia.com/gpu"))

        wait_for(lambda: allocatable() == str(count), DEADLINE_S, f"{count} GPUs on {self.name}")

    @property
    def path(self) -> str:
        """The Node's path in the API."""
        return f"/api/v1/nodes/{self.name}"


class Pods:
    """Pods of one namespace on the node under contract."""

    def __init__(self, node: ContractNode, namespace: str) -> None:
        self.node = node
        self.api = node.sandbox.api
        self.namespace = namespace
        self._base = f"/api/v1/namespaces/{namespace}"

    def create(self, script: str = "true", *, container: Document | None = None, **spec: Any) -> str:
        """Create a pod that runs a shell script; return its name."""
        name = f"p{next(_numbers)}"
        labels = {"nodeSelector": {"kubernetes.io/hostname": self.node.name}} if "nodeName" not in spec else {}
        body = {
            "restartPolicy": "Never",
            "dnsPolicy": "Default",
            "tolerations": [{"operator": "Exists"}],
            "terminationGracePeriodSeconds": 5,
            "containers": [self.container("main", script, **(container or {}))],
            **labels,
            **spec,
        }
        metadata = {"name": name, **body.pop("metadata", {})}
        self.api.request("POST", f"{self._base}/pods", {"metadata": metadata, "spec": body})
        return name

    def container(self, name: str, script: str, **fields: Any) -> Document:
        """Return a container that runs a shell script."""
        image = self.node.image("sandbox-shell")
        return {"name": name, "image": image, "command": ["/bin/sh", "-c", script], **fields}

    def put(self, kind: str, name: str, **content: Any) -> None:
        """Create an object of the namespace."""
        self.api.request("POST", f"{self._base}/{kind}", {"metadata": {"name": name}, **content})

    def get(self, name: str) -> Document:
        """Return a pod as it is now."""
        pod: Document = self.api.request("GET", f"{self._base}/pods/{name}")
        return pod

    def delete(self, name: str, **options: Any) -> None:
        """Have a pod deleted."""
        self.api.request("DELETE", f"{self._base}/pods/{name}", options)

    def evict(self, name: str) -> None:
        """Have a pod evicted, as a drain does."""
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
        self.api.request("POST", f"{self._base}/pods/{name}/eviction", eviction)

    def let_go(self, name: str) -> None:
        """Take the finalizers from a pod."""
        change = {"metadata": {"finalizers": None}}
        self.api.request("PATCH", f"{self._base}/pods/{name}", change, content_type=MERGE_PATCH)

    def exists(self, name: str) -> bool:
        """Whether there is such a pod."""
        return self.api.exists(f"{self._base}/pods/{name}")

    def gone(self, name: str) -> None:
        """Wait until the pod's object is gone."""
        wait_for(lambda: not self.exists(name), DEADLINE_S, f"pod {name} to be gone")

    def wait(self, name: str, condition: Callable[[Document], object], deadline_s: float = DEADLINE_S) -> Document:
        """Return the pod once the condition holds for it."""

        def asked() -> Document | None:
            pod = self.get(name)
            return pod if condition(pod) else None

        try:
            return wait_for(asked, deadline_s, f"pod {name}") or {}
        except DeadlineError as error:
            told = [f"{one['firstTimestamp']} {one['reason']}: {one['message']}" for one in self.events(name)]
            raise AssertionError("\n".join([str(error), json.dumps(self.get(name)["status"]), *told])) from error

    def ended(self, name: str, deadline_s: float = DEADLINE_S) -> Document:
        """Return the pod once its phase is final."""
        return self.wait(name, lambda pod: pod["status"]["phase"] in ("Succeeded", "Failed"), deadline_s)

    def running(self, name: str) -> Document:
        """Return the pod once its main container runs."""
        return self.wait(name, lambda pod: "running" in state_of(pod))

    def waiting(self, name: str, reason: str) -> str:
        """Return the message of a container that waits for this reason."""
        pod = self.wait(name, lambda pod: state_of(pod).get("waiting", {}).get("reason") == reason)
        return str(state_of(pod)["waiting"].get("message", ""))

    def log(self, name: str, **query: str) -> str:
        """Return a pod's log."""
        return str(self.api.request("GET", f"{self._base}/pods/{name}/log", query=query))

    def wait_for_log(self, name: str, text: str) -> None:
        """Wait until the log is this text."""
        wait_for(lambda: self.running(name) and self.log(name) == text, DEADLINE_S, f"{text!r} in the log of {name}")

    def events(self, name: str) -> list[Document]:
        """Return what the node told about a pod, oldest first."""
        query = {"fieldSelector": f"involvedObject.name={name}"}
        items = self.api.request("GET", f"{self._base}/events", query=query)["items"]
        own = [one for one in items if one["source"].get("component") == "kubelet"]
        return sorted(own, key=lambda one: (one["firstTimestamp"], int(one["metadata"]["resourceVersion"])))

    def wait_for_event(self, name: str, reason: str, words: str) -> Document:
        """Return the event of a reason that has the words in its message."""

        def look() -> Document | None:
            found = (one for one in self.events(name) if one["reason"] == reason and words in one["message"])
            return next(found, None)

        return wait_for(look, DEADLINE_S, f"event {reason} of {name} with {words!r}") or {}


def status_of(pod: Document, container: str = "main") -> Document:
    """Return the status of a container, empty where there is none yet."""
    statuses = [*pod["status"].get("initContainerStatuses", ()), *pod["status"].get("containerStatuses", ())]
    return next((one for one in statuses if one["name"] == container), {})


def state_of(pod: Document, container: str = "main") -> Document:
    """Return the state of a container, empty where there is none yet."""
    state: Document = status_of(pod, container).get("state", {})
    return state


def end_of(pod: Document, container: str = "main") -> Document:
    """Return how a container ended."""
    end: Document = state_of(pod, container)["terminated"]
    return end


def conditions_of(pod: Document) -> list[tuple[str, str, str]]:
    """Return type, status and reason of a pod's conditions, in their order."""
    return [(one["type"], one["status"], one.get("reason", "")) for one in pod["status"].get("conditions", ())]


def holds(pod: Document, condition: str) -> bool:
    """Whether a condition of the pod is True."""
    return any(kind == condition and status == "True" for kind, status, _ in conditions_of(pod))


def is_running(mark: str) -> bool:
    """Whether a process of this machine has the mark in its command line."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if mark.encode() in path.read_bytes():
                return True
    return False
