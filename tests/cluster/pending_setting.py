"""A cluster in which every training waits for a reason of its own: nodes, tenants, quotas, policies, queues, volumes.

Each reason has a pool of nodes, or a namespace, so that none disturbs another. Nodes are of kind kwok, but for those on
which the words or the condition of a kubelet count.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from tests.cluster.admission_webhook import DenyingWebhook, policy_documents, webhook_configuration
from tests.cluster.pending_scene import DEADLINE_S, MAIN, Scene, training, with_memory

from sandbox import kueue, kwok, manifests
from sandbox.api import ApiError, Document
from sandbox.faults import access, nodes
from sandbox.faults.pods import refuse_image, slow_image
from sandbox.kueue import ClusterQueue, Flavor, LocalQueue, Preempt, Priority
from sandbox.kwok import PodLife
from sandbox.lifecycle import NodeLifecycle
from sandbox.nodes import NodeRequest
from sandbox.ports import HOST, free_ports
from sandbox.waiting import wait_for

FULL: Final = "quota-full"
UNLIMITED: Final = "quota-needs-limits"
RANGED: Final = "ranged"
CLUSTER_AUTOSCALER: Final = "cluster-autoscaler"
KARPENTER: Final = "karpenter"
"""Each autoscaler has a namespace of its name, in which only its own events are."""
NAMESPACES: Final = (MAIN, FULL, UNLIMITED, RANGED, CLUSTER_AUTOSCALER, KARPENTER)

KUBELET: Final = "kubelet"
PRESSED: Final = "pressed"
HOLDER_DEADLINE_S: Final = 3600
DENIED_BY_WEBHOOK: Final = ("refuse", "webhook")
DENIED_BY_POLICY: Final = ("refuse", "policy")
NO_WEBHOOK: Final = ("refuse", "unreachable")
WEBHOOK: Final = "costs.example.com"
GONE_WEBHOOK: Final = "gone.example.com"
POLICY: Final = "teams.example.com"
POLICY_WORDS: Final = "a pod names its team"


LIFECYCLE: Final = NodeLifecycle(lease_s=20, status_s=2, monitor_period_s=1, monitor_grace_s=15)
"""A lost node is missed after fifteen seconds; less would have a busy machine miss others."""


@dataclass(frozen=True, kw_only=True)
class Pool:
    """Nodes of kind kwok with the label `pool=<name>`."""

    name: str
    gpus: int = 1
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[str, ...] = ()


POOLS: Final = (
    Pool(name="few", gpus=2),
    Pool(name="taken", gpus=2),
    Pool(name="tainted", taints=("dedicated=ingest:NoSchedule",)),
    Pool(name="free", gpus=4, labels={"zone": "venus"}),
    Pool(name="cordoned"),
    Pool(name="lost"),
    Pool(name="dropped", gpus=2),
    Pool(name="contended"),
    Pool(name="yielding"),
    Pool(name="attached"),
    Pool(name="unattached"),
    Pool(name="queued", gpus=8),
    Pool(name="crammed", gpus=2),
)

IMAGE_WORDS: Final[Mapping[str, str]] = {
    "registry.example.com/unauthorised": (
        'failed to resolve reference "registry.example.com/unauthorised:1": failed to authorize: failed to fetch '
        "anonymous token: unexpected status from GET request to https://registry.example.com/token: 401 Unauthorized"
    ),
    "registry.example.com/limited": (
        "failed to copy: httpReadSeeker: failed open: unexpected status code https://registry.example.com/v2/limited/"
        "manifests/1: 429 Too Many Requests - Server message: toomanyrequests: You have reached your pull rate limit."
    ),
    "registry.example.com/unreachable": (
        'failed to resolve reference "registry.example.com/unreachable:1": failed to do request: Head '
        '"https://registry.example.com/v2/unreachable/manifests/1": dial tcp 192.0.2.1:443: connect: connection refused'
    ),
    "registry.example.com/arm": "no match for platform in manifest: not found",
    "registry.example.com/absent": (
        'failed to resolve reference "registry.example.com/absent:1": registry.example.com/absent:1: not found'
    ),
}
"""What containerd says of each image, after `failed to pull and unpack image "…": `."""
SLOW_IMAGE: Final = "registry.example.com/slow"


def await_lost_node(scene: Scene) -> None:
    """Wait until the node controller misses the lost node; it takes the cluster's grace period."""

    def is_missed() -> bool:
        conditions = scene.get("/api/v1/nodes/lost-1")["status"]["conditions"]
        return any(each["type"] == "Ready" and each["status"] == "Unknown" for each in conditions)

    wait_for(is_missed, DEADLINE_S, "a lost node to be missed")


