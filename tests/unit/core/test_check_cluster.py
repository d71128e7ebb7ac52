"""What was gathered of a cluster -> its checks, in their order."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from tests.unit.core.damage import anything
from tests.unit.core.specs import full_document

from gpu_training.core.check_cluster import check_cluster
from gpu_training.core.check_up import Check, State
from gpu_training.core.cluster_facts import ClusterFacts, NamespaceFacts, TrainingFacts
from gpu_training.core.look_ups import Answer, LookUp
from gpu_training.core.pod_demand import Demand
from gpu_training.core.references import Kind, references_of
from gpu_training.core.resources import GPU_RESOURCE
from gpu_training.core.rights import KUEUE_GROUP, rights_for
from gpu_training.core.spec import parse_training_spec
from gpu_training.core.surroundings import Node
from gpu_training.core.trial import Trial, TrialEnd

pytestmark = pytest.mark.core

SPEC = parse_training_spec(full_document())
FOUND = LookUp(answer=Answer.FOUND)
ABSENT = LookUp(answer=Answer.ABSENT)
FORBIDDEN = LookUp(answer=Answer.FORBIDDEN)
ACCEPTED = Trial(end=TrialEnd.ACCEPTED, of_pod=True)
GPUS = {GPU_RESOURCE: Fraction(2)}
WORD_OF = {
    Kind.SECRET: {"type": "kubernetes.io/dockerconfigjson", "data": {"api.token": None}},
    Kind.CLAIM: {"status": {"phase": "Bound"}},
    Kind.LOCAL_QUEUE: {"status": {"conditions": [{"type": "Active", "status": "True"}]}},
}
NAMESPACE = NamespaceFacts(
    name="gpu-training",
    look_up=LookUp(
        answer=Answer.FOUND,
        items=({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}},),
    ),
    rights=dict.fromkeys(rights_for([KUEUE_GROUP]), True),
    quota_look_up=FOUND,
    limit_look_up=FOUND,
)
TRAINING = TrainingFacts(
    model="flight-delay",
    namespace="gpu-training",
    resources=SPEC.resources,
    demand=Demand(gpus=2, requests=GPUS),
    references={each: LookUp(answer=Answer.FOUND, items=(WORD_OF.get(each.kind, {}),)) for each in references_of(SPEC)},
    trial=ACCEPTED,
)
SOUND = ClusterFacts(
    where="connection 'kubernetes_gpu' (https://k8s.example)",
    version="v1.37.2",
    groups=("batch", KUEUE_GROUP),
    node_look_up=FOUND,
    tenant_look_up=FOUND,
    nodes=(Node(name="g5-1", ready=True, capacity=GPUS, allocatable=GPUS),),
    namespaces={"gpu-training": NAMESPACE},
    trainings=(TRAINING,),
)


def cluster(namespace: dict[str, Any] | None = None, training: dict[str, Any] | None = None, **changes: Any) -> Any:
    return replace(
        SOUND,
        namespaces={"gpu-training": replace(NAMESPACE, **(namespace or {}))},
        trainings=(replace(TRAINING, **(training or {})),),
        **changes,
    )


def found(facts: ClusterFacts, name: str) -> Check:
    (check,) = [each for each in check_cluster(facts) if each.name == name]
    return check


def test_a_sound_cluster_is_told_in_the_order_in_which_checks_build_on_each_other() -> None:
    checks = check_cluster(SOUND)
    assert {check.state for check in checks} == {State.OK}
    names = [check.name for check in checks]
    order = [
        "api-server",
        "clock",
        "rights/jobs",
        "namespace",
        "service-account/training",
        "secret/registry",
        "configmap/flights-settings",
        "persistentvolumeclaim/model-cache",
        "quota",
        "limit-range",
        "pod-security",
        "nodes",
        "device-plugin",
        "runtimeclass/nvidia",
        "priorityclass/nightly",
        "localqueue/gpu",
        "dry-run",
    ]
    assert [name for name in names if name in order] == order


def test_nothing_else_is_told_of_a_server_that_does_not_answer() -> None:
    facts = ClusterFacts(where="kubeconfig x", trouble="refused", node_look_up=ABSENT, tenant_look_up=ABSENT)
    (check,) = check_cluster(facts)
    assert (check.name, check.state, check.said) == ("api-server", State.BROKEN, "refused")
    assert check.remedy


@pytest.mark.parametrize(
    ("skew", "state", "said"),
    [
        (0.2, State.OK, "0.2 s behind"),
        (-4.9, State.OK, "4.9 s ahead of"),
        (31.0, State.WARNING, "31.0 s behind"),
        (-31.0, State.WARNING, "31.0 s ahead of"),
    ],
)
def test_a_clock_that_is_off_is_a_warning(skew: float, state: State, said: str) -> None:
    check = found(replace(SOUND, skew=skew), "clock")
    assert check.state is state
    assert said in check.said
    assert bool(check.remedy) is (state is State.WARNING)


def test_the_nodes_of_the_last_attempt_are_a_check_of_their_own_and_break_nothing() -> None:
    last = Demand(gpus=2, requests=GPUS, selector={"capacity": "on-demand"})
    facts = cluster(training={"last_demand": last})
    check = found(facts, "nodes/spot-fallback")
    assert check.state is State.WARNING
    assert "spot_fallback says" in check.said
    assert "training.spot_fallback.node_selector" in check.remedy
    assert found(facts, "nodes").state is State.OK


REFUSED = Trial(end=TrialEnd.NOT_ALLOWED)
LEAVING = LookUp(answer=Answer.FOUND, items=({"status": {"phase": "Terminating"}},))


@pytest.mark.parametrize(
    ("look_up", "trial", "state", "said"),
    [
        (NAMESPACE.look_up, ACCEPTED, State.OK, "Pod Security admits restricted"),
        (FOUND, ACCEPTED, State.OK, "Pod Security admits everything"),
        (LEAVING, ACCEPTED, State.BROKEN, "is being deleted"),
        (ABSENT, REFUSED, State.BROKEN, "does not exist"),
        (FORBIDDEN, ACCEPTED, State.OK, "accepts a Job in it"),
        (FORBIDDEN, REFUSED, State.UNKNOWN, "may not read it"),
        (LookUp(answer=Answer.FAILED, said="time-out"), REFUSED, State.UNKNOWN, "time-out"),
    ],
)
def test_a_namespace_is_there_or_it_is_not(look_up: LookUp, trial: Trial, state: State, said: str) -> None:
    check = found(cluster({"look_up": look_up}, {"trial": trial}), "namespace")
    assert check.state is state
    assert said in check.said


def test_what_would_be_in_an_absent_namespace_is_not_told_one_by_one() -> None:
    names = [check.name for check in check_cluster(cluster({"look_up": ABSENT})) if not check.name.startswith("rights")]
    assert names == [
        "api-server",
        "clock",
        "namespace",
        "nodes",
        "device-plugin",
        "runtimeclass/nvidia",
        "priorityclass/nightly",
    ]


def test_a_queue_needs_kueue() -> None:
    check = found(replace(SOUND, groups=("batch",)), "localqueue/gpu")
    assert check.state is State.BROKEN
    assert "no Kueue" in check.said


def test_a_class_that_was_tried_by_itself_is_judged_by_its_own_trial() -> None:
    words = 'pods "a-" is forbidden: no PriorityClass with name b was found'
    references = {each: FORBIDDEN for each in references_of(SPEC, ("nightly", "b")) if each.kind is Kind.PRIORITY_CLASS}
    facts = cluster(
        training={
            "references": references,
            "class_trials": {"b": Trial(end=TrialEnd.REFUSED, said=words)},
        }
    )
    assert found(facts, "priorityclass/nightly").state is State.OK
    assert found(facts, "priorityclass/b").state is State.BROKEN


@pytest.mark.parametrize(
    ("trial", "state", "said"),
    [
        (ACCEPTED, State.OK, "accepts the Job and a pod of it"),
        (replace(ACCEPTED, remarks=("unset seccomp",)), State.WARNING, "warns: unset seccomp"),
        (Trial(end=TrialEnd.ACCEPTED), State.UNKNOWN, "a pod of it was not tried"),
        (Trial(end=TrialEnd.REFUSED, said="no cost centre"), State.BROKEN, "refuses: no cost centre"),
        (Trial(end=TrialEnd.NOT_ALLOWED, said="jobs"), State.UNKNOWN, "may not try: jobs"),
        (Trial(end=TrialEnd.UNANSWERED, said="time-out"), State.UNKNOWN, "no answer: time-out"),
    ],
)
def test_a_dry_run_is_told_with_the_servers_words(trial: Trial, state: State, said: str) -> None:
    check = found(cluster(training={"trial": trial}), "dry-run")
    assert check.state is state
    assert said in check.said
    assert bool(check.remedy) is (state is not State.OK)


@given(anything)
def test_whatever_the_server_says_of_the_namespace_there_are_checks(value: Any) -> None:
    for document in ({"status": value}, {"metadata": value}, {"metadata": {"labels": value}}):
        look_up = LookUp(answer=Answer.FOUND, items=(document,))
        assert found(cluster({"look_up": look_up}), "namespace").state in set(State)
