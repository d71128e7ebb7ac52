"""Runs of both sides -> a line of the table, and whether the goals are met. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from bench.logs.writer import LINE_BYTES

MIB = 1 << 20
RATIO_GOAL = 0.5
MEMORY_GOAL_MIB = 64.0
UNITS = {"GiB": 1 << 30, "MiB": MIB, "KiB": 1 << 10}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A way of following.

    :param pods: how many say the row's size together, at the same time.
    :param backlog: whether all was said before anybody listens; otherwise it is followed while it is said.
    :param told: whether it goes through what writes the task log, for information: without kubectl, and no goal.
    """

    name: str
    title: str
    pods: int
    backlog: bool = False
    told: bool = False

    def lines(self, size: int) -> int:
        """Give how many lines each pod says, for a size of the whole row in bytes."""
        return max(2, size // self.pods // LINE_BYTES)


def rows(pods: int) -> tuple[Row, ...]:
    """Give all rows.

    :param pods: how many are many.
    """
    return (
        Row(name="one", title="1 pod, while it writes", pods=1),
        Row(name="many", title=f"{pods} pods, while they write", pods=pods),
        Row(name="one-backlog", title="1 pod, what it wrote before", pods=1, backlog=True),
        Row(name="many-backlog", title=f"{pods} pods, what they wrote before", pods=pods, backlog=True),
        Row(name="one-told", title="1 pod, into the task log", pods=1, told=True),
        Row(name="many-told", title=f"{pods} pods, into the task log", pods=pods, told=True),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What one side took.

    :param lines: that arrived.
    :param size: bytes that arrived, time stamps included.
    :param seconds: until the last line was there: from when the pods were told to write, or from the first byte of what
        they had written before.
    :param processor_s: user and system, of the side's own processes.
    :param memory_mib: ours: above what the process had before; kubectl: the largest of its processes, all of it.
    :param faults: what was not as it should be, in words.
    :param note: what else there is to tell.
    """

    lines: int
    size: int
    seconds: float
    processor_s: float
    memory_mib: float
    faults: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """A row, measured.

    :param said: bytes that the containers wrote in one run.
    """

    row: Row
    said: int
    ours: Sequence[Run]
    kubectl: Sequence[Run]

    @property
    def speed(self) -> float:
        """Of ours, in MiB a second of what was written; the median of the runs."""
        return _speed(self.said, self.ours)

    @property
    def kubectl_speed(self) -> float:
        return _speed(self.said, self.kubectl)

    @property
    def ratio(self) -> float:
        return self.speed / self.kubectl_speed

    @property
    def memory_mib(self) -> float:
        """The most that ours added in any run."""
        return max(run.memory_mib for run in self.ours)

    @property
    def missed(self) -> list[str]:
        """What is not met, in words; empty when all is."""
        found = [f"{who}: {fault}" for who, runs in self._sides for run in runs for fault in run.faults]
        if self.row.told:
            return found
        if self.ratio < RATIO_GOAL:
            found.append(f"ratio {self.ratio:.2f} is below {RATIO_GOAL:g}")
        if self.memory_mib > MEMORY_GOAL_MIB:
            found.append(f"{self.memory_mib:.0f} MiB of added memory are more than {MEMORY_GOAL_MIB:.0f}")
        return found

    @property
    def _sides(self) -> tuple[tuple[str, Sequence[Run]], ...]:
        return (("ours", self.ours), ("kubectl", self.kubectl))

    def describe(self) -> str:
        """Give the row's line of the table, with what is missed."""
        beside = ("", "", "")
        if not self.row.told:
            kubectl_s = _median(self.kubectl, "processor_s")
            beside = f"{self.kubectl_speed:.1f}", f"{self.ratio:.2f}", f"{kubectl_s:.1f}"
        line = (
            f"{self.row.title:<34} {self.speed:6.1f} {beside[0]:>8} {beside[1]:>6} {self.memory_mib:7.1f} "
            f"{_median(self.ours, 'processor_s'):7.1f} {beside[2]:>8} {self.ours[-1].lines:>11,}  "
        )
        if self.missed:
            return line + "MISSED: " + "; ".join(self.missed)
        return line + (self.ours[-1].note if self.row.told else "met")


HEAD = (
    f"{'':<34} {'ours':>6} {'kubectl':>8} {'ratio':>6} {'memory':>7} {'ours':>7} {'kubectl':>8} {'lines':>11}\n"
    f"{'':<34} {'MiB/s':>6} {'MiB/s':>8} {'':>6} {'MiB':>7} {'CPU s':>7} {'CPU s':>8} {'at the sink':>11}"
)


def _speed(said: int, runs: Sequence[Run]) -> float:
    return said / MIB / _median(runs, "seconds")


def _median(runs: Sequence[Run], name: str) -> float:
    return float(median(getattr(run, name) for run in runs))


def parse_size(text: str) -> int:
    """Return the bytes of a size such as `64MiB`.

    :raises ValueError: it is none.
    """
    for unit, factor in UNITS.items():
        number = text.removesuffix(unit)
        if number != text and number.isascii() and number.isdigit() and int(number) > 0:
            return int(number) * factor
    raise ValueError(f"size {text!r}: give a whole number of {', '.join(UNITS)}, such as 64MiB")
