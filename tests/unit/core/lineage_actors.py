"""What trigger, operator and clean-up do between two requests to the cluster, in the order in which cluster/, triggers/
and operators/ do it: each request is a `yield`, at which others act, and at which a process may die for ever.

All that is decided is decided by the pure core itself.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from tests.unit.core.lineage_world import RULES, Job, Refused, World

from gpu_training.core.attempts import attempts_of
from gpu_training.core.bookkeeping import book, close, take_away
from gpu_training.core.budget import Budget
from gpu_training.core.consequence import Join, Refuse, Request, Reuse, Start, delivered, follow
from gpu_training.core.decide import Outcome, OutcomeKind, Policy, decide
from gpu_training.core.exhaustion import exhausted, seconds_left
from gpu_training.core.ledger import Ending, Ledger, LedgerJob, Trained
from gpu_training.core.ledger_document import from_text, to_text
from gpu_training.core.naming import (
    ANNOTATION_WAITERS,
    Identity,
    TaskTry,
    identity_annotations,
    identity_labels,
    is_ours,
    job_name,
)
from gpu_training.core.next_job import next_job
from gpu_training.core.observation import JobObservation, Observation, observe
from gpu_training.core.orders import admissions_of, due, ended_because, wanted_backoff_limit, wanted_deadline
from gpu_training.core.phase import Phase, Wait
from gpu_training.core.pods import observe_pod
from gpu_training.core.queue_time import waits_since
from gpu_training.core.spec import TrainingSpec
from gpu_training.core.spending import spending
from gpu_training.core.verdict import Action, Category, Owner, Verdict
from gpu_training.core.waiters import Waiters, joined, later_try, waiters_of
from gpu_training.core.waiters import to_text as waiters_to_text

T = TypeVar("T")

POLICY: Final = Policy(rules=RULES)
_PATIENCE_S: Final = 60.0
_LOG_PATIENCE_S: Final = 3.0
_LOG_LAG_S: Final = 1.5


@dataclass(frozen=True)
class Change:
    """Until anything of a Job changes, or a time has passed."""

    timeout: float | None


Steps = Generator["float | Change", None, T]


class Unavailable(Exception):
    """The API server does not answer."""


class Failed(Exception):
    """The try failed; :ivar final: Airflow does not retry."""

    def __init__(self, *, final: bool) -> None:
        super().__init__(final)
        self.final = final


@dataclass
class Client:
    """One process's way to the cluster.

    :ivar pace: seconds that a request takes.
    :ivar note: told of each ledger that is written: the one before, the one after.
    """

    world: World
    spec: TrainingSpec
    budget: Budget
    identity: Identity
    pace: float
    alive: Callable[[TaskTry], bool]
    note: Callable[[Ledger, Ledger], None]
    ledger: Ledger | None = None
    version: int = 0

    def request(self) -> Steps[None]:
        yield self.pace
        if self.world.now < self.world.down_until:
            raise Unavailable

    # cluster/ledger_store.py

    def read(self) -> Steps[Ledger]:
        yield from self.request()
        self.version = self.world.ledger_version
        text, who = self.world.ledger_text, self.identity
        empty = Ledger(model=who.model, deployment=who.deployment, fingerprint=who.fingerprint)
        self.ledger = empty if text is None else from_text(text)
        return self.ledger

    def change(self, change: Callable[[Ledger], tuple[Ledger, T]], now: float) -> Steps[T]:
        for _ in range(20):
            before = self.ledger if self.ledger is not None else (yield from self.read())
            after, given = change(before)
            if after == before or (yield from self._written(before, replace(after, updated_at=now))):
                return given
            self.ledger = None
        raise Unavailable

    def _written(self, before: Ledger, after: Ledger) -> Steps[bool]:
        yield from self.request()
        if self.world.ledger_version != self.version:
            return False
        self.note(before, after)
        self.world.ledger_text = to_text(after)
        self.world.ledger_version += 1
        self.version, self.ledger = self.world.ledger_version, after
        return True

    # cluster/settlement.py

    def settle(self) -> Steps[Job | None]:
        """Give the Job that lives."""
        return (yield from self._standing((yield from self.read())))

    def _standing(self, ledger: Ledger) -> Steps[Job | None]:
        record = ledger.open_job
        if record is None:
            return None
        yield from self.request()
        job = self.world.get(record.name)
        if job is None or record.uid not in (None, job.uid):
            if record.uid is None:
                return None
            job = None
        else:
            identity = replace(self.identity, generation=record.generation, number=record.number)
            assert is_ours(identity, job.labels, job.annotations)
        return (yield from self._settled(record.number, job))

    def _settled(self, number: int, job: Job | None) -> Steps[Job | None]:
        """Write down what is seen of a Job; give it if it lives."""
        now, observation = self.world.now, None
        if job is not None:
            document = job.document()
            yield from self.request()
            observation = observe(document, [pod.document() for pod in self.world.pods_of(job.uid)])

        def write(newest: Ledger) -> tuple[Ledger, bool]:
            before = newest.job(number)
            if before is None or before.ended_at is not None:
                return newest, False
            record, trained, lives = settled(before, job, observation, now, self.spec.memory_growth.maximum)
            if record.ended_at is None and record.uid == before.uid:
                return newest, lives
            newest = newest.with_job(record)
            return (newest.with_trained(trained) if trained is not None else newest), lives

        return job if (yield from self.change(write, now)) else None

    def wait_released(self, ledger: Ledger) -> Steps[None]:
        taken = [job for job in ledger.jobs if job.ending in (Ending.DELETED, Ending.REPLACED, Ending.LOST) and job.uid]
        deadline = self.world.now + _PATIENCE_S
        for job in taken[-1:]:
            while True:
                yield from self.request()
                pods = [observe_pod(pod.document()) for pod in self.world.pods_of(job.uid or "")]
                if not any(not pod.ended and pod.node for pod in pods):
                    break
                if self.world.now >= deadline:
                    raise Unavailable
                yield 1.0

    # cluster/waiting_list.py

    def join(self, job: Job, waiter: TaskTry, others: Waiters = ()) -> Steps[bool]:
        for _ in range(20):
            if job.deleting_at is not None or job.gone_at is not None:
                return False
            listed = waiters_on(job)
            refuse_when_stale(listed, waiter)
            wanted: Waiters = listed or ()
            for other in (*others, waiter):
                wanted = joined(wanted, other)
            if wanted == listed:
                return True
            yield from self.request()
            if job.gone_at is None and waiters_on(job) == listed:
                self._list(job, wanted)
        return False

    def leave(self, job: Job, waiter: TaskTry) -> Steps[bool]:
        for _ in range(20):
            yield from self.request()
            version, listed = str(job.version), waiters_on(job)
            if job.gone_at is not None or job.deleting_at is not None or listed is None or waiter not in listed:
                return False
            rest = tuple(other for other in listed if other != waiter and self.alive(other))
            yield from self.request()
            if rest:
                if job.gone_at is None and waiters_on(job) == listed:
                    self._list(job, rest)
                    return False
            else:
                yield from self._note(job)
                if self._delete(job, version):
                    return True
        return False

    def _note(self, job: Job) -> Steps[None]:
        """Write down what is seen of a Job that is about to be deleted."""
        observation, now = (
            observe(job.document(), [pod.document() for pod in self.world.pods_of(job.uid)]),
            self.world.now,
        )
        decision = decide(replace(observation, gone=True), POLICY, now)

        def write(newest: Ledger) -> tuple[Ledger, None]:
            before = newest.job(job.number)
            if before is None or before.ended_at is not None or before.uid not in (None, job.uid):
                return newest, None
            record = book(
                known(before, job), observation, attempts_of(observation, now, RULES), now=now, watched_since=now
            )
            if not isinstance(decision, Outcome) or decision.kind is not OutcomeKind.SUCCEEDED:
                return newest.with_job(record), None
            newest = newest.with_job(close(record, decision, now=now, memory_cap=""))
            return newest.with_trained(trained_by(record, decision, now)), None

        try:
            yield from self.change(write, now)
        except Unavailable:
            job.unwritten = True

    def _list(self, job: Job, waiters: Waiters) -> None:
        self.world.patch(job, annotations={ANNOTATION_WAITERS: waiters_to_text(waiters)}, spec={})

    def _delete(self, job: Job, version: str) -> bool:
        try:
            self.world.delete(job, version=version)
        except Refused:
            return False
        return True

    # cluster/departure.py

    def depart(self, job: Job, waiter: TaskTry) -> Steps[bool]:
        if not (yield from self.leave(job, waiter)):
            return False
        now = self.world.now

        def write(ledger: Ledger) -> tuple[Ledger, None]:
            record = ledger.job(job.number)
            if record is None or record.uid not in (None, job.uid):
                return ledger, None
            return ledger.with_job(take_away(record, Ending.DELETED, now=now)), None

        yield from self.change(write, now)
        return True

    def depart_from_all(self, waiter: TaskTry) -> Steps[None]:
        yield from self.request()
        for job in [job for job in self.world.jobs if job.gone_at is None and job.ended_at is None]:
            if waiter in (waiters_on(job) or ()):
                yield from self.depart(job, waiter)

    # cluster/holding.py and operators/submission.py

    def hold(self, request: Request, priority: int) -> Steps[LedgerJob | Trained]:
        """Give the Job to wait on, or what is trained."""
        others: Waiters = ()
        for _ in range(20):
            consequence, job, record, ledger = yield from self._consult(request)
            match consequence:
                case Refuse():
                    raise Failed(final=True)
                case Reuse(trained=trained):
                    return trained
                case Join(job=listed):
                    waited = (yield from self._replaced(listed, job, priority)) if job is not None else None
                    if waited is not None:
                        others = waited
                        continue
                    if (yield from self._joined(listed, request.task, others)):
                        return listed
                case Start():
                    assert record is not None
                    held = yield from self._create(record, ledger, request.task, priority)
                    if held is not None:
                        if others:
                            yield from self.join(held[1], request.task, others)
                        return held[0]
        raise Unavailable

    def _consult(self, request: Request) -> Steps[tuple[Any, Job | None, LedgerJob | None, Ledger]]:
        job = yield from self.settle()
        if job is not None:
            refuse_when_stale(waiters_on(job), request.task)
        now = self.world.now

        def write(ledger: Ledger) -> tuple[Ledger, tuple[Ledger, Any]]:
            after, consequence = follow(ledger, request, now)
            if isinstance(consequence, Start):
                record = self._announced(after, consequence, now)
                after = replace(after.with_job(record), next_number=max(after.next_number, record.number + 1))
            return after, (after, consequence)

        ledger, consequence = yield from self.change(write, now)
        record = ledger.job(consequence.number) if isinstance(consequence, Start) else None
        if isinstance(consequence, Start):
            yield from self.wait_released(ledger)
        return consequence, job if isinstance(consequence, Join) else None, record, ledger

    def _announced(self, ledger: Ledger, start: Start, now: float) -> LedgerJob:
        identity = replace(self.identity, generation=start.generation, number=start.number)
        return next_job(ledger, self.spec, self.budget, now).record(
            number=start.number,
            generation=start.generation,
            period=ledger.period,
            name=job_name(identity),
            pods=1,
            now=now,
        )

    def _replaced(self, record: LedgerJob, job: Job, priority: int) -> Steps[Waiters | None]:
        if priority <= job.priority:
            return None
        version, waited = str(job.version), waiters_on(job)
        yield from self.request()
        pods = [observe_pod(pod.document()) for pod in self.world.pods_of(job.uid)]
        if any(pod.node or pod.ended for pod in pods):
            return None
        yield from self.request()
        if not self._delete(job, version):
            return None
        now = self.world.now
        yield from self.change(
            lambda ledger: (
                ledger.with_job(take_away(ledger.job(record.number) or record, Ending.REPLACED, now=now)),
                None,
            ),
            now,
        )
        return waited or ()

    def _joined(self, record: LedgerJob, waiter: TaskTry, others: Waiters) -> Steps[bool]:
        yield from self.request()
        job = self.world.get(record.name)
        if job is None or job.uid != record.uid:
            return False
        return (yield from self.join(job, waiter, others))

    def _create(
        self, record: LedgerJob, ledger: Ledger, waiter: TaskTry, priority: int
    ) -> Steps[tuple[LedgerJob, Job] | None]:
        following = next_job(ledger, self.spec, self.budget, self.world.now)
        yield from self.request()
        adopted = False
        try:
            job = self.world.post(
                self._job(record, following.outer_deadline_seconds, following.allowance, waiter, priority)
            )
        except Refused:
            yield from self.request()
            standing = self.world.get(record.name)
            if standing is None:
                return None
            job, adopted = standing, True
            if job.deleting_at is not None:
                yield from self._lost(record, job)
                return None
        made = known(record, job)

        def write(ledger: Ledger) -> tuple[Ledger, LedgerJob | None]:
            before, lives = ledger.job(record.number), ledger.open_job
            if before is not None and before.uid is not None:
                return ledger, before if before.uid == job.uid and before.ended_at is None else None
            if before is None or before.ended_at is not None or (lives is not None and lives.number != record.number):
                return ledger, None
            return ledger.with_job(made), made

        written = yield from self.change(write, self.world.now)
        if written is None and not adopted:
            yield from self.request()
            self.world.delete(job)
        if written is None or (adopted and not (yield from self.join(job, waiter))):
            return None
        return written, job

    # operators/delivery.py

    def deliver(self, owner: TaskTry) -> Steps[None]:
        yield from self.read()
        yield from self.change(lambda ledger: (delivered(ledger, owner), None), self.world.now)

    def _lost(self, record: LedgerJob, job: Job) -> Steps[None]:
        now = self.world.now

        def write(ledger: Ledger) -> tuple[Ledger, None]:
            found = replace(ledger.job(record.number) or record, uid=job.uid)
            return ledger.with_job(take_away(found, Ending.LOST, now=now)), None

        yield from self.change(write, now)

    def _job(self, record: LedgerJob, deadline: int, allowed: Any, waiter: TaskTry, priority: int) -> Job:
        identity = replace(self.identity, generation=record.generation, number=record.number, owner=waiter)
        return Job(
            name=record.name,
            uid=f"{record.name}-{len(self.world.jobs)}",
            number=record.number,
            generation=record.generation,
            priority=priority,
            gpus=record.gpus,
            backoff_limit=wanted_backoff_limit(allowed, admissions=0),
            deadline=deadline,
            labels=identity_labels(identity),
            annotations={**identity_annotations(identity), ANNOTATION_WAITERS: waiters_to_text([waiter])},
            created=self.world.now,
            version=1,
            started=self.world.second,
            longest=deadline,
        )


def settled(
    record: LedgerJob, job: Job | None, observation: Observation | None, now: float, memory_cap: str
) -> tuple[LedgerJob, Trained | None, bool]:
    """Give a Job's record as it is now, what it came to, and whether it lives; None: it is gone."""
    if job is None or observation is None or observation.job is None:
        seen = JobObservation(uid=record.uid or "", name=record.name, namespace="gpu-training")
        gone = Observation(job=seen, gone=True)
        return take_away(book(record, gone, (), now=now, watched_since=now), Ending.LOST, now=now), None, False
    attempts = attempts_of(observation, now, RULES)
    booked = book(known(record, job), observation, attempts, now=now, watched_since=now)
    decision = decide(observation, POLICY, now)
    if isinstance(decision, Outcome):
        closed = close(booked, decision, now=now, memory_cap=memory_cap)
        succeeded = decision.kind is OutcomeKind.SUCCEEDED
        return closed, trained_by(closed, decision, now) if succeeded else None, False
    if observation.job.deleting:
        return take_away(booked, Ending.LOST, now=now), None, False
    return booked, None, True


