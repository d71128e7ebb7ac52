"""Why a training does not run, as a stable name, and whether waiting can cure it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class Cure(StrEnum):
    """What waiting does about a cause. Stable names."""

    NEVER = "never"
    """Nothing changes until somebody acts: the run ends at once."""
    WAITING = "waiting"
    """Others give way, or more comes: the queue clock bounds the wait."""
    TRANSIENT = "transient"
    """It usually heals by itself within minutes: a rate limit, a node's restart, an autoscaler at work."""


class Cause(StrEnum):
    """Why no attempt of a training runs. Stable names: they reach annotations, JSON and alerts."""

    # The scheduler finds no node.
    NO_GPU_NODES = "no_gpu_nodes"
    """No node advertises the GPU resource."""
    DEVICE_PLUGIN_DOWN = "device_plugin_down"
    """Nodes have GPUs and offer none: their device plugin is away."""
    TOO_FEW_GPUS = "too_few_gpus"
    """Asked for are more GPUs than any node has on which it may run."""
    GPUS_TAKEN = "gpus_taken"
    TOO_LITTLE_CPU_OR_MEMORY = "too_little_cpu_or_memory"
    """Asked for is more CPU, memory or disk than any node has on which it may run."""
    CPU_OR_MEMORY_TAKEN = "cpu_or_memory_taken"
    TAINT_NOT_TOLERATED = "taint_not_tolerated"
    LABEL_NOT_MATCHED = "label_not_matched"
    """Node selector or node affinity."""
    NODES_CORDONED = "nodes_cordoned"
    NODES_NOT_READY = "nodes_not_ready"
    NODES_UNDER_PRESSURE = "nodes_under_pressure"
    PREEMPTED = "preempted"
    """An attempt made way for a pod of higher priority; the next one waits."""
    PREEMPTING = "preempting"
    """Pods of lower priority are being ended to make room."""
    AUTOSCALER_SCALING_UP = "autoscaler_scaling_up"
    AUTOSCALER_AT_MAXIMUM = "autoscaler_at_maximum"
    SCHEDULING_GATED = "scheduling_gated"
    SCHEDULER_SILENT = "scheduler_silent"
    """Nobody has looked at the pod: the scheduler is down, or it is not the one that the pod names."""
    UNSCHEDULABLE = "unschedulable"
    """The scheduler's words, which are not known here."""

    # The pod can not be made.
    QUOTA_EXCEEDED = "quota_exceeded"
    QUOTA_NEEDS_RESOURCES = "quota_needs_resources"
    """A quota demands that every container says what it asks for."""
    LIMIT_RANGE = "limit_range"
    POD_SECURITY = "pod_security"
    ADMISSION_DENIED = "admission_denied"
    """A webhook or a policy said no, in its own words."""
    WEBHOOK_UNREACHABLE = "webhook_unreachable"
    SERVICE_ACCOUNT_MISSING = "service_account_missing"
    RUNTIME_CLASS_MISSING = "runtime_class_missing"
    PRIORITY_CLASS_MISSING = "priority_class_missing"
    POD_REFUSED = "pod_refused"
    """The API server's words, which are not known here."""
    CONTROLLER_NOT_RUNNING = "controller_not_running"
    """Nobody has looked at the Job: the controller manager is down."""

    # The queue does not let it begin.
    QUEUED = "queued"
    """Its queue's quota is used by others."""
    QUEUE_TOO_SMALL = "queue_too_small"
    """It can never fit into its queue's quota."""
    QUEUE_MISSING = "queue_missing"
    """The local queue, or the cluster queue behind it, does not exist or is not active."""
    QUEUE_LACKS_RESOURCE = "queue_lacks_resource"
    QUEUE_PREEMPTED = "queue_preempted"
    """It was admitted, and gave way to another workload; it is queued again."""
    QUEUE_DEACTIVATED = "queue_deactivated"
    """Somebody, or the queue after too many tries, has put it out of the queue."""
    QUEUE_SILENT = "queue_silent"
    """It is suspended for its queue, and the queue's controller says nothing."""
    SUSPENDED = "suspended"
    """By hand: no queue is named."""

    # On a node, and not started.
    IMAGE_NOT_FOUND = "image_not_found"
    IMAGE_UNAUTHORISED = "image_unauthorised"
    IMAGE_RATE_LIMITED = "image_rate_limited"
    REGISTRY_UNREACHABLE = "registry_unreachable"
    IMAGE_PULLING = "image_pulling"
    """Slow, and nothing wrong is known of it."""
    IMAGE_ARCHITECTURE = "image_architecture"
    """There is no such image for the node's processor."""
    IMAGE_NAME_INVALID = "image_name_invalid"
    IMAGE_NOT_PRESENT = "image_not_present"
    """Its pull policy is Never, and the node does not have it."""
    IMAGE_PULL_FAILED = "image_pull_failed"
    """The kubelet's words, which are not known here."""
    VOLUME_CLAIM_MISSING = "volume_claim_missing"
    VOLUME_UNBOUND = "volume_unbound"
    VOLUME_ELSEWHERE = "volume_elsewhere"
    """The volume is bound to nodes, or a zone, where the pod may not run."""
    VOLUME_IN_USE = "volume_in_use"
    """Attached to another node (multi-attach)."""
    VOLUME_MOUNT_FAILED = "volume_mount_failed"
    CONFIG_MAP_MISSING = "config_map_missing"
    """The ConfigMap, or a key of it."""
    SECRET_MISSING = "secret_missing"  # noqa: S105 - a name
    """The Secret, or a key of it."""
    CONTAINER_NOT_CREATED = "container_not_created"
    """The kubelet's words, which are not known here."""

    WAITING = "waiting"
    """Nothing is wrong that anybody told: it has only begun to wait."""


