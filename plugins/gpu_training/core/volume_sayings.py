"""What kubelet and controllers say of a volume that is not attached, mounted or bound, and what it means.

https://github.com/kubernetes/kubernetes/tree/master/pkg/volume and .../pkg/controller/volume
"""

from __future__ import annotations

from typing import Final

from gpu_training.core.container_sayings import MISSING_OBJECTS
from gpu_training.core.pending_cause import Cause, Cure
from gpu_training.core.sayings import says

VOLUME_SAYINGS: Final = (
    *MISSING_OBJECTS,
    says(
        r"(?:Multi-Attach error|Waiting for detach) for volume \"(?P<volume>[^\"]{1,253})\"",
        Cause.VOLUME_IN_USE,
        Cure.WAITING,
        "Volume {volume} is still attached to another node, and takes one node at a time.",
        "Wait until its other pod has ended, or use a volume that several nodes can mount (ReadWriteMany).",
    ),
    says(
        r"persistentvolumeclaims? \"(?P<claim>[^\"]{1,253})\" not found",
        Cause.VOLUME_CLAIM_MISSING,
        Cure.NEVER,
        "Volume claim {claim} does not exist.",
        "Create the PersistentVolumeClaim {claim} in the namespace, or correct its name under `volumes`.",
    ),
    says(
        r"PVC is not bound",
        Cause.VOLUME_UNBOUND,
        Cure.WAITING,
        "A volume claim of the pod is not bound to a volume.",
        "Look at `kubectl describe pvc`: its storage class may not exist, or may have no room.",
    ),
    says(
        r"not found in the list of registered CSI drivers|CSINode .{0,300}does not contain driver",
        Cause.VOLUME_MOUNT_FAILED,
        Cure.TRANSIENT,
        "The storage driver is not running on the node yet: {words}",
        "Wait; if it stays so, have the driver's pods on the node looked after.",
    ),
    says(
        r"access denied by server|[Pp]ermission denied",
        Cause.VOLUME_MOUNT_FAILED,
        Cure.WAITING,
        "The storage refuses the node: {words}",
        "Have the node admitted by whoever runs the storage.",
    ),
    says(
        r"DeadlineExceeded|context deadline exceeded|timed out waiting for the condition|[Cc]onnection timed out",
        Cause.VOLUME_MOUNT_FAILED,
        Cure.TRANSIENT,
        "A volume takes long to attach or mount: {words}",
        "Wait; if it stays so, ask whoever runs the storage.",
    ),
)

CLAIM_SAYINGS: Final = (
    says(
        r"waiting for first consumer|waiting for pod \S{1,253} to be scheduled",
        Cause.VOLUME_UNBOUND,
        Cure.TRANSIENT,
        "The volume claim is bound once its pod has a node.",
        "Nothing; see why the pod has no node.",
    ),
    says(
        r"storageclass(?:\.storage\.k8s\.io)? \"(?P<name>[^\"]{1,253})\" not found",
        Cause.VOLUME_UNBOUND,
        Cure.NEVER,
        "The volume claim names storage class {name}, which does not exist.",
        "Create storage class {name}, or make the claim anew with one that exists.",
    ),
    says(
        r"no persistent volumes available for this claim and no storage class is set",
        Cause.VOLUME_UNBOUND,
        Cure.WAITING,
        "No volume fits the volume claim, and it names no storage class that could make one.",
        "Make the claim anew with a storage class, or have a volume made for it.",
    ),
    says(
        r"[Ww]aiting for a volume to be created",
        Cause.VOLUME_UNBOUND,
        Cure.TRANSIENT,
        "The volume is being made.",
        "Wait; if it stays so, ask whoever runs the storage.",
    ),
)
