"""What a training names, and whether it is there: whether the account may look, or only a dry run tells."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from tests.unit.core.damage import anything
from tests.unit.core.specs import full_document, spec

from gpu_training.core.check_up import Check, State
from gpu_training.core.look_ups import Answer, LookUp
from gpu_training.core.references import Kind, Reference, check_reference, references_of
from gpu_training.core.spec import parse_training_spec
from gpu_training.core.trial import Trial, TrialEnd

pytestmark = pytest.mark.core

ACCEPTED = Trial(end=TrialEnd.ACCEPTED, of_pod=True)
JOB_ALONE = Trial(end=TrialEnd.ACCEPTED)
NOT_ALLOWED = Trial(end=TrialEnd.NOT_ALLOWED)
FORBIDDEN = LookUp(answer=Answer.FORBIDDEN, said="HTTP 403")
ABSENT = LookUp(answer=Answer.ABSENT, said="HTTP 404")
FAILED = LookUp(answer=Answer.FAILED, said="time-out")


def found(**document: Any) -> LookUp:
    return LookUp(answer=Answer.FOUND, items=(document,))


def reference(kind: Kind, **changes: Any) -> Reference:
    return Reference(**{"kind": kind, "name": "x", "field": "field", **changes})


def checked(each: Reference, look_up: LookUp, trial: Trial = ACCEPTED) -> Check:
    return check_reference(each, look_up, trial, subject="model m", namespace="gpu-training")


def test_everything_that_a_spec_names_is_looked_for_once() -> None:
    names = [(each.kind, each.name) for each in references_of(parse_training_spec(full_document()))]
    assert names == [
        (Kind.SERVICE_ACCOUNT, "training"),
        (Kind.SECRET, "registry"),
        (Kind.SECRET, "flights-data-credentials"),
        (Kind.SECRET, "tokens"),
        (Kind.SECRET, "keys"),
        (Kind.CONFIG_MAP, "flights-settings"),
        (Kind.CLAIM, "model-cache"),
        (Kind.RUNTIME_CLASS, "nvidia"),
        (Kind.PRIORITY_CLASS, "nightly"),
        (Kind.LOCAL_QUEUE, "gpu"),
    ]


def test_where_the_file_names_no_priority_class_those_of_all_runs_are_looked_for() -> None:
    found = references_of(spec(priority_class="a"), ("a", "b"))
    classes = [each for each in found if each.kind is Kind.PRIORITY_CLASS]
    assert [(each.name, each.by_run) for each in classes] == [("a", True), ("b", True)]
    assert "(by what starts a run)" in checked(classes[0], ABSENT).said


@pytest.mark.parametrize("kind", list(Kind))
def test_what_is_absent_is_broken_with_a_remedy_and_the_field(kind: Kind) -> None:
    check = checked(reference(kind), ABSENT)
    assert check.state is State.BROKEN
    assert check.said.startswith(f"{kind} 'x'")
    assert "correct training.field" in check.remedy


PROVEN = (Kind.SERVICE_ACCOUNT, Kind.RUNTIME_CLASS, Kind.PRIORITY_CLASS)
REFUSALS = {
    Kind.SERVICE_ACCOUNT: 'pods "a-" is forbidden: error looking up service account gpu-training/x: serviceaccount "x" '
    "not found",
    Kind.RUNTIME_CLASS: 'pods "a-" is forbidden: pod rejected: RuntimeClass "x" not found',
    Kind.PRIORITY_CLASS: 'pods "a-" is forbidden: no PriorityClass with name x was found',
}


@pytest.mark.parametrize("look_up", [FORBIDDEN, FAILED])
@pytest.mark.parametrize("kind", list(Kind))
def test_what_may_not_be_read_is_proven_by_the_dry_run_or_unknown(kind: Kind, look_up: LookUp) -> None:
    assert checked(reference(kind), look_up).state is (State.OK if kind in PROVEN else State.UNKNOWN)
    for trial in (JOB_ALONE, NOT_ALLOWED):
        check = checked(reference(kind), look_up, trial)
        assert check.state is State.UNKNOWN
        assert check.remedy


@pytest.mark.parametrize("kind", PROVEN)
def test_a_dry_run_that_is_refused_for_it_proves_that_it_is_absent(kind: Kind) -> None:
    for refused, words in REFUSALS.items():
        trial = Trial(end=TrialEnd.REFUSED, said=words)
        expected = State.BROKEN if refused is kind else State.UNKNOWN
        assert checked(reference(kind), FORBIDDEN, trial).state is expected


def test_what_was_seen_goes_before_what_a_dry_run_says_of_another() -> None:
    trial = Trial(end=TrialEnd.REFUSED, said=REFUSALS[Kind.PRIORITY_CLASS])
    assert checked(reference(Kind.PRIORITY_CLASS), found(), trial).state is State.OK


QUEUE = reference(Kind.LOCAL_QUEUE)


def queue(status: str, message: str = "", **spec: Any) -> LookUp:
    condition = {"type": "Active", "status": status, "reason": "Ready", "message": message}
    return found(spec=spec, status={"conditions": [condition]})


@pytest.mark.parametrize(
    ("each", "look_up", "state", "said"),
    [
        (reference(Kind.SECRET, keys=("a", "b")), found(data={"a": None}), State.BROKEN, "has no key b"),
        (reference(Kind.SECRET, keys=("a",)), found(data={"a": None}), State.OK, "is there"),
        (reference(Kind.SECRET, pulls=True), found(type="Opaque"), State.BROKEN, "with which no image is pulled"),
        (reference(Kind.SECRET, pulls=True), found(type="kubernetes.io/dockerconfigjson"), State.OK, "is there"),
        (reference(Kind.CLAIM), found(status={"phase": "Bound"}), State.OK, "is bound"),
        (reference(Kind.CLAIM), found(status={"phase": "Pending"}), State.WARNING, "is not bound"),
        (reference(Kind.CLAIM), found(status={"phase": "Lost"}), State.BROKEN, "has lost its volume"),
        (QUEUE, queue("True"), State.OK, "is active"),
        (QUEUE, queue("False", "no such cluster queue"), State.BROKEN, "not active: no such cluster queue"),
        (QUEUE, queue("True", stopPolicy="Hold"), State.BROKEN, "is stopped (stopPolicy Hold)"),
        (QUEUE, queue("True", stopPolicy="None"), State.OK, "is active"),
        (QUEUE, found(spec={}), State.WARNING, "was not looked at by Kueue yet"),
    ],
)
def test_what_is_there_has_to_be_of_use(each: Reference, look_up: LookUp, state: State, said: str) -> None:
    check = checked(each, look_up)
    assert check.state is state
    assert said in check.said
    assert bool(check.remedy) is (state is not State.OK)


@given(anything, anything)
def test_whatever_a_document_holds_there_is_a_check(value: Any, other: Any) -> None:
    for kind in Kind:
        for document in (
            {"data": value, "type": other},
            {"status": value, "spec": other},
            {"status": {"conditions": [value]}},
        ):
            check = checked(reference(kind, keys=("a",), pulls=True), found(**document))
            assert check.state in set(State)
