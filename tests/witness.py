"""What pods say, heard by others than the product: each log is read from the API server, as `kubectl logs` reads it."""

from __future__ import annotations

import http.client
import json
from contextlib import closing, suppress
from dataclasses import dataclass, field
from threading import Event, Thread
from types import TracebackType
from typing import Any

from sandbox.cluster import Sandbox

_SILENCE_S = 2.0
_POLL_S = 0.1
_OVER = ("Succeeded", "Failed")

Document = dict[str, Any]


@dataclass
class Voice:
    """What a pod has said.

    :ivar is_over: whether its containers have ended, or it is gone.
    """

    uid: str
    pod: str
    lines: list[str] = field(default_factory=list)
    is_over: bool = False

    @property
    def progress(self) -> list[Document]:
        """Its progress lines."""
        return [json.loads(line.split(" ", 1)[1]) for line in self.lines if line.startswith("GPU_TRAINING_PROGRESS ")]

    @property
    def result(self) -> Document:
        """Its result document; empty where it has not come so far."""
        told = [line.split(" ", 1)[1] for line in self.lines if line.startswith("GPU_TRAINING_RESULT ")]
        return dict(json.loads(told[-1])) if told else {}

    @property
    def first_step(self) -> int:
        """First step that it did; all that it has said of that agrees."""
        (first,) = {line["first_step"] for line in (*self.progress, self.result) if "first_step" in line}
        return int(first)

    @property
    def last_step(self) -> int:
        """Last step that it is known to have done; 0 while it has not said of any."""
        return max((*(line["step"] for line in self.progress), self.result.get("last_step", 0)), default=0)

    @property
    def steps(self) -> range:
        """The steps that it did."""
        return range(self.first_step, self.last_step + 1)


class Witness:
    """Hears all pods that come in a namespace, each from its first line to its last."""

    def __init__(self, sandbox: Sandbox, namespace: str) -> None:
        self.voices: dict[str, Voice] = {}
        """By UID, by age."""
        self._api = sandbox.api
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._earlier = self._pods().keys()
        self._stopping = Event()
        self._threads = [Thread(target=self._look, name="witness")]

    def __enter__(self) -> Witness:
        self._threads[0].start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def _look(self) -> None:
        while not self._stopping.wait(_POLL_S):
            pods = self._pods()
            for uid, pod in pods.items():
                if uid not in self.voices and uid not in self._earlier:
                    voice = self.voices[uid] = Voice(uid, pod["metadata"]["name"])
                    self._threads.append(Thread(target=self._listen, args=(voice,), name=f"witness of {voice.pod}"))
                    self._threads[-1].start()
            for uid, voice in self.voices.items():
                voice.is_over = uid not in pods or pods[uid]["status"].get("phase") in _OVER

    def _pods(self) -> dict[str, Document]:
        pods = self._api.request("GET", self._path)["items"]
        by_age = sorted(pods, key=lambda pod: str(pod["metadata"]["creationTimestamp"]))
        return {pod["metadata"]["uid"]: pod for pod in by_age}

    def _listen(self, voice: Voice) -> None:
        """Read the log anew until the pod is over, and once more then: a node that dies cuts it off."""
        while not self._stopping.is_set():
            last = voice.is_over
            # No answer, or none any more: it has not begun, its node is away, or it is gone.
            with suppress(OSError, http.client.HTTPException):
                self._read(voice, follow=not last)
            if last:
                return
            self._stopping.wait(_POLL_S)

    def _read(self, voice: Voice, *, follow: bool) -> None:
        with closing(self._api.connect(_SILENCE_S)) as connection:
            connection.request("GET", f"{self._path}/{voice.pod}/log?follow={str(follow).lower()}")
            answer = connection.getresponse()
            if answer.status != http.client.OK:
                return
            for n, line in enumerate(answer):
                # A line that is cut off comes whole with the next answer.
                if n == len(voice.lines) and (line.endswith(b"\n") or not follow):
                    voice.lines.append(line.decode(errors="replace").rstrip("\n"))
