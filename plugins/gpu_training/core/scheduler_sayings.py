"""What the scheduler's filters say of a node, or of the pod as a whole, and what it means.

Texts of the plugins of Kubernetes 1.28 to 1.37:
https://github.com/kubernetes/kubernetes/tree/master/pkg/scheduler/framework/plugins
"""

from __future__ import annotations

from typing import Final

from gpu_training.core.pending_cause import Cause, Cure
from gpu_training.core.sayings import says

_MAKER_OF_GPUS: Final = ("nvidia.com/", "amd.com/", "habana.ai/", "gpu.intel.com/")
_CLUSTER: Final = "ask whoever runs the cluster"
_CLAIM: Final = r'persistentvolumeclaim "(?P<claim>[^"]{1,253})"'


def is_gpu(resource: str) -> bool:
    """Whether a resource stands for GPUs, whoever makes them."""
    return "gpu" in resource or resource.startswith(_MAKER_OF_GPUS)


FILTER_SAYINGS: Final = (
    says(
        r"^no nodes available to schedule pods",
        Cause.NO_GPU_NODES,
        Cure.WAITING,
        "the cluster has no nodes",
        "add GPU nodes, or an autoscaler that adds them; " + _CLUSTER,
    ),
    # 1.37 no longer names the taint.
    says(
        r"^node\(s\) had (?:untolerated taint\(s\)|taints that the pod didn't tolerate)",
        Cause.TAINT_NOT_TOLERATED,
        Cure.WAITING,
        "a taint is not tolerated, which one the scheduler does not say",
        "add the toleration for that pool to the training, if it may use it",
    ),
    says(
        r"^node\(s\) didn't match (?:Pod's node affinity/selector|scheduler-enforced node affinity)",
        Cause.LABEL_NOT_MATCHED,
        Cure.WAITING,
        "node selector or node affinity does not match",
        "check the training's node_selector against the labels of the nodes",
    ),
    says(
        r"^pod affinity terms conflict|^node\(s\) didn't match the requested node name"
        r"|^node\(s\) didn't satisfy plugin\(s\) .{0,200} simultaneously|^node\(s\) didn't satisfy plugin NodeAffinity",
        Cause.LABEL_NOT_MATCHED,
        Cure.WAITING,
        "its node selector, node affinity or node name leaves no node",
        "check the training's node_selector, and the template, against the names and labels of the nodes",
    ),
    says(
        r"^node\(s\) were unschedulable",
        Cause.NODES_CORDONED,
        Cure.WAITING,
        "cordoned",
        "wait until the nodes are uncordoned; " + _CLUSTER,
    ),
    says(
        r"^node\(s\) had unknown conditions|^node\(s\) were not ready",
        Cause.NODES_NOT_READY,
        Cure.TRANSIENT,
        "not ready",
        "wait until the nodes are ready; " + _CLUSTER,
    ),
    says(
        r"^Too many pods",
        Cause.CPU_OR_MEMORY_TAKEN,
        Cure.WAITING,
        "holds as many pods as it may",
        "wait until other pods have ended",
    ),
    says(
        r"^node\(s\) didn't have free ports for the requested pod ports",
        Cause.UNSCHEDULABLE,
        Cure.WAITING,
        "a host port that the pod asks for is taken",
        "take the host port out of the template, or wait until its holder has ended",
    ),
    says(
        r"^node\(s\) (?:didn't (?:match|satisfy)|violate|did not match) .{0,40}(?:pods? )?(?:anti-)?affinity rules",
        Cause.UNSCHEDULABLE,
        Cure.WAITING,
        "pod affinity or anti-affinity is not met",
        "wait until the other pods have ended, or loosen the affinity in the template",
    ),
    says(
        r"^node\(s\) didn't match pod topology spread constraints \(missing required label\)",
        Cause.LABEL_NOT_MATCHED,
        Cure.WAITING,
        "lacks the label that the pod's topology spread constraint counts by",
        "label the nodes, or take the constraint out of the template",
    ),
    says(
        r"^node\(s\) didn't match pod topology spread constraints",
        Cause.UNSCHEDULABLE,
        Cure.WAITING,
        "the pod's topology spread constraint is not met",
        "wait until other pods have ended, or loosen the constraint in the template",
    ),
    says(
        r"^node\(s\) didn't match Pod's required features",
        Cause.LABEL_NOT_MATCHED,
        Cure.WAITING,
        "the kubelet lacks a feature that the pod needs",
        "upgrade the nodes; " + _CLUSTER,
    ),
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
        "has no volume, or no room for one, that the volume claim could be bound to",
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
        "is not where the volume is",
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
        "another pod there uses the disk",
        "wait until the other pod has ended",
    ),
    says(
        r"^node\(s\) exceed max volume count",
        Cause.UNSCHEDULABLE,
        Cure.WAITING,
        "has as many volumes attached as it can",
        "wait until other pods have ended",
    ),
    says(
        r"scheduling gates",
        Cause.SCHEDULING_GATED,
        Cure.WAITING,
        "a scheduling gate holds the pod back",
        "find out who set the gate under `schedulingGates` of the pod; they take it away",
    ),
)
