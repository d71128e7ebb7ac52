"""Why a pod that is on a node has not started: its containers' waiting states, and the events about it.

Of the kubelet of Kubernetes 1.28 to 1.37, of containerd, CRI-O and cri-dockerd, and of the registries behind them:
https://github.com/kubernetes/kubernetes/tree/master/pkg/kubelet
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gpu_training.core.container_sayings import CONTAINER_SAYINGS, SANDBOX_SAYINGS
from gpu_training.core.image_sayings import IMAGE_SAYINGS
from gpu_training.core.pending_cause import Cause, Cure
from gpu_training.core.sayings import LONGEST, Saying, hear, plain, sentence
from gpu_training.core.volume_sayings import CLAIM_SAYINGS, VOLUME_SAYINGS


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletWords:
    cause: Cause
    cure: Cure
    summary: str
    remedy: str


@dataclass(frozen=True, slots=True)
class _Matter:
    """What a reason is about: what is known to be said then, and what it means when it is none of it."""

    sayings: Sequence[Saying]
    cause: Cause
    cure: Cure
    summary: str
    remedy: str


_IMAGE: Final = _Matter(
    IMAGE_SAYINGS,
    Cause.IMAGE_PULL_FAILED,
    Cure.WAITING,
    "{Image} can not be pulled: {words}",
    "Read the words; the kubelet tries again by itself.",
)
_CONTAINER: Final = _Matter(
    CONTAINER_SAYINGS,
    Cause.CONTAINER_NOT_CREATED,
    Cure.WAITING,
    "The container can not be started: {words}",
    "Correct what the words name in the training or its template; the kubelet tries again by itself.",
)
_VOLUME: Final = _Matter(
    VOLUME_SAYINGS,
    Cause.VOLUME_MOUNT_FAILED,
    Cure.WAITING,
    "A volume can not be mounted: {words}",
    "Correct what the words name, or ask whoever runs the storage; the kubelet tries again by itself.",
)
_CLAIM: Final = _Matter(
    CLAIM_SAYINGS,
    Cause.VOLUME_UNBOUND,
    Cure.WAITING,
    "A volume claim gets no volume: {words}",
    "Correct what the words name, or ask whoever runs the storage.",
)
_SANDBOX: Final = _Matter(
    SANDBOX_SAYINGS,
    Cause.CONTAINER_NOT_CREATED,
    Cure.TRANSIENT,
    "The node can not set the pod up: {words}",
    "Wait; if it stays so, have the node looked after.",
)

_STATES: Final = {
    "ErrImagePull": _IMAGE,
    "ImagePullBackOff": _IMAGE,
    "ImageInspectError": _IMAGE,
    "ErrImageNeverPull": _IMAGE,
    "InvalidImageName": _IMAGE,
    "RegistryUnavailable": _IMAGE,
    "SignatureValidationFailed": _IMAGE,
    "CreateContainerConfigError": _CONTAINER,
    "CreateContainerError": _CONTAINER,
    "PreCreateHookError": _CONTAINER,
    "PreStartHookError": _CONTAINER,
    "PostStartHookError": _CONTAINER,
    "RunContainerError": _CONTAINER,
    "StartError": _CONTAINER,
}
_EVENTS: Final = {
    "InspectFailed": _IMAGE,
    "ErrImageNeverPull": _IMAGE,
    "FailedMount": _VOLUME,
    "FailedMapVolume": _VOLUME,
    "FailedAttachVolume": _VOLUME,
    "FailedBinding": _CLAIM,
    "ProvisioningFailed": _CLAIM,
    "WaitForFirstConsumer": _CLAIM,
    "WaitForPodScheduled": _CLAIM,
    "ExternalProvisioning": _CLAIM,
    "FailedCreatePodSandBox": _SANDBOX,
    "FailedCreatePodContainer": _SANDBOX,
    "FailedPrepareDynamicResources": _SANDBOX,
    "NetworkNotReady": _SANDBOX,
}
_PULLING_FAILED: Final = re.compile(r"Failed to pull image ")
_BACK_OFF: Final = re.compile(r"Back-off pulling image ")
_SAYS_NOTHING: Final = re.compile(
    r"(?:Error: )?(?:ErrImagePull|ImagePullBackOff|ErrImageNeverPull|InvalidImageName)\.?"
)
# What kubelet and runtime put before the words that matter.
_LEADS_TO: Final = re.compile(
    r"(?:rpc error: code = \w{1,30} desc = |ErrImagePull: |failed to do request: |Failed to create pod sandbox: "
    r"|image pull failed for \S{1,400} because |reading manifest \S{1,200} in \S{1,300}: "
    r"|initializing source \S{1,400}: |(?:Failed|failed) to (?:pull|resolve) (?:and unpack )?(?:image|reference) "
    r"\"[^\"]{1,400}\": |Back-off pulling image \"[^\"]{1,400}\": |failed to create (?:containerd|shim) task: "
    r"|OCI runtime create failed: |runc create failed: |unable to start container process: "
    r"|error during container init: |failed to generate container spec: |failed to apply OCI options: )+"
)
_NAMES_IMAGE: Final = re.compile(
    r"(?:[Ii]mage|reference|image tag|image name) \"(?P<quoted>[^\"]{1,400})\""
    r"|reading manifest (?P<version>\S{1,200}) in (?P<repository>\S{1,300}): "
    r"|docker://(?P<source>\S{1,400}): |image pull failed for (?P<named>\S{1,400}) because "
    r"|manifest for (?P<missing>\S{1,400}) not found"
)
_PULLING: Final = re.compile(r"Pulling image \"(?P<image>[^\"]{1,400})\"")


def parse_container_wait(reason: str, message: str) -> KubeletWords | None:
    """Give what a waiting state of a container says; None for one that is nothing wrong, such as ContainerCreating."""
    matter = _STATES.get(reason)
    if matter is None:
        return None
    return _said(matter, message if message.strip() else reason)


def parse_kubelet_event(reason: str, message: str) -> KubeletWords | None:
    """Give what an event about a pod, or about one of its volume claims, says; None for one that tells no cause."""
    text = message[:LONGEST].strip()
    if reason == "Pulling":
        found = _PULLING.search(text)
        return KubeletWords(
            cause=Cause.IMAGE_PULLING,
            cure=Cure.TRANSIENT,
            summary=f"The node is pulling image {plain(found['image']) if found else '?'}.",
            remedy="Wait; a smaller image, or one that is pulled to the nodes beforehand, starts sooner.",
        )
    if reason == "Failed":
        return _of_failed(text)
    if reason == "BackOff":
        return _said(_IMAGE, text) if _BACK_OFF.match(text) else None
    matter = _EVENTS.get(reason)
    return _said(matter, text) if matter is not None else None


def _of_failed(text: str) -> KubeletWords | None:
    if not text or _SAYS_NOTHING.fullmatch(text):
        return None
    if _PULLING_FAILED.match(text):
        return _said(_IMAGE, text)
    return _said(_CONTAINER, text.removeprefix("Error: "))


def _said(matter: _Matter, message: str) -> KubeletWords:
    text = message[:LONGEST]
    image = _image_in(text)
    context = {
        "image": image,
        "Image": image[:1].upper() + image[1:],
        "words": plain(_LEADS_TO.sub("", text, count=1)),
    }
    heard = hear(matter.sayings, text, context)
    if heard is not None:
        return KubeletWords(cause=heard.cause, cure=heard.cure, summary=heard.summary, remedy=heard.remedy)
    return KubeletWords(
        cause=matter.cause,
        cure=matter.cure,
        summary=sentence(matter.summary.format_map(context)),
        remedy=matter.remedy.format_map(context),
    )


def _image_in(text: str) -> str:
    """Give the image that a message names, as a part of a sentence."""
    found = _NAMES_IMAGE.search(text)
    if found is None:
        return "the training's image"
    version, repository = found["version"], found["repository"]
    if repository:
        return plain(f"image {repository}{'@' if ':' in version else ':'}{version}")
    return plain(f"image {found['quoted'] or found['source'] or found['named'] or found['missing']}")