def known(record: LedgerJob, job: Job) -> LedgerJob:
    """Give a record with the UID of its Job."""
    if record.uid is not None:
        return record
    created = float(int(job.created))
    return replace(record, uid=job.uid, created_at=created, seen_until=created)


def trained_by(record: LedgerJob, outcome: Outcome, now: float) -> Trained:
    return Trained(
        generation=record.generation,
        number=record.number,
        job=record.name,
        job_uid=record.uid or "",
        mlflow_run_id="",
        image="",
        at=now,
        result=outcome.result,
    )


def waiters_on(job: Job) -> Waiters | None:
    return waiters_of(job.annotations.get(ANNOTATION_WAITERS, ""))


def refuse_when_stale(listed: Waiters | None, waiter: TaskTry) -> None:
    if later_try(listed or (), waiter) is not None:
        raise Failed(final=False)


@dataclass(frozen=True)
class Ended:
    """The event of a trigger."""

    kind: OutcomeKind
    verdict: Verdict | None
    spent: bool

    @property
    def final(self) -> bool:
        return self.spent or (self.verdict is not None and self.verdict.action is Action.FAIL)

    @property
    def replaced(self) -> bool:
        return self.verdict is not None and self.verdict.category is Category.REPLACED


@dataclass
class Watch:
    """triggers/vigil.py and triggers/bookkeeper.py: one wait for one Job, by one process.

    :ivar begun: when it began to see all that happens.
    """

    client: Client
    job: Job
    number: int
    begun: float = field(init=False)
    since: float | None = None
    quiet_until: float = 0.0
    ends: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.begun = self.client.world.now

    def run(self) -> Steps[Ended]:
        world = self.client.world
        while True:
            if world.now < world.down_until:
                yield world.down_until - world.now + 0.5
            observation = self.observe()
            decision = decide(observation, POLICY, world.now)
            if isinstance(decision, Wait):
                look = yield from self._watch(observation)
                pauses = [] if look is None else [max(0.2, look)]
                if decision.phase is Phase.RETRYING:
                    pauses.append(1.0)
                yield Change(min(pauses, default=None))
            else:
                if decision.kind is not OutcomeKind.SUCCEEDED:
                    yield self.client.pace
                observation = self.observe()
                again = decide(observation, POLICY, world.now)
                if isinstance(again, Outcome):
                    return (yield from self._settle(observation, again))

    def observe(self) -> Observation:
        """Give what the shared watch has told since it began."""
        job = self.job
        seen = job.gone_at is None or job.gone_at >= self.begun
        pods = [pod for pod in job.pods if pod.gone_at is None]
        gone = [pod for pod in job.pods if pod.gone_at is not None and pod.gone_at >= self.begun]
        read = self.client.world.now - _LOG_LAG_S
        said = [pod for pod in (*pods, *gone) if pod.fate.kind == "xid" and pod.end == "own"]
        findings = {pod.name: "gpu-hardware" for pod in said if pod.ended is not None and pod.ended <= read}
        return observe(
            job.document() if seen else None,
            [pod.document() for pod in pods],
            gone_pods=[pod.document() for pod in gone] if seen else (),
            gone=job.gone_at is not None,
            findings=findings,
        )

    def _watch(self, observation: Observation) -> Steps[float | None]:
        world = self.client.world
        now = world.now
        self.since = now if self.since is None else self.since
        if observation.job is None:
            return None
        if now < self.quiet_until:
            return self.quiet_until - now
        try:
            record = yield from self._noted(observation, now)
            if record is None:
                return None
            yield from self._act(record, observation, observation.job, now)
        except Unavailable:
            self.quiet_until = world.now + 5.0
            return 5.0
        held = sum(attempt.gpus for attempt in record.attempts if attempt.ended_at is None and attempt.started_at)
        return seconds_left(record, record.allowance, held, now)

    def _booked(self, record: LedgerJob, observation: Observation, now: float) -> LedgerJob:
        attempts = attempts_of(observation, now, RULES)
        return book(record, observation, attempts, now=now, watched_since=self.since if self.since is not None else now)

    def _noted(self, observation: Observation, now: float) -> Steps[LedgerJob | None]:
        ledger = self.client.ledger if self.client.ledger is not None else (yield from self.client.read())
        record = ledger.job(self.number)
        if record is None or record.uid != self.job.uid or record.ended_at is not None:
            return None
        booked = self._booked(record, observation, now)
        if _facts(booked) == _facts(record) and booked.unseen_gpu_seconds == record.unseen_gpu_seconds:
            return booked

        def write(newest: Ledger) -> tuple[Ledger, LedgerJob | None]:
            before = newest.job(self.number)
            if before is None or before.uid != self.job.uid or before.ended_at is not None:
                return newest, None
            after = self._booked(before, observation, now)
            return newest.with_job(after), after

        return (yield from self.client.change(write, now))

    def _act(self, record: LedgerJob, observation: Observation, seen: JobObservation, now: float) -> Steps[None]:
        ledger = self.client.ledger
        jobs = ledger.with_job(record).current_jobs() if ledger is not None else (record,)
        left = self.client.budget.attempts - spending(jobs, now).failures
        order = due(record, seen, now, logs_are_read=self._logs_are_read(record, now), attempts_left=left)
        if order is not None:
            patch = order.patch()
            yield from self._patch(patch["metadata"]["annotations"], patch["spec"])
            return
        wanted = wanted_backoff_limit(record.allowance, admissions=admissions_of(record))
        limit = seen.backoff_limit
        if seen.ended or ended_because(seen):
            return
        limits = {"backoffLimit": wanted} if limit is not None and limit < wanted else {}
        queue_seconds = self.client.spec.clocks.queue_seconds
        waiting = waits_since(observation, now, record.attempts)
        deadline = wanted_deadline(record, seen, now, waits_since=waiting, queue_seconds=queue_seconds)
        if deadline is not None:
            limits["activeDeadlineSeconds"] = deadline
        if limits:
            yield from self._patch({}, limits)

    def _logs_are_read(self, record: LedgerJob, now: float) -> bool:
        ended = {attempt.uid for attempt in record.attempts if attempt.ended_at is not None}
        for uid in ended:
            self.ends.setdefault(uid, now)
        return all(now >= self.ends[uid] + _LOG_PATIENCE_S for uid in ended)

    def _patch(self, annotations: dict[str, str], spec: dict[str, int]) -> Steps[None]:
        yield from self.client.request()
        if self.job.gone_at is None:
            self.client.world.patch(self.job, annotations=annotations, spec=spec)

    def _settle(self, observation: Observation, outcome: Outcome) -> Steps[Ended]:
        client, now = self.client, self.client.world.now

        def write(ledger: Ledger) -> tuple[Ledger, None]:
            before = ledger.job(self.number)
            if before is None or before.uid not in (None, self.job.uid):
                return ledger, None
            after = self._booked(before, observation, now) if before.ended_at is None else before
            ledger = ledger.with_job(close(after, outcome, now=now, memory_cap=client.spec.memory_growth.maximum))
            if outcome.kind is OutcomeKind.SUCCEEDED:
                ledger = ledger.with_trained(trained_by(after, outcome, now))
            return ledger, None

        try:
            yield from client.change(write, now)
        except Unavailable:
            client.ledger = client.ledger
        ledger = client.ledger
        record = ledger.job(self.number) if ledger is not None else None
        if ledger is None or record is None or record.uid != self.job.uid:
            return Ended(outcome.kind, outcome.verdict, spent=False)
        if record.ending is Ending.REPLACED:
            replaced = Verdict(
                category=Category.REPLACED, owner=Owner.INFRASTRUCTURE, action=Action.RETRY, summary="", remedy=""
            )
            return Ended(outcome.kind, replaced, spent=False)
        spent = outcome.verdict is not None and exhausted(ledger, client.budget, now, has_fallback=False) is not None
        return Ended(outcome.kind, record.verdict or outcome.verdict, spent=spent)


def _facts(record: LedgerJob) -> list[object]:
    return [(a.uid, a.node, a.started_at, a.ended_at, a.verdict) for a in record.attempts]
