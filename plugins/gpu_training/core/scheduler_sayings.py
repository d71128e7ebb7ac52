"""What the scheduler's filters say of a node, or of the pod as a whole, and what it means.

Texts of the plugins of Kubernetes 1.28 to 1.37; those about claims are in :mod:`gpu_training.core.claim_sayings`.
https://github.com/kubernetes/kubernetes/tree/master/pkg/scheduler/framework/plugins
"""

from __future__ import annotations

from typing import Final

from gpu_training.core.claim_sayings import CLAIM_FILTER_SAYINGS
from gpu_training.core.pending_cause import Cause, Cure
from gpu_training.core.sayings import says

_MAKER_OF_GPUS: Final = ("nvidia.com/", "amd.com/", "habana.ai/", "gpu.intel.com/")
_CLUSTER: Final = "ask whoever runs the cluster"


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
        r"|^node\(s\) didn't satisfy plugin(?:\(s\))? .{0,20}NodeAffinity",
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
        "as many pods there as the node may hold",
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
        r"^node\(s\) didn't (?:match|satisfy) .{0,40}affinity rules",
        Cause.UNSCHEDULABLE,
        Cure.WAITING,
        "pod affinity or anti-affinity is not met",
        "wait until the other pods have ended, or loosen the affinity in the template",
    ),
    says(
        r"^node\(s\) didn't match pod topology spread constraints \(missing required label\)",
        Cause.LABEL_NOT_MATCHED,
        Cure.WAITING,
        "no label that the pod's topology spread constraint counts by",
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
        "a feature that the pod needs is not there",
        "upgrade the nodes; " + _CLUSTER,
    ),
    *CLAIM_FILTER_SAYINGS,
    says(
        r"pods from a gang to appear|pod group \"[^\"]{1,253}\" (?:to appear in scheduling queue|tree to meet quorum)"
        r"|^minCount \(\d{1,9}\) (?:cannot be|is not yet) satisfied",
        Cause.UNSCHEDULABLE,
        Cure.WAITING,
        "not all pods of the gang can begin yet",
        "wait; see why the gang's other pods have no node",
    ),
    says(
        r"scheduling gates",
        Cause.SCHEDULING_GATED,
        Cure.WAITING,
        "a scheduling gate holds the pod back",
        "find out who set the gate under `schedulingGates` of the pod; they take it away",
    ),
)
