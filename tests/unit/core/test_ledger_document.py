"""A ledger survives its way through a ConfigMap, and one that somebody edited is refused, naming the field."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from tests.unit.core.damage import anything, damaged
from tests.unit.core.ledgers import attempt, ended_job, ledger_job, ledger_of, ledgers, trained

from gpu_training.core.errors import GpuTrainingError
from gpu_training.core.ledger import Claim, Ledger, Renewal
from gpu_training.core.ledger_document import LedgerDamaged, from_text, to_text
from gpu_training.core.verdict import Action

pytestmark = pytest.mark.core

FULL = ledger_of(
    ended_job(1, attempts=(attempt("a", action=Action.RETRY_LARGER), attempt("b")), waited=((0.0, 8.5), (20.0, 30.0))),
    ledger_job(2, generation=2, period=2, attempts=(attempt("c", end=None),)),
    generation=2,
    period=2,
    claims=(Claim(task='["d","r","t",-1]', max_tries=2, generation=1, number=1, at=5.0),),
    renewals=(Renewal(at=5.0, task="t", generation=2, period=2, why="cleared"),),
    trained=(trained(1),),
    folded_jobs=3,
    folded_gpu_seconds=12.5,
    updated_at=7.0,
)


@given(ledgers())
def test_a_ledger_survives_its_text(ledger: Ledger) -> None:
    again = from_text(to_text(ledger))
    assert again == ledger
    assert again.updated_at == ledger.updated_at
    assert to_text(again) == to_text(ledger)


def test_people_read_it_a_line_an_entry() -> None:
    lines = to_text(FULL).splitlines()
    assert lines[:3] == ["{", '"v": 1,', '"model": "m",']
    assert sum(line.startswith('  {"number": ') for line in lines) == 2


@given(damaged(json.loads(to_text(FULL))))
def test_whatever_somebody_wrote_is_a_ledger_or_refused(document: Any) -> None:
    try:
        ledger = from_text(json.dumps(document))
    except LedgerDamaged as refusal:
        damage = str(refusal)
    else:
        assert from_text(to_text(ledger)) == ledger
        return
    assert len(damage) < 400
    assert damage.isprintable()


@given(anything)
def test_anything_else_is_refused(document: Any) -> None:
    with pytest.raises(LedgerDamaged):
        from_text(json.dumps(document))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no JSON"),
        ("{", "no JSON"),
        ("[" * 100_000, "no JSON"),
        ('{"v": ' + "9" * 5000 + "}", "no JSON"),
        ("null", "ledger=None: a mapping is expected"),
        ("[]", "ledger=[]: a mapping is expected"),
        ("{}", "v=None: version 1, which this release reads, is expected"),
        ('{"v": 2}', "v=2: version 1"),
    ],
)
def test_a_text_that_is_no_ledger_is_refused(text: str, words: str) -> None:
    with pytest.raises(LedgerDamaged) as caught:
        from_text(text)
    assert str(caught.value).startswith(words)
    assert isinstance(caught.value, GpuTrainingError)


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("model", 5, "model=5: a text"),
        ("deployment", None, "deployment=None: a text"),
        ("fingerprint", [], "fingerprint=[]: a text"),
        ("generation", 0, "generation=0: a number from 1 on"),
        ("generation", True, "generation=True: a whole number"),
        ("generation", 1, "generation=1: a Job is of generation 2 already"),
        ("period", "1", "period='1': a whole number"),
        ("period", 1, "period=1: a Job is of period 2 already"),
        ("next_number", -1, "next_number=-1: a number from 1 on"),
        ("next_number", 2, "next_number=2: Job 2 has it or is behind it"),
        ("folded_jobs", -1, "folded_jobs=-1: a number from 0 on"),
        ("folded_gpu_seconds", -1, "folded_gpu_seconds=-1.0: a number from 0 on"),
        ("folded_gpu_seconds", float("nan"), "folded_gpu_seconds=nan: a finite number"),
        ("updated_at", "now", "updated_at='now': a finite number"),
        ("jobs", {}, "jobs={}: a list"),
        ("jobs", ["x"], "jobs='x': a mapping"),
        ("jobs/0/number", 2, "jobs: numbers [2, 2] are not ascending"),
        ("jobs/0/number", 3, "jobs: numbers [3, 2] are not ascending"),
        ("jobs/0/number", 0, "number=0: a number from 1 on"),
        ("jobs/0/ended_at", None, "jobs: more than one has not ended"),
        ("jobs/0/ended_at", float("inf"), "ended_at=inf: a finite number"),
        ("jobs/0/ending", "won", "ending='won': one of succeeded, failed"),
        ("jobs/0/name", None, "name=None: a text"),
        ("jobs/0/uid", 5, "uid=5: a text"),
        ("jobs/0/gpus", 1.5, "gpus=1.5: a whole number"),
        ("jobs/0/gpus", -1, "gpus=-1: a number from 0 on"),
        ("jobs/0/memory", 2, "memory=2: a text"),
        ("jobs/0/created_at", None, "created_at=None: a finite number"),
        ("jobs/0/seen_until", [], "seen_until=[]: a finite number"),
        ("jobs/0/on_demand", 1, "on_demand=1: true or false"),
        ("jobs/0/unseen_gpu_seconds", -5, "unseen_gpu_seconds=-5.0: a number from 0 on"),
        ("jobs/0/allowance", None, "allowance=None: a mapping"),
        ("jobs/0/allowance/failures", -1, "failures=-1: a number from 0 on"),
        ("jobs/0/allowance/disruptions", "2", "disruptions='2': a whole number"),
        ("jobs/0/allowance/gpu_seconds", -1, "gpu_seconds=-1.0: a number from 0 on"),
        ("jobs/0/allowance/wall_seconds", None, "wall_seconds=None: a finite number"),
        ("jobs/0/verdict", "bad", "verdict='bad': a mapping"),
        ("jobs/0/verdict/category", "luck", "category='luck': one of disrupted"),
        ("jobs/0/verdict/action", "again", "action='again': one of fail, retry"),
        ("jobs/0/attempts", None, "attempts=None: a list"),
        ("jobs/0/attempts/0/uid", None, "uid=None: a text"),
        ("jobs/0/attempts/0/gpu_seconds", -100, "gpu_seconds=-100.0: a number from 0 on"),
        ("jobs/0/attempts/0/gpus", -1, "gpus=-1.0: a number from 0 on"),
        ("jobs/0/attempts/0/started_at", "noon", "started_at='noon': a finite number"),
        ("jobs/0/attempts/0/estimated", None, "estimated=None: true or false"),
        ("jobs/0/waited", None, "waited=None: two times, the begin and the end of a wait,"),
        ("jobs/0/waited", "long", "waited='long': two times"),
        ("jobs/0/waited", {"0": 5}, "waited={'0': 5}: two times"),
        ("jobs/0/waited/0", 5, "waited=5: two times"),
        ("jobs/0/waited/0", [1.0], "waited=[1.0]: two times"),
        ("jobs/0/waited/0", [1.0, 2.0, 3.0], "waited=[1.0, 2.0, 3.0]: two times"),
        ("jobs/0/waited/0", ["0", "1"], "waited='0': a finite number"),
        ("jobs/0/waited/0", [0.0, float("inf")], "waited=inf: a finite number"),
        ("jobs/0/waited/0", [float("nan"), 1.0], "waited=nan: a finite number"),
        ("jobs/0/waited/0", [True, 5.0], "waited=True: a finite number"),
        ("jobs/0/waited/0", [0, 10**400], "waited=1000"),
        ("claims", None, "claims=None: a list"),
        ("claims/0/task", 5, "task=5: a text"),
        ("claims/0/max_tries", "2", "max_tries='2': a whole number"),
        ("claims/0/number", -1, "number=-1: a number from 0 on"),
        ("renewals/0/why", None, "why=None: a text"),
        ("renewals/0/period", 0, "period=0: a number from 1 on"),
        ("trained", "x", "trained='x': a list"),
        ("trained/0/job_uid", None, "job_uid=None: a text"),
        ("trained/0/result", 5, "result=5: a mapping"),
        ("trained/0/result/status", "ok", "status='ok': one of trained, failed"),
    ],
)
def test_what_somebody_edited_is_refused_naming_the_field(path: str, value: object, words: str) -> None:
    document = json.loads(to_text(FULL))
    inner = document
    *steps, last = [int(step) if step.isdecimal() else step for step in path.split("/")]
    for step in steps:
        inner = inner[step]
    inner[last] = value
    with pytest.raises(LedgerDamaged) as caught:
        from_text(json.dumps(document))
    assert str(caught.value).startswith(words)


def test_fields_that_a_later_release_adds_are_ignored() -> None:
    document = {**json.loads(to_text(FULL)), "more": 1}
    assert from_text(json.dumps(document)) == FULL


@pytest.mark.parametrize(
    ("waited", "read"),
    [
        ([[3, 5], [1, 2]], ((1.0, 2.0), (3.0, 5.0))),
        ([[1, 3], [2, 5]], ((1.0, 5.0),)),
        ([[5, 1]], ()),
        ([], ()),
    ],
)
def test_waits_are_read_as_intervals_that_do_not_meet(waited: object, read: object) -> None:
    document = json.loads(to_text(FULL))
    document["jobs"][0]["waited"] = waited
    assert from_text(json.dumps(document)).jobs[0].waited == read


def test_a_ledger_of_a_release_that_knew_no_waits_is_one_without() -> None:
    document = json.loads(to_text(FULL))
    for entry in document["jobs"]:
        del entry["waited"]
    assert [entry.waited for entry in from_text(json.dumps(document)).jobs] == [(), ()]
