"""What the scheduler's filters say of the volume claims and resource claims of a pod, and what it means.

Texts of the plugins VolumeBinding, VolumeRestrictions, NodeVolumeLimits and DynamicResources, Kubernetes 1.28 to 1.37:
https://github.com/kubernetes/kubernetes/tree/master/pkg/scheduler/framework/plugins
"""

from __future__ import annotations

from typing import Final

from gpu_training.core.pending_cause import Cause, Cure
from gpu_training.core.sayings import says

_CLUSTER: Final = "ask whoever runs the cluster"
_CLAIM: Final = r'persistentvolumeclaim "(?P<claim>[^"]{1,253})"'

CLAIM_FILTER_SAYINGS: Final = (
    says(
        rf"^waiting for ephemeral volume controller to create the {_CLAIM}",
        Cause.VOLUME_UNBOUND,
        Cure.TRANSIENT,
        "volume claim {claim} is being created",
        "wait; " + _CLUSTER + " if it takes more than a minute",
    ),
    says(
        rf"^{_CLAIM} not found",
        Cause.VOLUME_CLAIM_MISSING,
        Cure.NEVER,
        "volume claim {claim} does not exist",
        "create the PersistentVolumeClaim {claim} in the namespace, or correct its name under `volumes`",
    ),
    says(
        rf"^{_CLAIM} bound to non-existent persistentvolume \"(?P<volume>[^\"]{{1,253}})\"",
        Cause.VOLUME_UNBOUND,
        Cure.NEVER,
        "volume claim {claim} is bound to volume {volume}, which no longer exists",
        "restore the data and make the claim {claim} anew",
    ),
    says(
        rf"^{_CLAIM} is being deleted",
        Cause.VOLUME_CLAIM_MISSING,
        Cure.NEVER,
        "volume claim {claim} is being deleted",
        "make the claim {claim} anew, or name another one under `volumes`",
    ),
    says(
        r"unbound immediate PersistentVolumeClaims",
        Cause.VOLUME_UNBOUND,
        Cure.WAITING,
        "a volume claim is not bound to a volume yet",
        "look at `kubectl describe pvc`: its storage class may not exist, or may have no room",
    ),
    says(
        r"^node\(s\) didn't find available persistent volumes to bind|^node\(s\) did not have enough free storage",
        Cause.VOLUME_UNBOUND,
        Cure.WAITING,
        "no volume, or no room for one, that the volume claim could be bound to",
        "look at `kubectl describe pvc`; " + _CLUSTER,
    ),
    says(
        r"^node\(s\) unavailable due to (?:one or more pvc\(s\) bound to non-existent pv\(s\)|PersistentVolumeClaim)",
        Cause.VOLUME_UNBOUND,
        Cure.NEVER,
        "a volume claim is bound to a volume that no longer exists",
        "restore the data and make the claim anew",
    ),
    says(
        r"^node\(s\) had (?:volume node affinity conflict|no available volume zone)"
        r"|^node\(s\) didn't match PersistentVolume's node affinity",
        Cause.VOLUME_ELSEWHERE,
        Cure.WAITING,
        "not where the volume is",
        "let the training run in the volume's zone, or copy the data to a volume in the zone of the GPU nodes",
    ),
    says(
        r"ReadWriteOncePod access mode",
        Cause.VOLUME_IN_USE,
        Cure.WAITING,
        "another pod uses the volume claim, which takes one pod at a time",
        "wait until the other pod has ended, or use a claim with the access mode ReadWriteMany or ReadOnlyMany",
    ),
    says(
        r"^node\(s\) had no available disk",
        Cause.VOLUME_IN_USE,
        Cure.WAITING,
        "the disk is in use there by another pod",
        "wait until the other pod has ended",
    ),
    says(
        r"^node\(s\) exceed max volume count",
        Cause.UNSCHEDULABLE,
        Cure.WAITING,
        "as many volumes attached as the node can have",
        "wait until other pods have ended",
    ),
    says(
        r"(?:pv|PersistentVolume) \"(?P<volume>[^\"]{1,253})\" node affinity doesn't match node",
        Cause.VOLUME_ELSEWHERE,
        Cure.WAITING,
        "volume {volume} is not where the node is that was chosen",
        "let the training run in the volume's zone, or copy the data to a volume in the zone of the GPU nodes",
    ),
    says(
        r"running \"VolumeBinding\" filter plugin|running PreFilter plugin \"VolumeBinding\""
        r"|binding volumes: |running PreBind plugin \"VolumeBinding\"",
        Cause.VOLUME_UNBOUND,
        Cure.TRANSIENT,
        "a volume claim is about to be bound",
        "wait; look at `kubectl describe pvc` if it takes more than minutes",
    ),
    says(
        r"^cannot allocate all claims|^resourceclaim in use",
        Cause.GPUS_TAKEN,
        Cure.WAITING,
        "no device is free for the pod's resource claims",
        "wait until other pods have ended, or claim fewer devices",
    ),
    says(
        r"^request (?P<request>\S{1,253}): device class (?P<device>\S{1,253}) does not exist",
        Cause.UNSCHEDULABLE,
        Cure.NEVER,
        "device class {device}, which the pod's resource claim names, does not exist",
        "correct the claim in the template, or have the device's driver installed",
    ),
    says(
        r"^resourceclaim \"(?P<claim>[^\"]{1,253})\" (?P<state>not found|is being deleted)",
        Cause.UNSCHEDULABLE,
        Cure.NEVER,
        "resource claim {claim}: {state}",
        "create the ResourceClaim {claim}, or correct its name in the template",
    ),
    says(
        r"create the resourceclaim|ResourceClaim not created yet|is in the process of being allocated"
        r"|^resourceclaim must be reallocated|waiting for resource driver|timed out trying to allocate devices"
        r"|^cannot schedule extended resource claim|^unallocated immediate resourceclaim",
        Cause.UNSCHEDULABLE,
        Cure.TRANSIENT,
        "the pod's resource claims are being made or allocated",
        "wait; if it stays so, have the device's driver looked after",
    ),
    says(
        r"^resourceclaim (?:not available on the node|cannot be allocated for the node)"
        r"|^excluded by device class node filter",
        Cause.UNSCHEDULABLE,
        Cure.WAITING,
        "the devices of the pod's resource claims are not there",
        "let the training run where the devices are, or claim others",
    ),
)
