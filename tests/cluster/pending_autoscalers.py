"""What cluster-autoscaler and Karpenter leave in a cluster. Neither can run without a cloud: what they leave is posted.

Their own events, in the words of
https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/processors/status/eventing_scale_up_processor.go
and https://github.com/kubernetes-sigs/karpenter/blob/main/pkg/controllers/provisioning/scheduling/events.go, and what
tells that they are there.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Final

from tests.cluster.pending_scene import DEADLINE_S, Scene
from tests.cluster.pending_setting import CLUSTER_AUTOSCALER, KARPENTER
from tests.cluster.pending_situation import waiting

from gpu_training.core.pending_cause import Cause, Cure
from gpu_training.core.pending_growth import INSISTS_S
from sandbox.api import Document
from sandbox.waiting import wait_for


def _told(source: str, reason: str, message: str, kind: str, scene: Scene, job: Document) -> None:
    metadata = job["metadata"]
    pod = scene.wait_for_pod(metadata["name"], phase="Pending", namespace=metadata["namespace"])
    scene.tell(pod, source=source, reason=reason, message=message, kind=kind, said_for_s=INSISTS_S)


def _by(source: str, reason: str, message: str, kind: str = "Normal") -> Callable[[Scene, Document], None]:
    return partial(_told, source, reason, message, kind)


AUTOSCALED: Final = {
    CLUSTER_AUTOSCALER: (
        waiting(
            "scaling up",
            Cause.AUTOSCALER_SCALING_UP,
            Cure.TRANSIENT,
            namespace=CLUSTER_AUTOSCALER,
            pool="nowhere",
            then=_by(CLUSTER_AUTOSCALER, "TriggeredScaleUp", "pod triggered scale-up: [{gpu-pool 0->1 (max: 3)}]"),
            says=("gpu-pool",),
        ),
        waiting(
            "at its maximum",
            Cause.AUTOSCALER_AT_MAXIMUM,
            Cure.WAITING,
            namespace=CLUSTER_AUTOSCALER,
            pool="taken",
            then=_by(
                CLUSTER_AUTOSCALER, "NotTriggerScaleUp", "pod didn't trigger scale-up: 1 max node group size reached"
            ),
        ),
        waiting(
            "no group would fit",
            Cause.LABEL_NOT_MATCHED,
            Cure.NEVER,
            namespace=CLUSTER_AUTOSCALER,
            pool="nowhere",
            then=_by(
                CLUSTER_AUTOSCALER,
                "NotTriggerScaleUp",
                "pod didn't trigger scale-up: 2 node(s) didn't match Pod's node affinity/selector",
            ),
        ),
    ),
    KARPENTER: (
        waiting(
            "node on its way",
            Cause.AUTOSCALER_SCALING_UP,
            Cure.TRANSIENT,
            namespace=KARPENTER,
            pool="nowhere",
            then=_by(KARPENTER, "Nominated", "Pod should schedule on: nodeclaim/gpu-x7k2p"),
            says=("gpu-x7k2p",),
        ),
        waiting(
            "limits reached",
            Cause.AUTOSCALER_AT_MAXIMUM,
            Cure.WAITING,
            namespace=KARPENTER,
            pool="taken",
            then=_by(
                KARPENTER,
                "FailedScheduling",
                "Failed to schedule pod, all available instance types exceed limits for nodepool (NodePool=gpu)",
                "Warning",
            ),
        ),
        waiting(
            "incompatible with every pool",
            Cause.LABEL_NOT_MATCHED,
            Cure.NEVER,
            namespace=KARPENTER,
            pool="nowhere",
            then=_by(
                KARPENTER,
                "FailedScheduling",
                'Failed to schedule pod, incompatible with nodepool "gpu", daemonset overhead={"pods":"1"}, '
                'incompatible requirements, label "pool" does not have known values',
                "Warning",
            ),
        ),
    ),
}
"""By autoscaler."""


def add_cluster_autoscaler(scene: Scene) -> None:
    """Leave the status that cluster-autoscaler writes about itself every few seconds.

    As https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/clusterstate/utils/status.go has it.
    """
    now = time.strftime("%Y-%m-%d %H:%M:%S.123456789 +0000 UTC", time.gmtime())
    status = f"time: {now}\nautoscalerStatus: Running\nclusterWide:\n  health:\n    status: Healthy\nnodeGroups: []\n"
    metadata = {
        "name": "cluster-autoscaler-status",
        "namespace": "kube-system",
        "annotations": {"cluster-autoscaler.kubernetes.io/last-updated": now},
    }
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"status": status}}
    scene.sandbox.api.apply(document)


def remove_cluster_autoscaler(scene: Scene) -> None:
    """Take the status away."""
    scene.sandbox.api.request("DELETE", "/api/v1/namespaces/kube-system/configmaps/cluster-autoscaler-status")


KARPENTER_KIND: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/nodepools.karpenter.sh"


def add_karpenter(scene: Scene) -> None:
    """Leave Karpenter's API: a kind of its group; returns once it is served."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    names = {"plural": "nodepools", "singular": "nodepool", "kind": "NodePool", "listKind": "NodePoolList"}
    spec = {
        "group": "karpenter.sh",
        "names": names,
        "scope": "Cluster",
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
    }
    metadata = {"name": "nodepools.karpenter.sh"}
    kind = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": metadata}
    scene.sandbox.api.apply({**kind, "spec": spec})
    wait_for(lambda: "karpenter.sh" in _groups(scene), DEADLINE_S, "Karpenter's API")


def remove_karpenter(scene: Scene) -> None:
    """Take Karpenter's API away; returns once it is gone."""
    scene.sandbox.api.request("DELETE", KARPENTER_KIND)
    wait_for(lambda: "karpenter.sh" not in _groups(scene), DEADLINE_S, "Karpenter's API to go")


def _groups(scene: Scene) -> set[str]:
    return {group["name"] for group in scene.get("/apis")["groups"]}
