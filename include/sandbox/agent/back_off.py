"""How long a container that ended waits before it is run again, as the kubelet has it. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from sandbox.agent.states import Terminated

FIRST_S = 10.0
LONGEST_S = 300.0
FORGIVEN_AFTER_S = 600.0
"""A run this long starts the back-off anew."""


@dataclass(slots=True)
class RestartBackOff:
    """The waits of one container: not before the first restart, then 10 s from the end, twice as long each time.

    :ivar delay_s: how long the next restart waits.
    """

    delay_s: float = 0.0

    def wait_s(self, ended: Terminated, *, now_ns: int, killed_after: Terminated | None, killed: bool) -> float:
        """Return how long to wait from now on; none when it is not positive. The next wait is a longer one.

        :param killed: a probe had the run killed. The kubelet starts the next one in the same breath, for which the end
            of the run before that counts, which is `killed_after`.
        """
        finished = ended.finished_ns or now_ns
        if ended.started_ns and finished - ended.started_ns >= FORGIVEN_AFTER_S * 10**9:
            self.delay_s = 0.0
        if killed:
            if killed_after is None:
                return 0.0
            since = now_ns - (killed_after.finished_ns or 0)
            if since >= self.delay_s * 10**9:
                self._lengthen()
                return 0.0
        left = self.delay_s - (now_ns - finished) / 10**9
        self._lengthen()
        return left

    def _lengthen(self) -> None:
        self.delay_s = min(LONGEST_S, self.delay_s * 2 or FIRST_S)


def format_delay(seconds: float) -> str:
    """Write a delay as Go does: 10s, 1m20s."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