_NEVER: Final = frozenset({Cure.NEVER})
_WAITING: Final = frozenset({Cure.WAITING})
_TRANSIENT: Final = frozenset({Cure.TRANSIENT})
_NEVER_OR_WAITING: Final = _NEVER | _WAITING
_NEVER_OR_TRANSIENT: Final = _NEVER | _TRANSIENT
_WAITING_OR_TRANSIENT: Final = _WAITING | _TRANSIENT
_ANY: Final = frozenset(Cure)

CURES: Final[Mapping[Cause, frozenset[Cure]]] = {
    Cause.NO_GPU_NODES: _NEVER_OR_WAITING,
    Cause.DEVICE_PLUGIN_DOWN: _TRANSIENT,
    Cause.TOO_FEW_GPUS: _NEVER_OR_WAITING,
    Cause.GPUS_TAKEN: _WAITING,
    Cause.TOO_LITTLE_CPU_OR_MEMORY: _NEVER_OR_WAITING,
    Cause.CPU_OR_MEMORY_TAKEN: _WAITING,
    Cause.TAINT_NOT_TOLERATED: _NEVER_OR_WAITING,
    Cause.LABEL_NOT_MATCHED: _NEVER_OR_WAITING,
    Cause.NODES_CORDONED: _WAITING,
    Cause.NODES_NOT_READY: _TRANSIENT,
    Cause.NODES_UNDER_PRESSURE: _TRANSIENT,
    Cause.PREEMPTED: _WAITING,
    Cause.PREEMPTING: _WAITING,
    Cause.AUTOSCALER_SCALING_UP: _TRANSIENT,
    Cause.AUTOSCALER_AT_MAXIMUM: _WAITING,
    Cause.SCHEDULING_GATED: _WAITING,
    Cause.SCHEDULER_SILENT: _WAITING_OR_TRANSIENT,
    Cause.UNSCHEDULABLE: _ANY,
    Cause.QUOTA_EXCEEDED: _ANY,
    Cause.QUOTA_NEEDS_RESOURCES: _NEVER,
    Cause.LIMIT_RANGE: _NEVER,
    Cause.POD_SECURITY: _NEVER,
    Cause.ADMISSION_DENIED: _ANY,
    Cause.WEBHOOK_UNREACHABLE: _TRANSIENT,
    Cause.SERVICE_ACCOUNT_MISSING: _NEVER_OR_TRANSIENT,
    Cause.RUNTIME_CLASS_MISSING: _NEVER,
    Cause.PRIORITY_CLASS_MISSING: _NEVER,
    Cause.POD_REFUSED: _ANY,
    Cause.CONTROLLER_NOT_RUNNING: _TRANSIENT,
    Cause.QUEUED: _WAITING_OR_TRANSIENT,
    Cause.QUEUE_TOO_SMALL: _NEVER,
    Cause.QUEUE_MISSING: _NEVER_OR_WAITING,
    Cause.QUEUE_LACKS_RESOURCE: _NEVER,
    Cause.QUEUE_PREEMPTED: _WAITING,
    Cause.QUEUE_DEACTIVATED: _NEVER,
    Cause.QUEUE_SILENT: _WAITING,
    Cause.SUSPENDED: _WAITING,
    Cause.IMAGE_NOT_FOUND: _NEVER,
    Cause.IMAGE_UNAUTHORISED: _NEVER_OR_TRANSIENT,
    Cause.IMAGE_RATE_LIMITED: _TRANSIENT,
    Cause.REGISTRY_UNREACHABLE: _TRANSIENT,
    Cause.IMAGE_PULLING: _TRANSIENT,
    Cause.IMAGE_ARCHITECTURE: _NEVER,
    Cause.IMAGE_NAME_INVALID: _NEVER,
    Cause.IMAGE_NOT_PRESENT: _NEVER,
    Cause.IMAGE_PULL_FAILED: _ANY,
    Cause.VOLUME_CLAIM_MISSING: _NEVER,
    Cause.VOLUME_UNBOUND: _ANY,
    Cause.VOLUME_ELSEWHERE: _NEVER_OR_WAITING,
    Cause.VOLUME_IN_USE: _WAITING,
    Cause.VOLUME_MOUNT_FAILED: _WAITING_OR_TRANSIENT,
    Cause.CONFIG_MAP_MISSING: _NEVER,
    Cause.SECRET_MISSING: _NEVER,
    Cause.CONTAINER_NOT_CREATED: _ANY,
    Cause.WAITING: _WAITING_OR_TRANSIENT,
}
"""What waiting may do about each cause, by what is known of it. While another pod of the Job trains, what is NEVER is
told as WAITING, whatever the cause."""
