"""Pods that write, read and prune checkpoints of one lineage at once, in every order that their requests may have.

Each pod is a thread that stands still before each request to the store until it is told to go on, so that a test has
the order of all requests in its hand, and may kill a pod between any two.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from gpu_training.checkpoints import Checkpoint, Checkpoints
from gpu_training.contract import (
    CHECKPOINT_MARKER,
    Marker,
    TornCheckpointError,
    checkpoint_folder,
    content_sha256,
    find_candidates,
    parse_marker,
)

FINGERPRINT = "f"
LAST_STEP = 6


class Killed(BaseException):
    """The pod is gone."""


@dataclass
class Files:
    """What the store holds, and since when.

    :ivar now: seconds, one a request.
    """

    contents: dict[str, bytes] = field(default_factory=dict)
    written: dict[str, float] = field(default_factory=dict)
    now: float = 0

    def marked(self) -> dict[str, Marker]:
        """Give what the markers say that can be read, by folder."""
        found = {}
        for path, content in self.contents.items():
            folder, _, name = path.rpartition("/")
            if name == CHECKPOINT_MARKER:
                with suppress(TornCheckpointError):
                    found[folder] = parse_marker(content, step_of(folder))
        return found

    def whole(self) -> set[str]:
        """Give the folders whose files are as the marker says."""
        return {
            folder
            for folder, marker in self.marked().items()
            if all(
                content_sha256(self.contents.get(f"{folder}/{name}", b"")) == digest
                for name, digest in marker.files.items()
            )
        }

    def newest_step(self) -> int:
        return max((step_of(folder) for folder in self.whole()), default=0)


def step_of(folder: str) -> int:
    return int(folder.rpartition("step-")[2])


def content(writer: str, run: int, step: int) -> dict[str, bytes]:
    return {name: f"{name} of {writer} in run {run} after step {step}".encode() for name in ("model", "optimizer")}


class Pod:
    """A training: it reads the newest checkpoint, then writes one after each step and prunes.

    :param name: whose folder it writes to; a container that is started again has its predecessor's.
    :param run: which of the containers it is.
    :param is_blind: it reads nothing and begins at the first step, since the store did not answer it.
    """

    uri = "memory://checkpoints"

    def __init__(self, files: Files, name: str, run: int, *, keep: int, is_blind: bool) -> None:
        self.name, self._run, self._is_blind = name, run, is_blind
        self.resumed: Checkpoint[bytes] | None = None
        self.oldest_acceptable = files.newest_step()
        self.has_read = False
        self.own_steps: set[int] = set()
        self.removed: list[str] = []
        self.is_over = self.is_writing = False
        self._files = files
        self._checkpoints = Checkpoints(self, writer=name, fingerprint=FINGERPRINT, keep=keep, say=lambda text: None)
        self._may_go, self._stands = threading.Semaphore(0), threading.Semaphore(0)
        self._is_doomed = False
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._live, daemon=True)
        self._thread.start()
        self._stands.acquire()

    def _live(self) -> None:
        try:
            if not self._is_blind:
                self.resumed = self._checkpoints.newest(last_step=LAST_STEP)
                self.has_read = True
            for step in range((self.resumed.step if self.resumed else 0) + 1, LAST_STEP + 1):
                self.is_writing = True
                if self._checkpoints.save(step, content(self.name, self._run, step)):
                    self.own_steps.add(step)
                self.is_writing = False
                self._checkpoints.prune()
        except Killed:
            pass
        except BaseException as error:
            self.error = error
        self.is_over, self.is_writing = True, False
        self._stands.release()

    @property
    def in_use(self) -> str | None:
        """The checkpoint that whoever comes after this pod would want: its own newest, or the one that it came from."""
        if self.own_steps:
            return checkpoint_folder(self.name, max(self.own_steps))
        return self.resumed.folder if self.resumed is not None else None

    def go_on(self) -> None:
        """Let it do one request, and what it does until the next."""
        if not self.is_over:
            self._may_go.release()
            self._stands.acquire()

    def kill(self) -> None:
        self._is_doomed = True
        self.go_on()
        self._thread.join()

    def _request(self) -> None:
        self._stands.release()
        self._may_go.acquire()
        if self._is_doomed:
            raise Killed
        self._files.now += 1

    # The store, as this pod sees it: files are not written at once, nor are folders removed so.

    def ages(self) -> Mapping[str, float]:
        self._request()
        return {path: self._files.now - written for path, written in self._files.written.items()}

    def read(self, path: str) -> bytes:
        self._request()
        if path not in self._files.contents:
            raise FileNotFoundError(path)
        return self._files.contents[path]

    def fetch(self, path: str) -> tuple[bytes, str]:
        found = self.read(path)
        return found, content_sha256(found)

    def write(self, path: str, content: bytes) -> None:
        for part in (content[: len(content) // 2], content):
            self._request()
            self._files.contents[path] = part
            self._files.written[path] = self._files.now

    def remove(self, path: str) -> None:
        for each in [each for each in self._files.contents if each == path or each.startswith(f"{path}/")] or [path]:
            self._request()
            if each.endswith(CHECKPOINT_MARKER) and not self.is_writing:
                self.removed.append(each.removesuffix(f"/{CHECKPOINT_MARKER}"))
            self._files.contents.pop(each, None)
            self._files.written.pop(each, None)


class World:
    """All pods of a lineage, and what has to hold after each request of any of them."""

    def __init__(self, *, keep: int) -> None:
        self.files = Files()
        self.pods: list[Pod] = []
        self._keep = keep
        self._newest = 0

    def start(self, *, again: bool = False, is_blind: bool = False) -> None:
        """Start a pod; `again`: the container of the last one that is over, under the same name."""
        living = {pod.name for pod in self.living}
        over = [pod.name for pod in self.pods if pod.name not in living]
        name = over[-1] if again and over else f"pod-{len(self.pods)}"
        self.pods.append(Pod(self.files, name, len(self.pods), keep=self._keep, is_blind=is_blind))

    @property
    def living(self) -> list[Pod]:
        return [pod for pod in self.pods if not pod.is_over]

    def wait_hours(self) -> None:
        """Let time pass: no write takes so long, so that whoever writes is through with it before."""
        for pod in self.living:
            self.do(pod, lambda pod=pod: [pod.go_on() for _ in iter(lambda: pod.is_writing, False)])  # type: ignore[misc]
        self.files.now += 7200

    def do(self, pod: Pod, action: Callable[[], object]) -> None:
        in_use, had_read = pod.in_use, pod.has_read
        pod.removed.clear()
        action()
        assert pod.error is None, pod.error
        if pod.has_read and not had_read:
            self._check_what_was_read(pod)
        assert in_use not in pod.removed, f"{pod.name} removed {in_use}, which it uses"
        whole = self.files.whole()
        assert self.files.marked().keys() == whole, "a marker is there, and what it says is not"
        newest = max((step_of(folder) for folder in whole), default=0)
        assert newest >= self._newest, f"the newest whole checkpoint was of step {self._newest}, now of {newest}"
        self._newest = newest

    def _check_what_was_read(self, pod: Pod) -> None:
        step = pod.resumed.step if pod.resumed else 0
        assert step >= pod.oldest_acceptable, f"{pod.name} reads step {step}, {pod.oldest_acceptable} was there"
        if pod.resumed is not None:
            writer = pod.resumed.folder.partition("/")[0]
            possible = [content(writer, run, step) for run in range(len(self.pods))]
            assert dict(pod.resumed.files) in possible, f"{pod.name} reads what is not whole"

    def end(self) -> None:
        for pod in self.living:
            pod.kill()


def candidates_of(files: Files) -> list[str]:
    return [candidate.folder for candidate in find_candidates(dict.fromkeys(files.contents, 0.0))]
