"""Who holds how many GPUs from when to when: from the pods that the API server shows, and from nothing else. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from bench.waste.rows import LABEL

GPU_RESOURCE = "nvidia.com/gpu"
_ENDED = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """One pod's hold of its GPUs: from its node's choice until it has ended or is gone, as the scheduler counts.

    :param until: None: it still holds them.
    """

    pod: str
    gpus: int
    since: float
    until: float | None = None

    def gpu_seconds(self, until: float) -> float:
        """Give what was held before a moment."""
        end = until if self.until is None else min(self.until, until)
        return self.gpus * max(0.0, end - self.since)


class Meter:
    """Pods as they were seen, by the label of their scenario. Moments are whatever clock the caller has, in seconds."""

    def __init__(self) -> None:
        self._holds: dict[str, dict[str, Hold]] = {}

    def see(self, pod: Mapping[str, Any], now: float, *, gone: bool = False) -> None:
        """Take a pod's document in; one without a scenario, without a node or without a GPU holds nothing.

        :param gone: the API server has it no more.
        """
        metadata, spec = pod["metadata"], pod["spec"]
        scenario = (metadata.get("labels") or {}).get(LABEL)
        gpus = sum(_gpus(container) for container in spec["containers"])
        if scenario is None or not spec.get("nodeName") or gpus == 0:
            return
        holds = self._holds.setdefault(scenario, {})
        hold = holds.setdefault(metadata["uid"], Hold(pod=metadata["name"], gpus=gpus, since=now))
        if hold.until is None and (gone or pod.get("status", {}).get("phase") in _ENDED):
            holds[metadata["uid"]] = replace(hold, until=now)

    def forget_absent(self, present: set[str], now: float) -> None:
        """End the holds of all pods but those of these UIDs."""
        for holds in self._holds.values():
            for uid, hold in holds.items():
                if hold.until is None and uid not in present:
                    holds[uid] = replace(hold, until=now)

    def holds(self, scenario: str) -> list[Hold]:
        """Give a scenario's holds in the order in which they began."""
        return sorted(self._holds.get(scenario, {}).values(), key=lambda hold: hold.since)

    def is_held(self, scenario: str) -> bool:
        """Tell whether a pod of the scenario holds a GPU now."""
        return any(hold.until is None for hold in self.holds(scenario))


def gpu_seconds(holds: list[Hold], until: float) -> float:
    """Give what all of them held before a moment."""
    return sum(hold.gpu_seconds(until) for hold in holds)


def _gpus(container: Mapping[str, Any]) -> int:
    return int(((container.get("resources") or {}).get("limits") or {}).get(GPU_RESOURCE, 0))