def add_nodes(scene: Scene) -> None:
    """Add all pools, and put those nodes out of order that are to be; the lost one is not missed yet."""
    for pool in POOLS:
        labels = {"workload": "gpu-training", "pool": pool.name, **pool.labels}
        kwok.add_nodes(
            scene.sandbox, 1, name=pool.name, gpus=pool.gpus, cpu="8", memory="8Gi", labels=labels, taints=pool.taints
        )
    for name in (KUBELET, PRESSED):
        scene.sandbox.add_node(NodeRequest(name=f"{name}-1", gpus=40, cpu="8", labels={"pool": name}, taints=()))
    kwok.lose_nodes(scene.sandbox, ["lost-1"])
    nodes.cordon_node(scene.sandbox, "cordoned-1")
    nodes.drop_gpus(scene.sandbox, "dropped-1")
    nodes.press_node(scene.sandbox, f"{PRESSED}-1", "DiskPressure")
    for image, words in IMAGE_WORDS.items():
        refuse_image(scene.sandbox, f"{KUBELET}-1", image, message=words)
    slow_image(scene.sandbox, f"{KUBELET}-1", SLOW_IMAGE, delay_s=600)


def add_namespaces(scene: Scene) -> None:
    """Add the namespaces, with quotas and limits."""
    api = scene.sandbox.api
    for name in NAMESPACES:
        manifests.apply(api, name)
    for name in NAMESPACES:
        wait_for(partial(manifests.is_settled, api, name), DEADLINE_S, f"namespace {name}")
    access.fill_quota(scene.sandbox, FULL, gpus=2)
    metadata = {"name": "compute", "namespace": UNLIMITED}
    hard = {"limits.cpu": "100"}
    api.apply({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard}})
    limits = [{"type": "Container", "max": {"memory": "1Gi"}}]
    metadata = {"name": "modest", "namespace": RANGED}
    api.apply({"apiVersion": "v1", "kind": "LimitRange", "metadata": metadata, "spec": {"limits": limits}})


def add_classes(scene: Scene) -> None:
    """Add the priorities of pods."""
    for name, value in (("nightly", 1000), ("urgent", 100000)):
        metadata = {"name": name}
        scene.sandbox.api.apply(
            {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": metadata, "value": value}
        )


def add_admission(scene: Scene, webhook: DenyingWebhook) -> None:
    """Have a policy, a webhook, and one that nobody serves, deny pods that are labelled so; returns once they do."""
    api = scene.sandbox.api
    nobody = f"https://{HOST}:{free_ports(1)[0]}/validate"
    documents = [
        webhook_configuration(scene.sandbox, WEBHOOK, webhook.url, DENIED_BY_WEBHOOK),
        webhook_configuration(scene.sandbox, GONE_WEBHOOK, nobody, NO_WEBHOOK),
        *policy_documents(POLICY, DENIED_BY_POLICY, POLICY_WORDS),
    ]
    for document in documents:
        api.apply(document)
    for label in (DENIED_BY_WEBHOOK, NO_WEBHOOK, DENIED_BY_POLICY):
        wait_for(partial(_is_denied, scene, label), DEADLINE_S, f"pods with {label} to be denied")


def _is_denied(scene: Scene, label: tuple[str, str]) -> bool:
    template = training("probe", labels=dict([label]))["spec"]["template"]
    pod = {"metadata": {"name": "probe", **template["metadata"]}, "spec": template["spec"]}
    try:
        scene.sandbox.api.request("POST", f"/api/v1/namespaces/{MAIN}/pods?dryRun=All", pod)
    except ApiError:
        return True
    return False


def claim_documents(name: str, **spec: Any) -> Document:
    """Give a claim of the main namespace."""
    common = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    metadata = {"name": name, "namespace": MAIN}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": {**common, **spec}}


def volume_document(name: str, **spec: Any) -> Document:
    """Give a volume that is meant for the claim of its name."""
    common = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "",
        "claimRef": {"namespace": MAIN, "name": name},
        "persistentVolumeReclaimPolicy": "Retain",
    }
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": {**common, **spec}}


