"""A Job that lives on without its ledger: its record is made from what the Job itself says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from tests.unit.core.damage import damaged
from tests.unit.core.kubernetes_documents import JOB_NAME, JOB_UID, job, moment
from tests.unit.core.ledgers import BUDGET, ledger_job, ledger_of
from tests.unit.core.specs import OWNER, SETTINGS, identity, spec

from gpu_training.core.budget import DEFAULT_DISRUPTIONS, Allowance
from gpu_training.core.consequence import Request, Reuse, Start, follow
from gpu_training.core.ledger import LedgerJob
from gpu_training.core.manifest import build_job
from gpu_training.core.recovery import KnownTraining, recovered, remembered
from gpu_training.rule_table import built_in_rules

pytestmark = pytest.mark.core

SPEC = spec(resources={"limits": {"nvidia.com/gpu": 2, "memory": "4Gi"}})
BUILT = build_job({}, SPEC, identity(SPEC), SETTINGS, built_in_rules())


def document(**changes: Any) -> dict[str, Any]:
    return job(spec={**BUILT["spec"], **changes})


def read(body: Any) -> LedgerJob:
    return recovered(body, number=7, generation=3, now=moment(50))


def test_a_record_is_made_from_what_the_job_says_of_its_limits() -> None:
    record = read(document(parallelism=4))
    assert (record.number, record.generation, record.period) == (7, 3, 1)
    assert (record.name, record.uid, record.created_at, record.seen_until) == (
        JOB_NAME,
        JOB_UID,
        moment(0),
        moment(50),
    )
    assert (record.gpus, record.memory) == (8, "4Gi")
    assert record.allowance == Allowance(
        failures=SETTINGS.backoff_limit - 1, disruptions=DEFAULT_DISRUPTIONS, gpu_seconds=None, wall_seconds=1800.0
    )
    assert (record.attempts, record.ended_at, record.verdict) == ((), None, None)


def test_what_the_job_does_not_say_is_the_least_that_can_be_meant() -> None:
    record = read({"metadata": {"name": "j", "uid": "u"}})
    assert (record.gpus, record.memory, record.created_at) == (0, "", moment(50))
    assert (record.allowance.failures, record.allowance.wall_seconds) == (0, 30 * 24 * 3600.0)


@pytest.mark.parametrize(
    ("gpus", "held"), [("2", 2), (2, 2), ("9" * 5000, 0), ("two", 0), ("-1", 0), ("\u0663", 0), (None, 0)]
)
def test_gpus_that_are_no_number_are_none(gpus: object, held: int) -> None:
    limits = {"nvidia.com/gpu": gpus, "memory": "4Gi"}
    pod = {"spec": {"containers": [{"name": "training", "resources": {"limits": limits}}]}}
    assert read(document(template=pod)).gpus == held


@given(damaged(document()))
def test_whatever_the_job_holds_there_is_a_record(body: Any) -> None:
    record = read(body)
    assert record.gpus >= 0
    assert record.allowance.failures >= 0
    assert record.allowance.wall_seconds >= 0


KNOWN = KnownTraining(generation=3, model_uri="models:/m-1", mlflow_run_id="run", job_uid="u", image="i@sha256:0")


def asking(*, retrain: bool = False) -> Request:
    return Request(task=OWNER, max_tries=0, by_person=True, retrain=retrain, budget=BUDGET)


def test_what_the_registry_knows_is_reused_where_its_ledger_is_gone() -> None:
    ledger = remembered(ledger_of(), KNOWN, moment(0))
    after, consequence = follow(ledger, asking(), moment(1))
    assert isinstance(consequence, Reuse)
    assert (consequence.own, consequence.trained.generation, consequence.trained.job_uid) == (False, 3, "u")
    assert consequence.trained.result is not None
    assert consequence.trained.result.model_uri == "models:/m-1"
    retry = follow(after, asking(), moment(2))[1]
    assert isinstance(retry, Reuse)
    assert not retry.own


def test_who_asks_to_train_again_what_the_registry_knows_gets_the_generation_after_it() -> None:
    ledger = remembered(ledger_of(), KNOWN, moment(0))
    assert follow(ledger, asking(retrain=True), moment(1))[1] == Start(number=1, generation=4)


def test_a_ledger_that_knows_more_is_left_as_it_is() -> None:
    for ledger in (ledger_of(ledger_job(1)), replace(ledger_of(), updated_at=1.0)):
        assert remembered(ledger, KNOWN, moment(0)) == ledger
