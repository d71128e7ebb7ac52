"""A pod's volumes: made before its containers start, and kept in step with the objects that they show."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from sandbox.agent import volumes
from sandbox.agent.context import PodContext
from sandbox.agent.objects import ObjectUnavailableError
from sandbox.agent.processes import PodNamespaces, ViewError
from sandbox.agent.quantities import parse_quantity
from sandbox.agent.volume_files import make_folder, write_files
from sandbox.agent.volumes import VolumeError, VolumeInputs, VolumeUnsupportedError

Document = Mapping[str, Any]

RETRY_S = (0.5, 5.0)
"""First and longest pause before a volume that was not ready is tried again."""

REFRESH_S = 60.0
"""How often what volumes show is brought up to date; the kubelet takes about as long."""

logger = logging.getLogger(__name__)


class PodVolumes:
    """The volumes of one pod."""

    def __init__(self, pod: PodContext) -> None:
        self._pod = pod
        self._volumes: list[Document] = list(pod.document["spec"].get("volumes") or ())

    async def prepare(self, *, made_before: bool = False) -> None:
        """Make all volumes, as often as it takes; return early when the pod stops.

        :param made_before: containers of the pod run already, and nothing may keep their end from being seen; what the
            volumes show is brought up to date later.
        :raises VolumeUnsupportedError: when this kind of node can not give one.
        """
        for volume in self._volumes:
            volumes.kind_of(volume)
            make_folder(self._pod.volume_folder(volume["name"]))
        await self._make_memory_volumes()
        pause = RETRY_S[0]
        while not (made_before or self._pod.stopping.is_set()):
            try:
                await self._write()
                return
            except VolumeError as error:
                self._pod.tell("Warning", "FailedMount", str(error))
            await self._pod.pause(pause)
            pause = min(RETRY_S[1], pause * 2)

    async def keep_fresh(self) -> None:
        """Bring the volumes up to date now and then, until cancelled."""
        while True:
            await asyncio.sleep(REFRESH_S)
            try:
                await self._write()
            except (VolumeError, OSError) as error:
                # What was there stays: a container does not lose its files because an object went.
                logger.warning("volumes of pod %s not refreshed: %s", self._pod.folder.name, error)

    def close(self) -> None:
        """Let the memory volumes go."""
        if self._pod.namespaces is not None:
            self._pod.namespaces.close()
            self._pod.namespaces = None

    async def _make_memory_volumes(self) -> None:
        sizes: dict[str, int | None] = {}
        for volume in self._volumes:
            size = volumes.memory_size(volume)
            if size is not None:
                sizes[str(self._pod.volume_folder(volume["name"]))] = int(parse_quantity(size)) if size else None
        if not sizes or self._pod.node.namespace_fault is not None:
            return
        try:
            self._pod.namespaces = await PodNamespaces.open(self._pod.node.launcher, self._pod.folder, sizes)
        except ViewError as error:
            raise VolumeUnsupportedError(str(error)) from error

    async def _write(self) -> None:
        for volume in self._volumes:
            sources, tokens = volumes.referenced_sources(volume), volumes.referenced_tokens(volume)
            if "emptyDir" in volume:
                continue
            try:
                inputs = VolumeInputs(
                    sources=await self._pod.objects.read(sources),
                    tokens=await self._pod.objects.tokens(tokens),
                    allocatable=self._pod.node.allocatable,
                )
            except ObjectUnavailableError as error:
                text = f'MountVolume.SetUp failed for volume "{volume["name"]}" : {error}'
                raise VolumeError(text) from error
            write_files(
                self._pod.volume_folder(volume["name"]), volumes.build_files(self._pod.document, volume, inputs)
            )
