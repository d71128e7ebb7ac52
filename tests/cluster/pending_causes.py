"""Every cause for which a training may wait, made for real: how it comes about, and what has to be told of it.

Autoscalers, which can not run here, are in :mod:`tests.cluster.pending_autoscalers`.
"""

from __future__ import annotations

from typing import Any, Final

from tests.cluster.admission_webhook import DENIAL
from tests.cluster.pending_scene import DEADLINE_S, MAIN, Scene, volume, with_memory
from tests.cluster.pending_setting import (
    DENIED_BY_POLICY,
    DENIED_BY_WEBHOOK,
    FULL,
    KUBELET,
    NO_WEBHOOK,
    POLICY_WORDS,
    PRESSED,
    RANGED,
    SLOW_IMAGE,
    UNLIMITED,
    WEBHOOK,
)
from tests.cluster.pending_situation import Situation, waiting

from gpu_training.core.pending_cause import Cause, Cure
from sandbox.api import Document
from sandbox.kueue import PRIORITY_LABEL
from sandbox.kueue.queues import VERSION
from sandbox.kwok import PodLife
from sandbox.waiting import wait_for

WORKLOADS: Final = f"/apis/{VERSION}/namespaces/{MAIN}/workloads"


def _affinity(key: str, value: str) -> dict[str, Any]:
    terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


def _claim(name: str) -> dict[str, Any]:
    return {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]}


def _variable(**source: Any) -> dict[str, Any]:
    return {"env": [{"name": "TOKEN", "valueFrom": source}]}


def _image(name: str) -> dict[str, Any]:
    return {"pool": KUBELET, "container": {"image": f"registry.example.com/{name}:1"}}


def _preempt(scene: Scene) -> Document:
    """Have a pod of higher priority take the GPU of a training that ran."""
    scene.hold("more-urgent", pool="contended", priorityClassName="urgent")
    return scene.job("will-give-way")


def _push_out(scene: Scene) -> Document:
    """Have a workload of higher priority take the quota of a training that ran."""
    scene.hold("queue-more-urgent", pool="queued", queue="fought-for", labels={PRIORITY_LABEL: "queue-urgent"})
    return scene.job("queue-will-give-way")


