"""Why a pod has to stop now, and how long it is given."""

from __future__ import annotations

from typing import Any

import pytest

from sandbox.agent.orders import PodEnd
from sandbox.agent.stopping import DEADLINE_MESSAGE, Stop, find_stop, seconds_to_deadline

pytestmark = pytest.mark.unit

SECOND = 10**9
EVICTED = PodEnd(reason="Evicted", message="full", grace_s=0)


def pod(*, deleted_with: int | None = None, **spec: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {}
    if deleted_with is not None:
        metadata = {"deletionTimestamp": "2026-11-30T00:00:00Z", "deletionGracePeriodSeconds": deleted_with}
    return {"metadata": metadata, "spec": spec}


@pytest.mark.parametrize(
    ("document", "gone", "order", "stop"),
    [
        (pod(), False, None, None),
        (pod(activeDeadlineSeconds=11), False, None, None),
        (pod(deleted_with=7), False, None, Stop(grace_s=7)),
        (pod(deleted_with=0), False, None, Stop(grace_s=2)),
        (pod(), True, None, Stop(grace_s=30)),
        (pod(terminationGracePeriodSeconds=1), True, None, Stop(grace_s=2)),
        (pod(), False, EVICTED, Stop(grace_s=2, failure=("Evicted", "full"))),
        (
            pod(activeDeadlineSeconds=10, terminationGracePeriodSeconds=5),
            False,
            None,
            Stop(grace_s=5, failure=("DeadlineExceeded", DEADLINE_MESSAGE)),
        ),
        (pod(deleted_with=7, activeDeadlineSeconds=1), False, EVICTED, Stop(grace_s=7)),
    ],
)
def test_pod_stops_for_its_deletion_an_order_or_its_deadline(
    document: dict[str, Any], gone: bool, order: PodEnd | None, stop: Stop | None
) -> None:
    assert find_stop(document, gone=gone, order=order, started_ns=0, now_ns=10 * SECOND) == stop


def test_deadline_counts_from_the_start_of_the_pod() -> None:
    assert seconds_to_deadline(pod(activeDeadlineSeconds=10), started_ns=SECOND, now_ns=4 * SECOND) == 7
    assert seconds_to_deadline(pod(), started_ns=SECOND, now_ns=4 * SECOND) is None
