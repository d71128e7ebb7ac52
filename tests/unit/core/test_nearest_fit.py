"""The smallest change that would let a training run now."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from tests.unit.core.pending_world import DEDICATED, GPU, around, node, report_of, tenant, waiting_pod

from gpu_training.core.amount_text import amount_of, amount_text

pytestmark = pytest.mark.core

POOL = {"nodeSelector": {"pool": "a100"}}
ZONED = {"nodeSelector": {"pool": "a100", "zone": "a"}}
SPOT = {"key": "spot", "effect": "NoExecute"}
TOLERATION = "{key: dedicated, value: ingest, effect: NoSchedule}"


def memory(amount: str, **more: Any) -> dict[str, Any]:
    return {"containers": [{"name": "training", "resources": {"limits": {GPU: "1", "memory": amount, **more}}}]}


@pytest.mark.parametrize(
    ("nodes", "tenants", "fields", "nearest"),
    [
        ([node("g5-1", gpus=2), node("g5-2", gpus=1)], [], {"gpus": 4}, "2 GPUs would fit now on g5-1"),
        (
            [node("g5-1"), node("g5-2"), node("g5-3")],
            [tenant("x", "g5-1", gpus=3), tenant("y", "g5-2", gpus=3), tenant("z", "g5-3", gpus=3)],
            {"gpus": 2},
            "1 GPU would fit now on g5-1 and 2 more nodes",
        ),
        ([node("g5-1", gpus=1)], [tenant()], {}, ""),
        (
            [node("g5-1"), node("g5-2")],
            [tenant("x", "g5-1", gpus=4), tenant("y", "g5-2", gpus=3, memory="63Gi")],
            {"gpus": 2},
            "",
        ),
        ([node(taints=[DEDICATED])], [], {}, f"it would fit now on g5-1 with {TOLERATION} in training.tolerations"),
        (
            [node(taints=[DEDICATED, SPOT]), node("g5-2", taints=[DEDICATED])],
            [],
            {},
            f"it would fit now on g5-2 with {TOLERATION} in training.tolerations",
        ),
        (
            [node(taints=[DEDICATED, SPOT])],
            [],
            {},
            f"it would fit now on g5-1 with {TOLERATION}, {{key: spot, effect: NoExecute}} in training.tolerations",
        ),
        ([node(gpus=1, taints=[DEDICATED])], [tenant()], {}, ""),
        (
            [node("a", labels={"pool": "a10"}), node("b", labels={"pool": "t4"}), node("c", labels={"pool": "t4"})],
            [],
            {"spec": POOL},
            "it would fit now on b and 1 more node with pool: t4 in training.node_selector",
        ),
        (
            [node("a"), node("b", labels={"pool": "t4"})],
            [],
            {"spec": POOL},
            "it would fit now on b with pool: t4 in training.node_selector",
        ),
        ([node("a")], [], {"spec": POOL}, "it would fit now on a without pool in training.node_selector"),
        (
            [node("a", labels={"pool": "t4", "zone": "b"}), node("b", labels={"pool": "a100", "zone": "b"})],
            [],
            {"spec": ZONED},
            "it would fit now on b with zone: b in training.node_selector",
        ),
        (
            [node("a", labels={"pool": "t4"})],
            [],
            {"spec": ZONED},
            "it would fit now on a with pool: t4 and without zone in training.node_selector",
        ),
        ([node(memory="32Gi")], [], {"spec": memory("48Gi")}, "with 32Gi of memory it would fit now on g5-1"),
        (
            [node("a"), node("b")],
            [tenant("x", "a", memory="40Gi"), tenant("y", "b", memory="20Gi")],
            {"spec": memory("48Gi")},
            "with 44Gi of memory it would fit now on b",
        ),
        ([node()], [tenant(memory="64Gi")], {"spec": memory("48Gi")}, ""),
        ([node(memory="32Gi")], [], {"spec": memory("48Gi", cpu="64")}, ""),
        (
            [node("a", gpus=1), node("b", gpus=2, taints=[DEDICATED])],
            [],
            {"gpus": 2},
            f"1 GPU would fit now on a, or it would fit now on b with {TOLERATION} in training.tolerations",
        ),
        ([node(ready="False", gpus=1)], [], {"gpus": 2}, ""),
    ],
)
def test_the_nearest_change_is_named(nodes: list[Any], tenants: list[Any], fields: Any, nearest: str) -> None:
    assert report_of([waiting_pod(**fields)], around(nodes, tenants)).nearest == nearest


def test_nothing_is_promised_where_it_is_not_known_who_is_on_the_nodes() -> None:
    for nodes, fields in (([node(taints=[DEDICATED])], {}), ([node()], {"spec": POOL}), ([node(gpus=1)], {"gpus": 2})):
        assert report_of([waiting_pod(**fields)], around(nodes, None)).nearest == ""


def test_a_toleration_that_would_not_be_enough_is_in_the_remedy() -> None:
    report = report_of([waiting_pod()], around([node(gpus=1, taints=[DEDICATED])], [tenant()]))
    assert f"Add {TOLERATION} to training.tolerations" in report.remedy


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        (GPU, Fraction(1), "1 GPU"),
        (GPU, Fraction(2), "2 GPUs"),
        ("memory", Fraction(12 * 2**30), "12Gi of memory"),
        ("cpu", Fraction(3, 2), "1500m cpu"),
        ("rdma/hca", Fraction(2), "2 rdma/hca"),
    ],
)
def test_an_amount_says_what_it_is_of(resource: str, amount: Fraction, text: str) -> None:
    assert amount_of(resource, amount) == text


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (0, "0"),
        (-5, "0"),
        (1, "1"),
        (1023, "1023"),
        (2**30, "1Gi"),
        (1500 * 2**20, "1500Mi"),
        (3 * 2**29, "1536Mi"),
        (2**31 + 2**29 + 1, "2.5Gi"),
        (65854456 * 2**10, "62Gi"),
        (2**40, "1Ti"),
        (Fraction(1, 10), "0"),
    ],
)
def test_bytes_are_rounded_down_to_what_is_easily_read(amount: Any, text: str) -> None:
    assert amount_text("memory", Fraction(amount)) == text
