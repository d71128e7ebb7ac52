"""The wait itself: what is seen of a Job, what it means, and when it is over."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from gpu_training.core.attempts import attempts_of
from gpu_training.core.clock_readings import Reading, read_clocks, soonest
from gpu_training.core.clocks import Clocks
from gpu_training.core.contact import Silence, listen, out_of_contact
from gpu_training.core.decide import Outcome, OutcomeKind, Policy, decide
from gpu_training.core.errors import ClusterUnavailable, GpuTrainingError
from gpu_training.core.giving_up import seconds_until_sure, verdict_on
from gpu_training.core.hearing import Hearing
from gpu_training.core.observation import Observation
from gpu_training.core.phase import Phase, Wait
from gpu_training.core.verdict import LEFT, Category, Verdict
from gpu_training.task_log import TaskLog
from gpu_training.triggers.voice import Voice

if TYPE_CHECKING:
    from gpu_training.cluster.connection import Cluster
    from gpu_training.cluster.logs import LogFollower
    from gpu_training.cluster.subscription import Subscription
    from gpu_training.triggers.bookkeeper import Bookkeeper, Settled
    from gpu_training.triggers.exit import Exit
    from gpu_training.triggers.guarded_logs import GuardedLogs
    from gpu_training.triggers.watchman import Watchman

_CONFIRM_EVERY_S: Final = 1.0
_LEAST_PAUSE_S: Final = 0.2
_LOG_EVERY_S: Final = 1.0
_AGAIN_AFTER_S: Final = 5.0
"""How soon to try again to give up."""


class Vigil:
    """One wait for one Job.

    :param hearing: has heard what the logs tell, as far as it came.
    :param follower: None where no log is followed.
    :param watchman: finds out why it waits.
    :param way_out: takes whoever waits off the Job.
    :param clocks: of whoever waits.
    """

    def __init__(
        self,
        subscription: Subscription,
        cluster: Cluster,
        bookkeeper: Bookkeeper,
        voice: Voice,
        hearing: Hearing,
        follower: GuardedLogs | LogFollower | None,
        watchman: Watchman,
        way_out: Exit,
        *,
        policy: Policy,
        clocks: Clocks,
        log: TaskLog,
    ) -> None:
        self._subscription = subscription
        self._cluster = cluster
        self._bookkeeper = bookkeeper
        self._voice = voice
        self._hearing = hearing
        self._follower = follower
        self._watchman = watchman
        self._way_out = way_out
        self._policy = policy
        self._clocks = clocks
        self._log = log
        self._leaving: Verdict | None = None

    async def until_ended(self, *, contact_limit: float) -> tuple[Observation, Outcome]:
        """Give what was seen last and how it ended.

        :param contact_limit: seconds without contact to the Job after which the wait is over.
        """
        silence: Silence | None = None
        while True:
            self._voice.trouble(self._subscription.trouble)
            if self._follower is not None:
                self._follower.update(self._subscription.pods, self._subscription.gone_pods)
            observation, clock = self.observe(), time.monotonic()
            decision = decide(observation, self._policy, self._cluster.clock.now())
            # An end that was seen waits for the pods; before that, only news of the Job matters.
            quiet = self._subscription.job_trouble if isinstance(decision, Wait) else self._subscription.trouble
            silence = listen(silence, quiet, clock)
            left = silence.left(contact_limit, clock) if silence is not None else None
            if silence is not None and left == 0:
                lost = out_of_contact(
                    observation, silence, clock=clock, now=self._cluster.clock.now(), rules=self._policy.rules
                )
                return observation, lost if isinstance(decision, Wait) else decision
            if self._leaving is not None:
                # Whatever the Job does meanwhile: it is being deleted, or is gone, because of us.
                if await self._way_out.take(self._leaving):
                    return self.observe(), self._given_up(self._leaving)
                await self._subscription.changed(_AGAIN_AFTER_S)
            elif isinstance(decision, Wait):
                await self._wait(observation, decision, left)
            elif decision.kind is OutcomeKind.SUCCEEDED or await self._has_seen_all():
                observation = self.observe()
                decision = decide(observation, self._policy, self._cluster.clock.now())
                if isinstance(decision, Outcome):
                    return observation, decision

    async def _wait(self, observation: Observation, wait: Wait, left: float | None) -> None:
        """Keep the books, say why it waits, and sleep until something may be new; or make up one's mind to give up.

        :param left: seconds until there was no contact for too long; None where there is.
        """
        now = self._cluster.clock.now()
        look = await self._bookkeeper.watch(observation, now)
        around = self._watchman.look(observation, wait, now)
        said = self._voice.waiting(wait, self._watchman.report)
        await self._watchman.write(observation)
        readings = self._readings(observation, wait.phase, now)
        verdict = verdict_on(self._watchman.report, self._watchman.held_since, readings, now)
        # What the failed attempt's log tells comes without any news of Job or pods.
        catches_up = self._clocks.stall_seconds is not None and wait.phase is Phase.RUNNING and self._is_deaf
        log = _LOG_EVERY_S if wait.phase is Phase.RETRYING or catches_up else None
        pause = _soonest(look, around, log)
        if verdict is None:
            sure = seconds_until_sure(self._watchman.report, self._watchman.held_since, now)
            pause = _soonest(pause, sure, soonest(readings))
        elif left is None and await self._is_still_so(verdict):
            self._leaving = verdict
            return
        else:
            pause = _AGAIN_AFTER_S
        await self._subscription.changed(
            _soonest(said, left, max(_LEAST_PAUSE_S, pause) if pause is not None else None)
        )

    async def _is_still_so(self, verdict: Verdict) -> bool:
        """Look at the pods once more before a Job is given up: one may have started since they were seen."""
        from gpu_training.cluster.jobs import list_pods

        try:
            self._subscription.refresh(await list_pods(self._cluster, self._subscription.job))
        except GpuTrainingError as error:
            self._log.debug("not giving up yet: %s", error)
            return False
        observation, now = self.observe(), self._cluster.clock.now()
        decision = decide(observation, self._policy, now)
        if not isinstance(decision, Wait):
            return False
        self._watchman.look(observation, decision, now)
        readings = self._readings(observation, decision.phase, now)
        again = verdict_on(self._watchman.report, self._watchman.held_since, readings, now)
        return again is not None and again.category is verdict.category

    def _readings(self, observation: Observation, phase: Phase, now: float) -> tuple[Reading, ...]:
        # A log that can not be read, or is not read up to now, tells of no stall.
        progress_at = now if self._is_deaf else self._hearing.progress_at
        clocks, attempts = self._clocks, self._bookkeeper.attempts
        if not self._bookkeeper.is_read and not observation.pods:
            # Pods that are gone are known to the ledger alone: one may have run until a moment ago.
            clocks = replace(clocks, queue_seconds=None)
        return read_clocks(observation, phase, clocks, now, progress_at=progress_at, attempts=attempts)

    @property
    def _is_deaf(self) -> bool:
        return self._follower is None or not self._follower.is_caught_up

    def _given_up(self, verdict: Verdict) -> Outcome:
        """Give the end of the wait; the Job may go on for others, and may have come to something meanwhile."""
        observation, now = self.observe(), self._cluster.clock.now()
        decision = decide(observation, self._policy, now)
        if isinstance(decision, Outcome) and decision.kind is OutcomeKind.SUCCEEDED:
            return decision
        kind = OutcomeKind.FAILED if verdict.category is Category.CAN_NOT_START else OutcomeKind.TIMED_OUT
        return Outcome(kind=kind, attempts=attempts_of(observation, now, self._policy.rules), verdict=verdict)

    async def settle(self, outcome: Outcome) -> Settled:
        """Write the end into the ledger; what the end of the log told is in it, too."""
        observation, now = self.observe(), self._cluster.clock.now()
        if outcome.verdict is not None and outcome.verdict.category in LEFT:
            return await self._bookkeeper.settle(observation, outcome, now)
        decision = decide(observation, self._policy, now)
        return await self._bookkeeper.settle(observation, decision if isinstance(decision, Outcome) else outcome, now)

    def observe(self) -> Observation:
        """Give what is seen now."""
        hearing = self._hearing
        return replace(
            self._subscription.observe(),
            findings=hearing.findings,
            steps=hearing.steps,
            told_results=hearing.told_results,
        )

    async def _has_seen_all(self) -> bool:
        """Read the pods once more before a training is called failed: Jobs and pods are watched apart, and what a pod
        left may still be on its way when its Job's end is known."""
        from gpu_training.cluster.jobs import list_pods

        try:
            self._subscription.refresh(await list_pods(self._cluster, self._subscription.job))
        except ClusterUnavailable as error:
            self._log.debug("not deciding yet: %s", error)
            await self._subscription.changed(_CONFIRM_EVERY_S)
            return False
        except GpuTrainingError as error:
            self._log.warning("deciding by what was seen: %s", error)
        return True


def _soonest(*waits: float | None) -> float | None:
    """Give the shortest of some waits, of which None has no end."""
    return min((wait for wait in waits if wait is not None), default=None)
