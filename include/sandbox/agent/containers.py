"""One container of a pod through all its runs: image, start, end, restart with back-off."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sandbox.agent.back_off import RestartBackOff, format_delay
from sandbox.agent.context import PodContext
from sandbox.agent.ends import read_end
from sandbox.agent.environment import ContainerConfigError
from sandbox.agent.events import Severity
from sandbox.agent.images import Image
from sandbox.agent.launching import build_launch
from sandbox.agent.probes import ProbeKind, plan_kill
from sandbox.agent.probing import Prober
from sandbox.agent.processes import ContainerProcess, Exit, StartError, ViewError, read_exit
from sandbox.agent.pulling import ImageWaiter
from sandbox.agent.states import ContainerView, Running, State, Terminated, Waiting, lost_end, will_restart
from sandbox.agent.stopping import SHORTEST_GRACE_S

Document = Mapping[str, Any]

CONFIG_RETRY_S = (1.0, 10.0)
"""First and longest pause before a container is tried again whose configuration was not complete."""

KEPT_RUNS = 2


class ContainerRunner:
    """Runs one container until its pod stops or its restart policy says that this was all.

    :param init: an init container: it is done when it succeeded.
    """

    def __init__(self, pod: PodContext, spec: Document, *, init: bool) -> None:
        self._pod = pod
        self._spec = spec
        self._init = init
        self._policy = str(pod.document["spec"].get("restartPolicy", "Always"))
        initializes = bool(pod.document["spec"].get("initContainers"))
        self._state: State = Waiting(reason="PodInitializing" if initializes else "ContainerCreating")
        self._last: Terminated | None = None
        self._runs = 0
        self._image_id = ""
        self._container_id = ""
        self._back_off = RestartBackOff()
        self._images = ImageWaiter(pod, spec, self._tell, self._show)
        self._prober = Prober(pod, spec, self._tell, self._end_unhealthy)
        self._unhealthy = False
        self._ended_run: Running | None = None
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
            state=self._told_state(),
            last=self._last,
            restart_count=max(0, self._runs - 1),
            image_id=self._image_id,
            container_id=self._container_id,
        )

    @property
    def running(self) -> bool:
        """Whether its process runs."""
        return self._process is not None

    def _told_state(self) -> State:
        # Between a run that a probe ended and the next one a kubelet tells nothing; under restartPolicy OnFailure the
        # API server would not take back an end with exit code 0.
        goes_on = isinstance(self._state, Terminated) and not self._pod.stopping.is_set()
        state = self._ended_run if self._ended_run and goes_on else self._state
        if not isinstance(state, Running):
            return state
        health = self._prober.health
        return dataclasses.replace(state, started=health.started, ready=health.ready)

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

    def restore(self, told: Document) -> None:
        """Find again what an earlier agent started: runs that ended, and one that may still go on.

        :param told: the container's status as that agent wrote it last; empty when there is none.
        """
        numbers = sorted(int(entry.name) for entry in self._folder.glob("[0-9]*") if (entry / "spec.json").exists())
        for number in numbers:
            folder = self._run_folder(number)
            record = json.loads((folder / "spec.json").read_text())["record"]
            self._runs, self._last = number + 1, self._state if isinstance(self._state, Terminated) else None
            self._container_id, self._image_id = record["container_id"], record["image_id"]
            self._process = ContainerProcess.find(folder)
            if self._process is not None:
                self._state = Running(started_ns=self._process.started_ns)
                self._prober.health.assume(started=told.get("started", False), ready=told.get("ready", False))
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
        if self._unhealthy:
            # Whatever its exit code: who did not answer has not done its work.
            return self._policy != "Never"
        # An init container that succeeded is done, also where the others run for ever.
        policy = "OnFailure" if self._init and self._policy == "Always" else self._policy
        return will_restart(policy, ended.exit_code)

    async def _wait_to_restart(self) -> None:
        ended, before = self._state, self._last
        if not isinstance(ended, Terminated):
            return
        delay = self._back_off.delay_s
        left = self._back_off.wait_s(ended, now_ns=time.time_ns(), killed_after=before, killed=self._unhealthy)
        if left <= 0:
            return
        metadata = self._pod.document["metadata"]
        pod = f"{metadata['name']}_{metadata['namespace']}({metadata['uid']})"
        text = f"back-off {format_delay(delay)} restarting failed container={self.name} pod={pod}"
        self._show(Waiting(reason="CrashLoopBackOff", message=text))
        self._tell("Warning", "BackOff", f"Back-off restarting failed container {self.name} in pod {pod}")
        await self._pod.pause(left)
        if self._pod.stopping.is_set():
            self._state, self._last = ended, before

    async def _start(self) -> None:
        """Try until the container runs, has failed to, or its pod stops."""
        pause_s = CONFIG_RETRY_S[0]
        while (image := await self._images.get()) is not None:
            try:
                await self._launch(image)
                return
            except (ContainerConfigError, ViewError) as error:
                self.refuse(str(error))
                await self._pod.pause(pause_s)
                pause_s = min(CONFIG_RETRY_S[1], pause_s * 2)

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
        self._unhealthy = False
        self._prober.begin()
        self._container_id, self._image_id = record["container_id"], record["image_id"]
        if self._runs > KEPT_RUNS:
            shutil.rmtree(self._run_folder(self._runs - 1 - KEPT_RUNS), ignore_errors=True)

    async def _follow(self) -> None:
        if self._process is None:
            return
        watch = asyncio.create_task(self._prober.watch(self._process))
        try:
            end = await self._process.wait()
        finally:
            watch.cancel()
        self._process = None
        goes_on = self._unhealthy and self._policy != "Never" and not self._pod.stopping.is_set()
        self._ended_run = self._state if goes_on and isinstance(self._state, Running) else None
        # A kubelet keeps one run that ended, so the log of the one before goes.
        self.log_of(previous=True).unlink(missing_ok=True)
        self._show(self._pod.node.orders.end_of(self._end_of(end)))

    def _end_unhealthy(self, kind: ProbeKind) -> None:
        """End the run since a probe has failed."""
        process, spec = self._process, self._pod.document["spec"]
        if process is None or self._pod.stopping.is_set():
            return
        self._unhealthy = True
        kill = plan_kill(spec, self._spec, kind, is_last=self._pod.running() == 1)
        self._tell("Normal", "Killing", kill.message)
        process.terminate()
        asyncio.get_running_loop().call_later(max(SHORTEST_GRACE_S, kill.grace_s), process.kill)

    def _end_of(self, end: Exit) -> Terminated:
        folder, sharing = self._run_folder(self._runs - 1), self._pod.container_count
        return read_end(end, folder, self._spec, container_id=self._container_id, sharing=sharing)

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
