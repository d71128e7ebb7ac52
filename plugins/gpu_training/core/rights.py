"""Every verb that the operator, its trigger and the command line use, what for, and what is hidden without it.

`include/manifests` grants these and no others; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from gpu_training.core.check_up import Check, State

KUEUE_GROUP: Final = "kueue.x-k8s.io"
VISIBILITY_GROUP: Final = "visibility.kueue.x-k8s.io"


@dataclass(frozen=True, slots=True, kw_only=True)
class Right:
    """One verb on one kind of object.

    :param resource: plural, with a subresource behind `/`.
    :param group: API group; empty for the core's.
    :param use: what it is used for; of an optional one, what it lets us say.
    :param optional: whether trainings run without it.
    :param cluster_wide: asked for all namespaces, or of objects that are in none.
    :param name: the one object that it is about; empty for all.
    :param namespace: where that object is, when not in the trainings' own namespace.
    :param granted: whether include/manifests grants it.
    """

    verb: str
    resource: str
    use: str
    group: str = ""
    optional: bool = False
    cluster_wide: bool = False
    name: str = ""
    namespace: str = ""
    granted: bool = True

    @property
    def objects(self) -> str:
        """What it is about, such as `jobs` or `nodes in the whole cluster`."""
        named = f"{self.resource} {self.namespace}/{self.name}" if self.name else self.resource
        return f"{named} in the whole cluster" if self.cluster_wide else named


def _needed(group: str, resource: str, **uses: str) -> tuple[Right, ...]:
    return tuple(Right(verb=verb, group=group, resource=resource, use=use) for verb, use in uses.items())


def _optional(group: str, resource: str, use: str, *, everywhere: bool = False) -> tuple[Right, ...]:
    return tuple(
        Right(verb=verb, group=group, resource=resource, use=use, optional=True, cluster_wide=everywhere)
        for verb in ("list", "watch")
    )


RIGHTS: Final[tuple[Right, ...]] = (
    *_needed(
        "batch",
        "jobs",
        create="start a training",
        get="adopt or refuse what is under our name",
        list="see all trainings",
        watch="learn of the end at once",
        patch="write down who waits, and end what is over its budget",
        delete="take away what nobody waits on",
    ),
    *_needed(
        "",
        "pods",
        get="read results",
        list="see all attempts",
        watch="see why an attempt waits",
        create="have a pod checked in a dry run",
    ),
    *_needed(
        "",
        "configmaps",
        get="read a lineage's ledger",
        create="begin one",
        update="write down each attempt",
        list="find old ones",
        delete="remove old ones",
    ),
    *_needed("", "pods/log", get="show the training's output in the task's log"),
    *_optional("", "events", "why a pod is not made, and what the kubelet and an autoscaler say"),
    *_optional("", "resourcequotas", "what is left of a quota"),
    *_optional("", "limitranges", "what a single pod may ask for"),
    *_optional("", "nodes", "which nodes have GPUs, and why each of them does not take the training", everywhere=True),
    Right(
        verb="list",
        resource="pods",
        use="who of other namespaces holds the GPUs",
        optional=True,
        cluster_wide=True,
        granted=False,
    ),
    Right(
        verb="get",
        resource="configmaps",
        use="whether cluster-autoscaler is at work",
        optional=True,
        name="cluster-autoscaler-status",
        namespace="kube-system",
    ),
    *_optional(KUEUE_GROUP, "workloads", "why Kueue keeps a training waiting"),
    Right(
        verb="get",
        group=VISIBILITY_GROUP,
        resource="localqueues/pendingworkloads",
        use="how many trainings are ahead in the queue",
        optional=True,
    ),
)


def rights_for(groups: Collection[str]) -> tuple[Right, ...]:
    """Give the rights that mean something in a cluster that serves these API groups."""
    known = {"", "batch", *groups}
    return tuple(right for right in RIGHTS if right.group in known)


def check_rights(allowed: Mapping[Right, bool | None], subject: str) -> tuple[Check, ...]:
    """Give a check for each kind of object, in the order of :data:`RIGHTS`.

    :param allowed: what the server says of each right; None where it gave no answer.
    :param subject: namespace and account, for the checks.
    """
    kinds: dict[tuple[str, str], list[Right]] = {}
    for right in allowed:
        kinds.setdefault((right.group, right.objects), []).append(right)
    return tuple(_check(rights, allowed, subject) for rights in kinds.values())


def _check(rights: list[Right], allowed: Mapping[Right, bool | None], subject: str) -> Check:
    first = rights[0]
    name = f"rights/{first.resource}" + (
        "/everywhere" if first.cluster_wide else f"/{first.name}" if first.name else ""
    )
    missing = [right for right in rights if allowed[right] is False]
    silent = [right for right in rights if allowed[right] is None]
    if missing:
        return _missing(name, subject, missing)
    if silent:
        said = f"the API server did not say whether the account may {_verbs(silent)} {first.objects}"
        return Check(name=name, subject=subject, state=State.UNKNOWN, said=said, remedy="run the check-up again")
    return Check(name=name, subject=subject, state=State.OK, said=f"the account may {_verbs(rights)} {first.objects}")


def _missing(name: str, subject: str, missing: list[Right]) -> Check:
    first = missing[0]
    said = f"the account may not {_verbs(missing)} {first.objects}"
    if first.optional:
        return Check(
            name=name,
            subject=subject,
            state=State.WARNING,
            said=f"{said}: trainings run, but nobody is told {first.use}",
            remedy=_grant(missing),
        )
    uses = "; ".join(f"{right.verb}: {right.use}" for right in missing)
    return Check(name=name, subject=subject, state=State.BROKEN, said=f"{said} ({uses})", remedy=_grant(missing))


def _grant(missing: list[Right]) -> str:
    first = missing[0]
    group = f" (API group {first.group})" if first.group else ""
    verbs = f"{_verbs(missing)} on {first.objects}{group}"
    if not first.granted:
        return f"leave it, or bind the account to a ClusterRole that allows {verbs}; include/manifests does not"
    return f"apply include/manifests, or have the account's Role allow {verbs}"


def _verbs(rights: Iterable[Right]) -> str:
    return ", ".join(right.verb for right in rights)
