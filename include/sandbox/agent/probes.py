"""What a container's probes say of one run of it: started, ready, alive. Pure.

https://kubernetes.io/docs/concepts/configuration/liveness-readiness-startup-probes/
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

Document = Mapping[str, Any]


class ProbeKind(StrEnum):
    """Kinds of probes, in the kubelet's words for events."""

    STARTUP = "Startup"
    READINESS = "Readiness"
    LIVENESS = "Liveness"

    @property
    def key(self) -> str:
        """Where a container has its probe of this kind."""
        return f"{self.lower()}Probe"


@dataclass(slots=True)
class ProbeTally:
    """Results of one probe during one run of its container, by its thresholds.

    :ivar verdict: what the probe has said so far: None until it said anything.
    """

    spec: Document
    verdict: bool | None = None
    _last: bool | None = field(default=None, init=False)
    _count: int = field(default=0, init=False)

    def take(self, success: bool) -> bool:
        """Take a result; tell whether the verdict is another one, or said again at its threshold."""
        self._count = self._count + 1 if success is self._last else 1
        self._last = success
        threshold = int(self.spec.get("successThreshold", 1) if success else self.spec.get("failureThreshold", 3))
        if self._count < threshold:
            return False
        self.verdict = success
        return True


@dataclass(slots=True)
class RunHealth:
    """The probes' verdicts on one run.

    :param tallies: one for each probe that the container has.
    """

    tallies: Mapping[ProbeKind, ProbeTally]

    @classmethod
    def of(cls, container: Document) -> RunHealth:
        """Give the health of a run that begins: not started where a startup probe has to say so, not ready likewise."""
        return cls({kind: ProbeTally(container[kind.key]) for kind in ProbeKind if container.get(kind.key)})

    def assume(self, *, started: bool, ready: bool) -> None:
        """Take over what was told of the run by whoever watched it before."""
        for kind, verdict in ((ProbeKind.STARTUP, started), (ProbeKind.READINESS, ready)):
            if verdict and kind in self.tallies:
                self.tallies[kind].verdict = True

    @property
    def started(self) -> bool:
        """Whether the container counts as started."""
        startup = self.tallies.get(ProbeKind.STARTUP)
        return startup is None or startup.verdict is True

    @property
    def ready(self) -> bool:
        """Whether the container counts as ready."""
        readiness = self.tallies.get(ProbeKind.READINESS)
        return self.started and (readiness is None or readiness.verdict is True)

    def is_due(self, kind: ProbeKind) -> bool:
        """Whether a probe is asked now: the startup probe until it has said something, the others after it."""
        return self.tallies[kind].verdict is None if kind is ProbeKind.STARTUP else self.started


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """How a container that failed a probe is ended: the kubelet's words, and how long it may take."""

    message: str
    grace_s: float


def plan_kill(pod_spec: Document, container: Document, kind: ProbeKind, *, is_last: bool) -> Kill:
    """Return how a container is ended since a probe of it failed.

    :param is_last: no other container of its pod runs. One that is not to be restarted then ends as its pod does.
    """
    restarts = pod_spec.get("restartPolicy") != "Never"
    grace = float(pod_spec.get("terminationGracePeriodSeconds", 30))
    if is_last and not restarts:
        return Kill(message=f"Stopping container {container['name']}", grace_s=grace)
    again = ", will be restarted" if restarts else ""
    own = container[kind.key].get("terminationGracePeriodSeconds")
    message = f"Container {container['name']} failed {kind.lower()} probe{again}"
    return Kill(message=message, grace_s=grace if own is None else float(own))