def add_volumes(scene: Scene) -> None:
    """Add claims: one that nothing can bind, one whose volume lies where no node is, one that is attached elsewhere."""
    api = scene.sandbox.api
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["mars"]}]}
    far = {"nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}, "local": {"path": "/data"}}
    driver = {"attachRequired": True, "podInfoOnMount": False}
    documents = [
        claim_documents("unbound", storageClassName="nobody-provides"),
        volume_document("far", **far),
        claim_documents("far", storageClassName="", volumeName="far"),
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIDriver",
            "metadata": {"name": "disks.example.com"},
            "spec": driver,
        },
        volume_document("in-use", csi={"driver": "disks.example.com", "volumeHandle": "disk-1"}),
        claim_documents("in-use", storageClassName="", volumeName="in-use"),
    ]
    for document in documents:
        api.apply(document)

    def are_bound() -> bool:
        claims = f"/api/v1/namespaces/{MAIN}/persistentvolumeclaims"
        return all(scene.get(f"{claims}/{name}")["status"].get("phase") == "Bound" for name in ("far", "in-use"))

    wait_for(are_bound, DEADLINE_S, "the claims to be bound")


def attach_volume(scene: Scene) -> None:
    """Have a training on another node hold the claim `in-use`, attached as its driver's attacher would."""
    for node in ("attached-1", "unattached-1"):
        managed = {"metadata": {"annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"}}}
        scene.patch(f"/api/v1/nodes/{node}", managed)
    claimed = [{"name": "data", "persistentVolumeClaim": {"claimName": "in-use"}}]
    scene.hold("data-holder", pool="attached", volumes=claimed)
    attachments = "/apis/storage.k8s.io/v1/volumeattachments"
    (found,) = wait_for(lambda: scene.get(attachments)["items"], DEADLINE_S, "the attachment of a volume")
    scene.patch(f"{attachments}/{found['metadata']['name']}/status", {"status": {"attached": True}})


def add_queues(scene: Scene) -> None:
    """Have Kueue share out GPUs: one in each queue, which is taken but for that of queue `small`."""
    kueue.install(scene.sandbox)
    items: list[Any] = [Flavor(), Priority(name="queue-urgent", value=1000)]
    for name, preempts in (("busy", Preempt.NEVER), ("small", Preempt.NEVER), ("fought-for", Preempt.LOWER_PRIORITY)):
        items += [
            ClusterQueue(name=f"{name}-gpus", gpus=1, preempts=preempts),
            LocalQueue(name=name, namespace=MAIN, cluster_queue=f"{name}-gpus"),
        ]
    for item in items:
        scene.sandbox.api.apply(item.document())
    scene.hold("queue-holder", pool="queued", queue="busy")
    scene.hold("queue-will-give-way", pool="queued", queue="fought-for")


def add_holders(scene: Scene) -> None:
    """Have trainings run that hold what others are to wait for."""
    deadline = {"backoffLimit": 0, "activeDeadlineSeconds": HOLDER_DEADLINE_S}
    scene.hold("bounded", pool="taken", job=deadline)
    scene.hold("unbounded", pool="taken")
    scene.hold("half-of-quota", pool="free", namespace=FULL)
    scene.hold("will-give-way", pool="contended", priorityClassName="nightly")
    scene.hold("fat", pool="crammed", container=with_memory("6Gi"))
    slow = PodLife(stop_s=600)
    scene.hold(
        "gives-way-slowly", pool="yielding", priorityClassName="nightly", life=slow, terminationGracePeriodSeconds=600
    )


def set_up(scene: Scene, webhook: DenyingWebhook) -> None:
    """Add everything but the namespaces, which are there."""
    add_nodes(scene)
    add_classes(scene)
    add_admission(scene, webhook)
    add_volumes(scene)
    attach_volume(scene)
    add_holders(scene)
    add_queues(scene)
    await_lost_node(scene)
