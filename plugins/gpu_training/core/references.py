"""What a training names and others have to have made, such as Secrets, claims, classes; and whether it is there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gpu_training.core import documents
from gpu_training.core.check_up import Check, State
from gpu_training.core.look_ups import Answer, LookUp
from gpu_training.core.pending_cause import Cause
from gpu_training.core.spec import TrainingSpec
from gpu_training.core.trial import Trial
from gpu_training.core.volumes import VolumeSource


class Kind(StrEnum):
    """Kinds of objects that a spec names. Stable: they name checks."""

    SERVICE_ACCOUNT = "service account"
    SECRET = "Secret"  # noqa: S105 - a kind
    CONFIG_MAP = "ConfigMap"
    CLAIM = "PersistentVolumeClaim"
    RUNTIME_CLASS = "RuntimeClass"
    PRIORITY_CLASS = "PriorityClass"
    LOCAL_QUEUE = "LocalQueue"

    @property
    def namespaced(self) -> bool:
        return self not in (Kind.RUNTIME_CLASS, Kind.PRIORITY_CLASS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """An object that a training names.

    :param field: where the model's file names it, or may.
    :param by_run: whether what starts a run decides on it, since the file names none.
    :param keys: of its data that have to be there.
    :param pulls: whether images are pulled with it.
    """

    kind: Kind
    name: str
    field: str
    keys: tuple[str, ...] = ()
    pulls: bool = False
    by_run: bool = False


_ADMISSION: Final[Mapping[Kind, Cause]] = {
    Kind.SERVICE_ACCOUNT: Cause.SERVICE_ACCOUNT_MISSING,
    Kind.RUNTIME_CLASS: Cause.RUNTIME_CLASS_MISSING,
    Kind.PRIORITY_CLASS: Cause.PRIORITY_CLASS_MISSING,
}
"""What the server looks for when a pod is made: a dry run proves it where it may not be read."""

_REMEDIES: Final[Mapping[Kind, str]] = {
    Kind.SERVICE_ACCOUNT: "apply include/manifests, which has `training`, or create it there",
    Kind.SECRET: "create it there",
    Kind.CONFIG_MAP: "create it there",
    Kind.CLAIM: "create it there",
    Kind.RUNTIME_CLASS: "install what brings it, as NVIDIA's GPU operator brings `nvidia`",
    Kind.PRIORITY_CLASS: "apply include/manifests, which has the classes of this project, or create it",
    Kind.LOCAL_QUEUE: "create it there, with the cluster queue that it leads to",
}
_PULL_SECRETS: Final = ("kubernetes.io/dockerconfigjson", "kubernetes.io/dockercfg")


def references_of(spec: TrainingSpec, classes: Sequence[str] = ()) -> tuple[Reference, ...]:
    """Give what a spec names, each object once.

    :param classes: PriorityClasses that its runs' pods get by what starts them, where the model's file names none.
    """
    keys: dict[str, list[str]] = {}
    for entry in spec.secret_environment.values():
        keys.setdefault(entry.secret, []).append(entry.key)
    found = [
        Reference(kind=Kind.SERVICE_ACCOUNT, name=spec.service_account, field="service_account"),
        *_named(Kind.SECRET, "image_pull_secrets", *spec.image_pull_secrets, pulls=True),
        *_named(Kind.SECRET, "environment_from_secrets", *spec.environment_from_secrets),
        *(
            Reference(kind=Kind.SECRET, name=name, field="secret_environment", keys=tuple(sorted(set(names))))
            for name, names in keys.items()
        ),
        *_mounted(Kind.SECRET, spec, VolumeSource.SECRET),
        *_named(Kind.CONFIG_MAP, "environment_from_config_maps", *spec.environment_from_config_maps),
        *_mounted(Kind.CONFIG_MAP, spec, VolumeSource.CONFIG_MAP),
        *_mounted(Kind.CLAIM, spec, VolumeSource.CLAIM),
        *_named(Kind.RUNTIME_CLASS, "runtime_class", spec.runtime_class),
        *(
            Reference(kind=Kind.PRIORITY_CLASS, name=name, field="priority_class", by_run=bool(classes))
            for name in (classes or (spec.priority_class,))
            if name
        ),
        *_named(Kind.LOCAL_QUEUE, "queue", spec.queue),
    ]
    return tuple({(each.kind, each.name, each.keys, each.pulls): each for each in reversed(found)}.values())[::-1]


def _named(kind: Kind, field: str, *names: str | None, pulls: bool = False) -> list[Reference]:
    return [Reference(kind=kind, name=name, field=field, pulls=pulls) for name in names if name]


def _mounted(kind: Kind, spec: TrainingSpec, source: VolumeSource) -> list[Reference]:
    return _named(kind, "volumes", *(volume.reference for volume in spec.volumes if volume.source is source))


def check_reference(reference: Reference, look_up: LookUp, trial: Trial, *, subject: str, namespace: str) -> Check:
    """Tell whether an object that a training names is there and of use.

    :param trial: the dry run of a pod that names it.
    """
    place = f" in namespace {namespace}" if reference.kind.namespaced else ""
    told = "by what starts a run" if reference.by_run else f"training.{reference.field}"
    what = f"{reference.kind} {reference.name!r}{place} ({told})"

    def check(state: State, said: str, remedy: str = "") -> Check:
        name = f"{reference.kind.value.replace(' ', '-').lower()}/{reference.name}"
        return Check(name=name, subject=subject, state=state, said=f"{what} {said}", remedy=remedy)

    missing = f"{_REMEDIES[reference.kind]}, or correct training.{reference.field} in the model's file"
    proof = _ADMISSION.get(reference.kind)
    if look_up.found:
        state, said, remedy = _looked_at(reference, look_up)
        return check(state, said, remedy)
    if look_up.answer is Answer.ABSENT or (proof is not None and trial.cause is proof):
        return check(State.BROKEN, "does not exist", missing)
    if proof is not None and trial.accepts_pod:
        return check(State.OK, "is there: the API server accepts a pod that names it")
    why = "may not be read by this account" if look_up.answer is Answer.FORBIDDEN else f"was not read: {look_up.said}"
    return check(State.UNKNOWN, why, f"check that it exists, or the first training waits for it; if not, {missing}")


def _looked_at(reference: Reference, look_up: LookUp) -> tuple[State, str, str]:
    document = look_up.document
    if absent := [key for key in reference.keys if key not in documents.child(document, "data")]:
        return State.BROKEN, f"has no key {', '.join(absent)}", "add the key, or correct it in the model's file"
    match reference.kind:
        case Kind.SECRET if reference.pulls and documents.text(document, "type") not in _PULL_SECRETS:
            kind = documents.text(document, "type") or "no type"
            said = f"is of type {kind}, with which no image is pulled"
            return State.BROKEN, said, f"make it anew as type {_PULL_SECRETS[0]}: kubectl create secret docker-registry"
        case Kind.CLAIM:
            return _claim(documents.text(documents.child(document, "status"), "phase"))
        case Kind.LOCAL_QUEUE:
            return _queue(document)
    return State.OK, "is there", ""


def _claim(phase: str) -> tuple[State, str, str]:
    if phase == "Bound":
        return State.OK, "is bound", ""
    if phase == "Lost":
        return State.BROKEN, "has lost its volume", "make the claim anew, and what was in it"
    said = "is not bound to a volume yet"
    return State.WARNING, said, "leave it if its storage class waits for the first pod; else look at the claim's events"


def _queue(document: documents.Document) -> tuple[State, str, str]:
    policy = documents.text(documents.child(document, "spec"), "stopPolicy")
    if policy not in ("", "None"):
        return State.BROKEN, f"is stopped (stopPolicy {policy})", "set its stopPolicy to None when trainings may run"
    conditions = documents.entries(documents.child(document, "status"), "conditions")
    active = next((each for each in conditions if each.get("type") == "Active"), None)
    if active is None:
        return State.WARNING, "was not looked at by Kueue yet", "check that Kueue's controller runs"
    if active.get("status") != "True":
        said = f"is not active: {documents.text(active, 'message') or documents.text(active, 'reason')}"
        return State.BROKEN, said, "create or repair the cluster queue that it leads to, and its flavors"
    return State.OK, "is active", ""
