"""One container of a pod through all its runs: image, start, end, restart with back-off."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sandbox.agent.context import PodContext
from sandbox.agent.environment import ContainerConfigError
from sandbox.agent.events import Severity
from sandbox.agent.images import Image, ImageUnknownError, InvalidImageNameError
from sandbox.agent.launching import build_launch
from sandbox.agent.logs import read_tail
from sandbox.agent.processes import ContainerProcess, Exit, StartError, ViewError, read_exit
from sandbox.agent.status import ContainerView, Running, State, Terminated, Waiting, lost_end, will_restart
from sandbox.agent.termination import FILE_LIMIT_BYTES, LOG_LIMIT_LINES, build_message

Document = Mapping[str, Any]

FIRST_BACK_OFF_S = 10.0
LONGEST_BACK_OFF_S = 300.0
FORGIVEN_AFTER_S = 600.0
"""A run this long starts the back-off anew."""

CONFIG_RETRY_S = (1.0, 10.0)
"""First and longest pause before a container is tried again whose configuration was not complete."""

PULL_SHOWN_S = 1.0
"""How long the pull error itself shows before the status says that the next pull waits."""

KEPT_RUNS = 2


class ContainerRunner:
    """Runs one container until its pod stops or its restart policy says that this was all.

    :param init: an init container: it is done when it succeeded.
    """

    def __init__(self, pod: PodContext, spec: Document, *, init: bool) -> None:
        self._pod = pod
        self._spec = spec
        self._init = init
        initializes = bool(pod.document["spec"].get("initContainers"))
        self._state: State = Waiting(reason="PodInitializing" if initializes else "ContainerCreating")
        self._last: Terminated | None = None
        self._runs = 0
        self._image_id = ""
        self._container_id = ""
        self._back_off_s = 0.0
        self._process: ContainerProcess | None = None
        self._folder: Path = pod.folder / "containers" / str(spec["name"])

    @property
    def name(self) -> str:
        """The container's name in its pod."""
        return str(self._spec["name"])

    @property
    def view(self) -> ContainerView:
        """The container as it is now."""
        return ContainerView(
            name=self.name,
            image=self._spec["image"],
            state=self._state,
            last=self._last,
            restart_count=max(0, self._runs - 1),
            image_id=self._image_id,
            container_id=self._container_id,
        )

    @property
    def running(self) -> bool:
        """Whether its process runs."""
        return self._process is not None

    def log_of(self, *, previous: bool) -> Path:
        """Return the log of the newest run, or of the one before it. It may not exist."""
        return self._run_folder(self._runs - (2 if previous else 1)) / "log"

    def refuse(self, message: str) -> None:
        """Say that the container can not be made, for a reason that lies in its pod."""
        self._show(Waiting(reason="CreateContainerConfigError", message=message))
        self._tell("Warning", "Failed", f"Error: {message}")

    def terminate(self) -> None:
        """Ask the running process to end."""
        if self._process is not None:
            self._tell("Normal", "Killing", f"Stopping container {self.name}")
            self._process.terminate()

    def kill(self) -> None:
        """End the running process with everything it started."""
        if self._process is not None:
            self._process.kill()

    def restore(self) -> None:
        """Find again what an earlier agent started: runs that ended, and one that may still go on."""
        numbers = sorted(int(entry.name) for entry in self._folder.glob("[0-9]*") if (entry / "spec.json").exists())
        for number in numbers:
            folder = self._run_folder(number)
            record = json.loads((folder / "spec.json").read_text())["record"]
            self._runs, self._last = number + 1, self._state if isinstance(self._state, Terminated) else None
            self._container_id, self._image_id = record["container_id"], record["image_id"]
            self._process = ContainerProcess.find(folder)
            if self._process is not None:
                self._state = Running(started_ns=self._process.started_ns)
            else:
                self._state = self._end_of(read_exit(folder))

    def assume_lost(self, restarts: int) -> None:
        """Take note that the container ran, though nothing of it is left."""
        self._runs = restarts + 1
        self._state = lost_end()

    async def run(self) -> None:
        """Run the container as often as it takes."""
        await self._follow()
        while not self._pod.stopping.is_set() and self._wants_to_run():
            await self._wait_to_restart()
            await self._start()
            await self._follow()

    def _wants_to_run(self) -> bool:
        ended = self._state if isinstance(self._state, Terminated) else None
        if ended is None:
            return True
        policy = self._pod.document["spec"].get("restartPolicy", "Always")
        # An init container that succeeded is done, also where the others run for ever.
        return will_restart("OnFailure" if self._init and policy == "Always" else policy, ended.exit_code)

    async def _wait_to_restart(self) -> None:
        """Wait as the kubelet does: not before the first restart, then 10 s from the end, twice as long each time."""
        ended = self._state
        if not isinstance(ended, Terminated):
            return
        finished = ended.finished_ns or time.time_ns()
        if ended.started_ns and finished - ended.started_ns >= FORGIVEN_AFTER_S * 10**9:
            self._back_off_s = 0.0
        delay, self._back_off_s = self._back_off_s, min(LONGEST_BACK_OFF_S, self._back_off_s * 2 or FIRST_BACK_OFF_S)
        left = delay - (time.time_ns() - finished) / 10**9
        if left <= 0:
            return
        metadata = self._pod.document["metadata"]
        pod = f"{metadata['name']}_{metadata['namespace']}({metadata['uid']})"
        before = self._last
        text = f"back-off {_duration(delay)} restarting failed container={self.name} pod={pod}"
        self._show(Waiting(reason="CrashLoopBackOff", message=text))
        self._tell("Warning", "BackOff", f"Back-off restarting failed container {self.name} in pod {pod}")
        await self._pod.pause(left)
        if self._pod.stopping.is_set():
            self._state, self._last = ended, before

    async def _start(self) -> None:
        """Try until the container runs, has failed to, or its pod stops."""
        pull_s, config_s = FIRST_BACK_OFF_S, CONFIG_RETRY_S[0]
        while not self._pod.stopping.is_set():
            try:
                image = await self._pod.node.orders.pull(self._pod, self._spec["image"])
                await self._launch(image)
                return
            except InvalidImageNameError as error:
                self._show(Waiting(reason="InvalidImageName", message=str(error)))
                self._tell("Warning", "InspectFailed", str(error))
                self._tell("Warning", "Failed", "Error: InvalidImageName")
                await self._pod.pause(pull_s)
            except ImageUnknownError as error:
                await self._fail_to_pull(str(error), pull_s)
                pull_s = min(LONGEST_BACK_OFF_S, pull_s * 2)
            except (ContainerConfigError, ViewError) as error:
                self.refuse(str(error))
                await self._pod.pause(config_s)
                config_s = min(CONFIG_RETRY_S[1], config_s * 2)

    async def _fail_to_pull(self, error: str, back_off_s: float) -> None:
        image = self._spec["image"]
        if self._spec.get("imagePullPolicy") == "Never":
            text = f'Container image "{image}" is not present with pull policy of Never'
            self._show(Waiting(reason="ErrImageNeverPull", message=text))
            self._tell("Warning", "ErrImageNeverPull", text)
            self._tell("Warning", "Failed", "Error: ErrImageNeverPull")
            await self._pod.pause(back_off_s)
            return
        self._tell("Normal", "Pulling", f'Pulling image "{image}"')
        self._tell("Warning", "Failed", f'Failed to pull image "{image}": {error}')
        self._tell("Warning", "Failed", "Error: ErrImagePull")
        self._show(Waiting(reason="ErrImagePull", message=error))
        await self._pod.pause(PULL_SHOWN_S)
        if not self._pod.stopping.is_set():
            self._tell("Normal", "BackOff", f'Back-off pulling image "{image}"')
            self._tell("Warning", "Failed", "Error: ImagePullBackOff")
            text = f'Back-off pulling image "{image}": ErrImagePull: {error}'
            self._show(Waiting(reason="ImagePullBackOff", message=text))
            await self._pod.pause(back_off_s - PULL_SHOWN_S)

    async def _launch(self, image: Image) -> None:
        number = self._runs
        folder = self._run_folder(number)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        container_id = f"process://{self._pod.document['metadata']['uid']}-{self.name}-{number}"
        record = {"container_id": container_id, "image_id": image.identity}
        launch = await build_launch(self._pod, self._spec, image, folder, record)
        present = f'Container image "{self._spec["image"]}" already present on machine and can be accessed by the pod'
        self._tell("Normal", "Pulled", present)
        self._tell("Normal", "Created", "Container created")
        try:
            self._process = await ContainerProcess.start(self._pod.node.launcher, folder, launch, self._pod.namespaces)
        except StartError as error:
            self._tell("Warning", "Failed", f"Error: {error}")
            self._begin_run(record)
            self._show(self._end_of(read_exit(folder)))
            return
        except ViewError:
            # It never was a run: nothing of it may be found by a restarted agent.
            shutil.rmtree(folder)
            raise
        self._tell("Normal", "Started", "Container started")
        self._begin_run(record)
        self._show(Running(started_ns=self._process.started_ns))
        if self._pod.stopping.is_set():
            self.terminate()

    def _begin_run(self, record: Mapping[str, str]) -> None:
        self._runs += 1
        self._container_id, self._image_id = record["container_id"], record["image_id"]
        if self._runs > KEPT_RUNS:
            shutil.rmtree(self._run_folder(self._runs - 1 - KEPT_RUNS), ignore_errors=True)

    async def _follow(self) -> None:
        if self._process is None:
            return
        end = await self._process.wait()
        self._process = None
        self._show(self._pod.node.orders.end_of(self._end_of(end)))

    def _end_of(self, end: Exit) -> Terminated:
        if not end.seen:
            return lost_end(self._container_id)
        folder = self._run_folder(self._runs - 1)
        if end.fault is not None:
            # The runtime knows no start of it, and Go's zero time is written as the epoch.
            return Terminated(
                exit_code=128,
                reason="StartError",
                message=end.fault,
                started_ns=0,
                finished_ns=end.finished_ns,
                container_id=self._container_id,
            )
        message = build_message(
            _end_of_file(folder / "termination-log"),
            policy=self._spec.get("terminationMessagePolicy", "File"),
            exit_code=end.exit_code,
            log_tail=read_tail(folder / "log", LOG_LIMIT_LINES),
            containers=self._pod.container_count,
        )
        return Terminated(
            exit_code=end.exit_code,
            reason="Error" if end.exit_code else "Completed",
            message=message,
            started_ns=end.started_ns,
            finished_ns=end.finished_ns,
            container_id=self._container_id,
        )

    def _run_folder(self, number: int) -> Path:
        return self._folder / str(number)

    def _show(self, state: State) -> None:
        if isinstance(self._state, Terminated):
            self._last = self._state
        self._state = state
        self._pod.changed()

    def _tell(self, severity: Severity, reason: str, message: str) -> None:
        section = "initContainers" if self._init else "containers"
        self._pod.tell(severity, reason, message, field_path=f"spec.{section}{{{self.name}}}")


def _end_of_file(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - FILE_LIMIT_BYTES))
            return file.read(FILE_LIMIT_BYTES)
    except FileNotFoundError:
        return b""


def _duration(seconds: float) -> str:
    """Write a delay as Go does: 10s, 1m20s."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
