"""Whether there are nodes for a training, and whether they offer their GPUs."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from gpu_training.core.check_nodes import check_device_plugin, check_nodes
from gpu_training.core.check_up import Check, State
from gpu_training.core.look_ups import Answer, LookUp
from gpu_training.core.pod_demand import Demand
from gpu_training.core.resources import GPU_RESOURCE
from gpu_training.core.surroundings import Autoscaler, Node, Taint, Tenant

pytestmark = pytest.mark.core

FOUND = LookUp(answer=Answer.FOUND)
POOL = {"workload": "gpu"}
DEMAND = Demand(gpus=2, requests={GPU_RESOURCE: Fraction(2), "memory": Fraction(2**31)}, selector=POOL)


def node(name: str = "g5-1", gpus: int = 4, offered: int | None = None, **changes: Any) -> Node:
    offered = gpus if offered is None else offered
    amounts = {"memory": Fraction(2**34), "pods": Fraction(110)}
    has = {GPU_RESOURCE: Fraction(gpus)} if gpus else {}
    return Node(
        **{
            "name": name,
            "labels": POOL,
            "ready": True,
            "capacity": {**amounts, **has},
            "allocatable": {**amounts, GPU_RESOURCE: Fraction(offered)},
            **changes,
        }
    )


def holder(gpus: int) -> Tenant:
    return Tenant(namespace="other", name="p", node="g5-1", requests={GPU_RESOURCE: Fraction(gpus)})


def checked(*nodes: Node, tenants: tuple[Tenant, ...] = (), **options: Any) -> Check:
    return check_nodes(FOUND, nodes, tenants, DEMAND, subject="model m", **options)


DEDICATED = Taint(key="dedicated", value="ingest", effect="NoSchedule")


@pytest.mark.parametrize(
    ("check", "state", "said", "remedy"),
    [
        (checked(node()), State.OK, "the training fits on g5-1 now", ""),
        (
            checked(*(node(f"g5-{n}") for n in range(5))),
            State.OK,
            "the training fits on g5-0, g5-1, g5-2 and 2 more now",
            "",
        ),
        (checked(node(), all_tenants=False), State.OK, "pods of other namespaces may not be read", ""),
        (checked(), State.BROKEN, "the cluster has no nodes", "add nodes with GPUs"),
        (checked(node(), tenants=(holder(3),)), State.WARNING, "Waiting for 2 GPUs", "1 GPU would fit now on g5-1"),
        (checked(node(cordoned=True)), State.WARNING, "g5-1 is cordoned", "kubectl uncordon"),
        (checked(node(ready=False)), State.WARNING, "g5-1 is not ready", "looks at it"),
        (checked(node(taints=(DEDICATED,))), State.BROKEN, "taint dedicated=ingest:NoSchedule", "training.tolerations"),
        (checked(node(labels={"workload": "cpu"})), State.BROKEN, "label workload=gpu", "training.node_selector"),
        (checked(node(gpus=1)), State.BROKEN, "2 GPUs", "training.resources.limits"),
        (checked(node(offered=0)), State.BROKEN, "g5-1", "device plugin"),
        (checked(node(gpus=0)), State.BROKEN, "No node offers nvidia.com/gpu", "adds GPU nodes"),
        (
            checked(node(gpus=0), autoscaler=Autoscaler.KARPENTER),
            State.WARNING,
            "No node offers nvidia.com/gpu",
            "Karpenter may add",
        ),
        (checked(autoscaler=Autoscaler.CLUSTER_AUTOSCALER), State.WARNING, "the cluster has no nodes", "add nodes"),
        (
            checked(node(gpus=0), autoscaler=Autoscaler.UNKNOWN),
            State.BROKEN,
            "No node offers",
            "could not be looked at",
        ),
    ],
)
def test_nodes_take_the_training_now_or_later_or_never(check: Check, state: State, said: str, remedy: str) -> None:
    assert check.state is state
    assert said in check.said
    assert remedy in check.remedy
    assert bool(check.remedy) is (state is not State.OK)


def test_every_reason_is_counted_and_the_nearest_change_is_told() -> None:
    check = checked(node(taints=(DEDICATED,)), node("cpu-1", gpus=0, labels={}), node("cpu-2", gpus=0, labels={}))
    assert "1 × taint dedicated=ingest:NoSchedule is not tolerated" in check.said
    assert "2 × has no nvidia.com/gpu" in check.said
    assert "{key: dedicated, value: ingest, effect: NoSchedule} in training.tolerations" in check.remedy


@pytest.mark.parametrize(("answer", "said"), [(Answer.FORBIDDEN, "may not be read"), (Answer.FAILED, "time-out")])
def test_nodes_that_could_not_be_read_are_unknown(answer: Answer, said: str) -> None:
    check = check_nodes(LookUp(answer=answer, said="time-out"), (), (), DEMAND, subject="model m")
    assert check.state is State.UNKNOWN
    assert said in check.said
    assert check.remedy


@pytest.mark.parametrize(
    ("nodes", "state", "said"),
    [
        ((node(), node("g5-2")), State.OK, "all GPUs are offered on g5-1, g5-2"),
        ((node(offered=0),), State.BROKEN, "GPUs that are there are not offered on g5-1"),
        ((node(offered=3),), State.BROKEN, "GPUs that are there are not offered on g5-1"),
        ((node(offered=0), node("g5-2")), State.WARNING, "GPUs that are there are not offered on g5-1"),
        ((node(gpus=0),), State.BROKEN, "none of the 1 nodes that are meant offers nvidia.com/gpu"),
        ((node(offered=0, labels={}), node("g5-2")), State.OK, "all GPUs are offered on g5-2"),
        ((node(labels={}),), State.UNKNOWN, "no node has the labels"),
    ],
)
def test_the_nodes_that_are_meant_offer_their_gpus_or_they_do_not(
    nodes: tuple[Node, ...], state: State, said: str
) -> None:
    check = check_device_plugin(nodes, DEMAND, subject="model m")
    assert check.state is state
    assert said in check.said
    assert bool(check.remedy) is (state is not State.OK)
