"""How fast a cluster notices what happens to its nodes and acts on it."""

from __future__ import annotations

from dataclasses import dataclass, fields

from sandbox.errors import SandboxError


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLifecycle:
    """Times of the life of nodes, in whole seconds; the defaults are Kubernetes' own.

    :param lease_s: how long a node's lease lasts; the node renews it four times in that time.
    :param status_s: how often a node looks whether its status still says what it should.
    :param monitor_period_s: how often the controller manager looks at the nodes: `--node-monitor-period`.
    :param monitor_grace_s: after this long without a renewal a node is not Ready: `--node-monitor-grace-period`.
    :param toleration_s: for so long pods stay on a node that is not Ready or not reachable, where they do not say
        themselves: `--default-not-ready-toleration-seconds` and `--default-unreachable-toleration-seconds`.
    """

    lease_s: int = 40
    status_s: int = 10
    monitor_period_s: int = 5
    monitor_grace_s: int = 50
    toleration_s: int = 300

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            lowest = 0 if field.name == "toleration_s" else 1
            if isinstance(value, bool) or not isinstance(value, int) or value < lowest:
                raise SandboxError(f"{field.name} is {value!r}: give a whole number of seconds from {lowest} up")
        if self.monitor_grace_s <= self.lease_s / 4:
            raise SandboxError(
                f"monitor_grace_s is {self.monitor_grace_s}: a node renews its lease of {self.lease_s} s every "
                f"{self.lease_s / 4:g} s, so give more than that, or each node is lost now and then"
            )

    def controller_manager_flags(self) -> list[str]:
        """Give the controller manager's flags."""
        return [
            f"--node-monitor-period={self.monitor_period_s}s",
            f"--node-monitor-grace-period={self.monitor_grace_s}s",
        ]

    def api_server_flags(self) -> list[str]:
        """Give the API server's flags."""
        return [
            f"--default-not-ready-toleration-seconds={self.toleration_s}",
            f"--default-unreachable-toleration-seconds={self.toleration_s}",
        ]


USUAL = NodeLifecycle()
"""As Kubernetes has it without flags."""

SHORT = NodeLifecycle(lease_s=4, status_s=1, monitor_period_s=1, monitor_grace_s=5, toleration_s=1)
"""For tests: a lost node is noticed after five seconds and its pods are given up a second later."""
