"""A node that is new may yet become one that takes the pod."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.core.pending_world import DEDICATED, around, node, report_of, waiting_pod
from tests.unit.core.test_pending_scheduling import AFFINITY, SELECTOR

from gpu_training.core.pending_cause import Cause, Cure

pytestmark = pytest.mark.core

PRODUCT = {"nodeSelector": {"nvidia.com/gpu.product": "A100"}}
YOUNG: list[tuple[str, Any, dict[str, Any], Cause, bool]] = [
    ("no GPU yet", node(gpus=0, joined=0), {}, Cause.NO_GPU_NODES, True),
    ("no label yet", node(joined=0), {"spec": PRODUCT}, Cause.LABEL_NOT_MATCHED, True),
    ("no label of an affinity yet", node(joined=0), {"spec": AFFINITY}, Cause.LABEL_NOT_MATCHED, True),
    ("neither yet", node(gpus=0, joined=0), {"spec": PRODUCT}, Cause.NO_GPU_NODES, True),
    ("another label", node(joined=0, labels={"pool": "cpu"}), {"spec": SELECTOR}, Cause.LABEL_NOT_MATCHED, False),
    ("another zone", node(joined=0, labels={"zone": "moon"}), {"spec": AFFINITY}, Cause.LABEL_NOT_MATCHED, False),
    ("fewer GPUs", node(gpus=2, joined=0), {"gpus": 4}, Cause.TOO_FEW_GPUS, False),
    ("another's", node(joined=0, taints=[DEDICATED]), {}, Cause.TAINT_NOT_TOLERATED, False),
    ("another's, no GPU", node(gpus=0, joined=0, taints=[DEDICATED]), {}, Cause.NO_GPU_NODES, False),
]


@pytest.mark.parametrize(("new", "fields", "cause", "hope"), [row[1:] for row in YOUNG], ids=[row[0] for row in YOUNG])
def test_a_node_that_has_just_joined_may_yet_offer_what_is_missing(
    new: Any, fields: dict[str, Any], cause: Cause, hope: bool
) -> None:
    for second, cure in ((599, Cure.WAITING if hope else Cure.NEVER), (600, Cure.NEVER)):
        seen = around([node("old", gpus=0, labels={"pool": "cpu", "zone": "moon"}), new])
        report = report_of([waiting_pod(**fields)], seen, second=second)
        assert (report.cause, report.cure) == (cause, cure)
        assert ("has just joined" in report.remedy) is report.curable