def _deactivate(scene: Scene, job: Document) -> None:
    def workload() -> str | None:
        items = scene.get(WORKLOADS)["items"]
        owned = (
            each["metadata"]
            for each in items
            if each["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]
        )
        return next((each["name"] for each in owned), None)

    name = wait_for(workload, DEADLINE_S, "the Job's workload")
    scene.patch(f"{WORKLOADS}/{name}", {"spec": {"active": False}})


def _storage(amount: str) -> dict[str, Any]:
    limits = {"nvidia.com/gpu": "1", "memory": "64Mi", "ephemeral-storage": amount}
    return {"resources": {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": limits}}


ON_NODES: Final = (
    waiting("too few on any node", Cause.TOO_FEW_GPUS, Cure.NEVER, gpus=64, says=("64", "40")),
    waiting(
        "too few in its pool",
        Cause.TOO_FEW_GPUS,
        Cure.NEVER,
        pool="few",
        gpus=4,
        says=("4 GPUs", "than 2"),
        nearest=("2 GPUs", "few-1"),
    ),
    waiting(
        "all taken",
        Cause.GPUS_TAKEN,
        Cure.WAITING,
        pool="taken",
        says=("all 2",),
        holders=("bounded", "unbounded"),
    ),
    waiting(
        "taint not tolerated",
        Cause.TAINT_NOT_TOLERATED,
        Cure.NEVER,
        pool="tainted",
        says=("dedicated=ingest:NoSchedule",),
        nearest=("tainted-1", "dedicated", "training.tolerations"),
    ),
    waiting("label not matched", Cause.LABEL_NOT_MATCHED, Cure.NEVER, pool="nowhere", says=("pool=nowhere",)),
    waiting(
        "affinity not matched",
        Cause.LABEL_NOT_MATCHED,
        Cure.NEVER,
        affinity=_affinity("pool", "mars"),
        says=("pool", "mars"),
    ),
    waiting("cordoned", Cause.NODES_CORDONED, Cure.WAITING, pool="cordoned", says=("cordoned-1 is cordoned",)),
    waiting("not ready", Cause.NODES_NOT_READY, Cure.TRANSIENT, pool="lost", says=("lost-1",)),
    waiting("under pressure", Cause.NODES_UNDER_PRESSURE, Cure.TRANSIENT, pool=PRESSED, says=("pressed-1",)),
    waiting(
        "device plugin down",
        Cause.DEVICE_PLUGIN_DOWN,
        Cure.TRANSIENT,
        pool="dropped",
        says=("dropped-1",),
        remedy=("device plugin",),
    ),
    waiting(
        "too little memory",
        Cause.TOO_LITTLE_CPU_OR_MEMORY,
        Cure.NEVER,
        pool="free",
        container=with_memory("32Gi"),
        says=("32Gi", "8Gi"),
        nearest=("free-1",),
    ),
    waiting(
        "memory taken",
        Cause.CPU_OR_MEMORY_TAKEN,
        Cure.WAITING,
        pool="crammed",
        container=with_memory("4Gi"),
        says=("4Gi", "2Gi"),
        nearest=("crammed-1",),
    ),
    waiting(
        "gated",
        Cause.SCHEDULING_GATED,
        Cure.WAITING,
        pool="free",
        schedulingGates=[{"name": "example.com/budget"}],
        says=("example.com/budget",),
    ),
    waiting(
        "of no scheduler", Cause.SCHEDULER_SILENT, Cure.WAITING, pool="free", schedulerName="nobody", says=("nobody",)
    ),
    Situation(
        name="preempted",
        ran="will-give-way",
        second=True,
        make=_preempt,
        cause=Cause.PREEMPTED,
        cure=Cure.WAITING,
        says=("priority",),
        holders=("more-urgent",),
    ),
    waiting(
        "preempting",
        Cause.PREEMPTING,
        Cure.WAITING,
        pool="yielding",
        priorityClassName="urgent",
    ),
    waiting(
        "claim missing", Cause.VOLUME_CLAIM_MISSING, Cure.NEVER, pool="free", says=("no-claim",), **_claim("no-claim")
    ),
    waiting("claim unbound", Cause.VOLUME_UNBOUND, Cure.WAITING, pool="free", says=("not bound",), **_claim("unbound")),
    waiting("volume elsewhere", Cause.VOLUME_ELSEWHERE, Cure.NEVER, pool="free", **_claim("far")),
    waiting(
        "volume in use",
        Cause.VOLUME_IN_USE,
        Cure.WAITING,
        pool="unattached",
        life=PodLife(pending_s=600),
        **_claim("in-use"),
    ),
)
"""The scheduler finds no node, or the pod's volumes do not come to it."""

REFUSED: Final = (
    waiting(
        "quota used up",
        Cause.QUOTA_EXCEEDED,
        Cure.WAITING,
        namespace=FULL,
        gpus=2,
        says=("sandbox-fault", "2 asked", "1 of 2 used"),
    ),
    waiting(
        "quota too small",
        Cause.QUOTA_EXCEEDED,
        Cure.NEVER,
        namespace=FULL,
        gpus=3,
        says=("sandbox-fault", "3 asked", "1 of 2 used"),
    ),
    waiting("quota needs limits", Cause.QUOTA_NEEDS_RESOURCES, Cure.NEVER, namespace=UNLIMITED, says=("limits.cpu",)),
    waiting(
        "limit range",
        Cause.LIMIT_RANGE,
        Cure.NEVER,
        namespace=RANGED,
        container=with_memory("2Gi"),
        says=("1Gi", "2Gi"),
    ),
    waiting("pod security", Cause.POD_SECURITY, Cure.NEVER, hostNetwork=True, says=("hostNetwork",)),
    waiting(
        "denied by a policy",
        Cause.ADMISSION_DENIED,
        Cure.NEVER,
        labels=dict([DENIED_BY_POLICY]),
        says=("teams.example.com", POLICY_WORDS),
    ),
    waiting(
        "denied by a webhook",
        Cause.ADMISSION_DENIED,
        Cure.NEVER,
        labels=dict([DENIED_BY_WEBHOOK]),
        says=(WEBHOOK, DENIAL),
    ),
    waiting(
        "webhook unreachable",
        Cause.WEBHOOK_UNREACHABLE,
        Cure.TRANSIENT,
        labels=dict([NO_WEBHOOK]),
        says=("gone.example.com",),
    ),
    waiting(
        "service account missing",
        Cause.SERVICE_ACCOUNT_MISSING,
        Cure.NEVER,
        serviceAccountName="nobody",
        says=("nobody",),
    ),
    waiting(
        "runtime class missing", Cause.RUNTIME_CLASS_MISSING, Cure.NEVER, runtimeClassName="nvidia", says=("nvidia",)
    ),
    waiting(
        "priority class missing",
        Cause.PRIORITY_CLASS_MISSING,
        Cure.NEVER,
        priorityClassName="unheard-of",
        says=("unheard-of",),
    ),
)
"""The pod can not be made."""

NOT_STARTED: Final = (
    waiting(
        "image not found", Cause.IMAGE_NOT_FOUND, Cure.NEVER, **_image("absent"), says=("registry.example.com/absent",)
    ),
    waiting(
        "image unauthorised", Cause.IMAGE_UNAUTHORISED, Cure.NEVER, **_image("unauthorised"), says=("unauthorised",)
    ),
    waiting("image rate limited", Cause.IMAGE_RATE_LIMITED, Cure.TRANSIENT, **_image("limited"), says=("limit",)),
    waiting("registry unreachable", Cause.REGISTRY_UNREACHABLE, Cure.TRANSIENT, **_image("unreachable")),
    waiting("image slow", Cause.IMAGE_PULLING, Cure.TRANSIENT, **_image("slow"), says=(SLOW_IMAGE,)),
    waiting("image of another architecture", Cause.IMAGE_ARCHITECTURE, Cure.NEVER, **_image("arm")),
    waiting(
        "image name invalid",
        Cause.IMAGE_NAME_INVALID,
        Cure.NEVER,
        pool=KUBELET,
        container={"image": "Bad_Image:::x"},
        says=("Bad_Image:::x",),
    ),
    waiting(
        "image never pulled",
        Cause.IMAGE_NOT_PRESENT,
        Cure.NEVER,
        pool=KUBELET,
        container={"image": "example.com/never:1", "imagePullPolicy": "Never"},
        says=("example.com/never:1",),
    ),
    waiting(
        "config map of a variable missing",
        Cause.CONFIG_MAP_MISSING,
        Cure.NEVER,
        pool=KUBELET,
        container=_variable(configMapKeyRef={"name": "no-settings", "key": "k"}),
        says=("no-settings",),
    ),
    waiting(
        "secret of a variable missing",
        Cause.SECRET_MISSING,
        Cure.NEVER,
        pool=KUBELET,
        container=_variable(secretKeyRef={"name": "no-secret", "key": "k"}),
        says=("no-secret",),
    ),
    waiting(
        "config map of a volume missing",
        Cause.CONFIG_MAP_MISSING,
        Cure.NEVER,
        pool=KUBELET,
        says=("no-files",),
        **volume("files", configMap={"name": "no-files"}),
    ),
    waiting(
        "secret of a volume missing",
        Cause.SECRET_MISSING,
        Cure.NEVER,
        pool=KUBELET,
        says=("no-keys",),
        **volume("keys", secret={"secretName": "no-keys"}),
    ),
)
"""On a node, and not started."""

IN_QUEUES: Final = (
    waiting(
        "queued",
        Cause.QUEUED,
        Cure.WAITING,
        pool="queued",
        queue="busy",
        says=("queue busy", "position", "1 more nvidia.com/gpu"),
    ),
    waiting(
        "queue too small",
        Cause.QUEUE_TOO_SMALL,
        Cure.NEVER,
        pool="queued",
        queue="small",
        gpus=2,
        says=("small", "2 nvidia.com/gpu asked", "at most 1"),
    ),
    waiting("queue missing", Cause.QUEUE_MISSING, Cure.NEVER, pool="queued", queue="nowhere", says=("nowhere",)),
    waiting(
        "queue lacks a resource",
        Cause.QUEUE_LACKS_RESOURCE,
        Cure.NEVER,
        pool="queued",
        queue="small",
        container=_storage("1Gi"),
        says=("ephemeral-storage",),
    ),
    waiting("put out of its queue", Cause.QUEUE_DEACTIVATED, Cure.NEVER, pool="queued", queue="busy", then=_deactivate),
    Situation(
        name="pushed out of its queue",
        ran="queue-will-give-way",
        make=_push_out,
        cause=Cause.QUEUE_PREEMPTED,
        cure=Cure.WAITING,
        says=("fought-for",),
    ),
    waiting("suspended by hand", Cause.SUSPENDED, Cure.WAITING, pool="free", job={"suspend": True}),
)
"""Its queue, or somebody, does not let it begin."""

SITUATIONS: Final = (*ON_NODES, *REFUSED, *NOT_STARTED, *IN_QUEUES)
"""None of them disturbs another: all can be at once."""
