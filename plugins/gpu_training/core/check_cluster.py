"""What was gathered of a cluster -> its checks, in the order in which they build on each other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from gpu_training.core import documents
from gpu_training.core.check_nodes import check_device_plugin, check_nodes
from gpu_training.core.check_quota import check_limits, check_quota, pod_security
from gpu_training.core.check_up import Check, State
from gpu_training.core.cluster_facts import ClusterFacts, NamespaceFacts, TrainingFacts
from gpu_training.core.look_ups import Answer
from gpu_training.core.pod_demand import Demand
from gpu_training.core.references import Kind, Reference, check_reference
from gpu_training.core.rights import KUEUE_GROUP, check_rights
from gpu_training.core.trial import TrialEnd, check_trial

_LONGEST_SKEW_S: Final = 5.0
_ENFORCED: Final = "pod-security.kubernetes.io/enforce"
_BEFORE_QUOTA: Final = (Kind.SERVICE_ACCOUNT, Kind.SECRET, Kind.CONFIG_MAP, Kind.CLAIM)


def check_cluster(facts: ClusterFacts) -> tuple[Check, ...]:
    """Give the checks of a cluster: of itself, of each namespace, of each training."""
    return tuple(_all(facts))


def _all(facts: ClusterFacts) -> Iterator[Check]:
    yield from _server(facts)
    for namespace in facts.namespaces.values():
        yield from check_rights(namespace.rights, f"namespace {namespace.name}")
        yield _namespace(namespace, [each for each in facts.trainings if each.namespace == namespace.name])
    for training in facts.trainings:
        yield from _training(training, facts)


def _server(facts: ClusterFacts) -> Iterator[Check]:
    subject = f"cluster, {facts.where}"
    if facts.trouble:
        remedy = "correct connection, kubeconfig or context, and see that the API server runs; nothing else was checked"
        yield Check(name="api-server", subject=subject, state=State.BROKEN, said=facts.trouble, remedy=remedy)
        return
    yield Check(name="api-server", subject=subject, state=State.OK, said=f"Kubernetes {facts.version} answers")
    behind = (
        f"this machine's clock is {abs(facts.skew):.1f} s {'behind' if facts.skew > 0 else 'ahead of'} the server's"
    )
    if abs(facts.skew) > _LONGEST_SKEW_S:
        remedy = "have this machine's clock set by NTP; trainings go by the API server's clock, logs by this one"
        yield Check(name="clock", subject=subject, state=State.WARNING, said=behind, remedy=remedy)
    else:
        yield Check(name="clock", subject=subject, state=State.OK, said=behind)


def _namespace(facts: NamespaceFacts, trainings: list[TrainingFacts]) -> Check:
    def check(state: State, said: str, remedy: str = "") -> Check:
        return Check(name="namespace", subject=f"namespace {facts.name}", state=state, said=said, remedy=remedy)

    if _is_absent(facts):
        remedy = "kubectl apply -k include/manifests, or correct training.namespace in the model's file"
        return check(State.BROKEN, f"namespace {facts.name} does not exist", remedy)
    document = facts.look_up.document
    if documents.text(documents.child(document, "status"), "phase") == "Terminating":
        return check(State.BROKEN, "the namespace is being deleted", "wait for its end, then apply include/manifests")
    if facts.look_up.found:
        level = documents.texts(documents.child(document, "metadata"), "labels").get(_ENFORCED, "")
        return check(State.OK, f"is there; Pod Security admits {level or 'everything'}")
    if any(each.trial.end is TrialEnd.ACCEPTED for each in trainings):
        return check(State.OK, "is there: the API server accepts a Job in it")
    if facts.look_up.answer is Answer.FORBIDDEN:
        remedy = "check that it exists: kubectl get namespace; if not, apply include/manifests"
        return check(State.UNKNOWN, "the account may not read it, and no Job was accepted in it", remedy)
    return check(State.UNKNOWN, f"it was not read: {facts.look_up.said}", "run the check-up again")


def _is_absent(facts: NamespaceFacts) -> bool:
    return facts.look_up.answer is Answer.ABSENT


def _training(training: TrainingFacts, facts: ClusterFacts) -> Iterator[Check]:
    subject = f"model {training.model}"
    namespace = facts.namespaces[training.namespace]
    # What is in a namespace that is not there is not there either: one line says it all.
    stands = not _is_absent(namespace)
    if stands:
        yield from _references(training, facts, subject, *_BEFORE_QUOTA)
        quotas, limits, resources = namespace.quotas, namespace.limits, training.resources
        yield check_quota(namespace.quota_look_up, quotas, resources, training.trial, subject=subject)
        yield check_limits(namespace.limit_look_up, limits, resources, training.trial, subject=subject)
        yield pod_security(training.trial, subject=subject)
    yield _nodes(training.demand, facts, subject)
    if training.last_demand is not None:
        yield _of_last_attempt(_nodes(training.last_demand, facts, subject))
    if facts.node_look_up.found:
        yield check_device_plugin(facts.nodes, training.demand, subject=subject, autoscaler=facts.autoscaler)
    yield from _references(training, facts, subject, Kind.RUNTIME_CLASS, Kind.PRIORITY_CLASS)
    if stands:
        yield from _references(training, facts, subject, Kind.LOCAL_QUEUE)
        yield check_trial(training.trial, subject=subject)


def _nodes(demand: Demand, facts: ClusterFacts, subject: str) -> Check:
    return check_nodes(
        facts.node_look_up,
        facts.nodes,
        facts.tenants,
        demand,
        subject=subject,
        autoscaler=facts.autoscaler,
        all_tenants=facts.tenant_look_up.found,
    )


def _of_last_attempt(check: Check) -> Check:
    """The attempts before it run all the same."""
    state = State.WARNING if check.state is State.BROKEN else check.state
    return replace(
        check,
        name="nodes/spot-fallback",
        state=state,
        said=f"the last attempt, which goes where training.spot_fallback says: {check.said}",
        remedy=check.remedy.replace("training.node_selector", "training.spot_fallback.node_selector").replace(
            "training.tolerations", "training.spot_fallback.tolerations"
        ),
    )


def _references(training: TrainingFacts, facts: ClusterFacts, subject: str, *kinds: Kind) -> Iterator[Check]:
    for reference, look_up in training.references.items():
        if reference.kind not in kinds:
            continue
        if reference.kind is Kind.LOCAL_QUEUE and KUEUE_GROUP not in facts.groups:
            yield _no_kueue(reference, subject)
            continue
        trial = training.class_trials.get(reference.name, training.trial)
        yield check_reference(reference, look_up, trial, subject=subject, namespace=training.namespace)


def _no_kueue(reference: Reference, subject: str) -> Check:
    return Check(
        name=f"localqueue/{reference.name}",
        subject=subject,
        state=State.BROKEN,
        said=f"training.queue names {reference.name!r}, and the cluster has no Kueue: nothing would queue it",
        remedy="install Kueue, or leave training.queue out of the model's file",
    )
