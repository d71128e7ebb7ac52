"""Waits for a container's image, and tells meanwhile why it is not there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sandbox.agent.context import PodContext
from sandbox.agent.events import Severity
from sandbox.agent.images import Image, ImageUnknownError, InvalidImageNameError
from sandbox.agent.states import Waiting

Document = Mapping[str, Any]

FIRST_BACK_OFF_S = 10.0
LONGEST_BACK_OFF_S = 300.0

PULL_SHOWN_S = 1.0
"""How long the pull error itself shows before the status says that the next pull waits."""


class ImageWaiter:
    """Gets the image of one container.

    :param tell: posts an event about the container.
    :param show: shows the container as waiting.
    """

    def __init__(
        self,
        pod: PodContext,
        container: Document,
        tell: Callable[[Severity, str, str], None],
        show: Callable[[Waiting], None],
    ) -> None:
        self._pod = pod
        self._name: str = container["image"]
        self._policy = container.get("imagePullPolicy")
        self._tell, self._show = tell, show

    async def get(self) -> Image | None:
        """Return the image once it is there; None when the pod stops first."""
        back_off_s = FIRST_BACK_OFF_S
        while not self._pod.stopping.is_set():
            try:
                return await self._pod.node.orders.pull(self._pod, self._name)
            except InvalidImageNameError as error:
                self._show(Waiting(reason="InvalidImageName", message=str(error)))
                self._tell("Warning", "InspectFailed", str(error))
                self._tell("Warning", "Failed", "Error: InvalidImageName")
                await self._pod.pause(FIRST_BACK_OFF_S)
            except ImageUnknownError as error:
                if self._policy == "Never":
                    await self._miss(back_off_s)
                else:
                    await self._fail_to_pull(str(error), back_off_s)
                back_off_s = min(LONGEST_BACK_OFF_S, back_off_s * 2)
        return None

    async def _miss(self, back_off_s: float) -> None:
        text = f'Container image "{self._name}" is not present with pull policy of Never'
        self._show(Waiting(reason="ErrImageNeverPull", message=text))
        self._tell("Warning", "ErrImageNeverPull", text)
        self._tell("Warning", "Failed", "Error: ErrImageNeverPull")
        await self._pod.pause(back_off_s)

    async def _fail_to_pull(self, error: str, back_off_s: float) -> None:
        self._tell("Normal", "Pulling", f'Pulling image "{self._name}"')
        self._tell("Warning", "Failed", f'Failed to pull image "{self._name}": {error}')
        self._tell("Warning", "Failed", "Error: ErrImagePull")
        self._show(Waiting(reason="ErrImagePull", message=error))
        await self._pod.pause(PULL_SHOWN_S)
        if self._pod.stopping.is_set():
            return
        self._tell("Normal", "BackOff", f'Back-off pulling image "{self._name}"')
        self._tell("Warning", "Failed", "Error: ImagePullBackOff")
        text = f'Back-off pulling image "{self._name}": ErrImagePull: {error}'
        self._show(Waiting(reason="ImagePullBackOff", message=text))
        await self._pod.pause(back_off_s - PULL_SHOWN_S)
