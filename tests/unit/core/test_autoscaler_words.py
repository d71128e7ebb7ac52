"""What adds nodes says what it does: of several pools the one with the most hope speaks."""

from __future__ import annotations

import pytest

from gpu_training.core.autoscaler_words import ScalingState, parse_autoscaler

pytestmark = pytest.mark.core


@pytest.mark.parametrize(
    ("reason", "source"),
    [
        ("FailedScheduling", "default-scheduler"),
        ("FailedScheduling", ""),
        ("Scheduled", "karpenter"),
        ("ScaleDown", "cluster-autoscaler"),
        ("", "cluster-autoscaler"),
    ],
)
def test_an_event_of_nobody_who_adds_nodes_tells_nothing(reason: str, source: str) -> None:
    assert parse_autoscaler(reason, "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.", source) is None


@pytest.mark.parametrize("source", ["karpenter", "eks-auto-mode/compute", "another-fork"])
def test_karpenter_is_known_by_its_name_or_its_words(source: str) -> None:
    words = parse_autoscaler(
        "FailedScheduling", "Failed to schedule pod, no instance type has enough resources", source
    )
    assert words is not None
    assert words.state is ScalingState.NOT_HELPFUL


@pytest.mark.parametrize(
    ("groups", "state"),
    [
        (["2 Insufficient nvidia.com/gpu"], ScalingState.NOT_HELPFUL),
        (["2 Insufficient nvidia.com/gpu", "1 max node group size reached"], ScalingState.AT_MAXIMUM),
        (["1 max node group size reached", "1 in backoff after failed scale-up"], ScalingState.FAILED),
    ],
)
def test_the_node_group_with_the_most_hope_decides(groups: list[str], state: ScalingState) -> None:
    for told in (groups, groups[::-1]):
        words = parse_autoscaler("NotTriggerScaleUp", "pod didn't trigger scale-up: " + ", ".join(told), "")
        assert words is not None
        assert words.state is state


@pytest.mark.parametrize(
    ("reason", "message", "end"),
    [
        ("NotTriggerScaleUp", "pod didn't trigger scale-up: ", "1 max node group size reached"),
        ("FailedScheduling", "Failed to schedule pod, ", "no instance type has the required offering"),
    ],
)
def test_of_a_message_that_is_cut_off_nobody_knows_whether_the_last_pool_would_help(
    reason: str, message: str, end: str
) -> None:
    """What is known to take no pod is told of each pool that fits into the message, and of no more."""
    several = {
        "NotTriggerScaleUp": "1 Insufficient nvidia.com/gpu, ",
        "FailedScheduling": "did not tolerate taint (a); ",
    }
    short, whole = (message + several[reason] * count for count in (2, 400))
    for said, state in ((short.rstrip(",; "), ScalingState.NOT_HELPFUL), (whole + end, ScalingState.UNKNOWN)):
        words = parse_autoscaler(reason, said, "karpenter")
        assert words is not None
        assert words.state is state


@pytest.mark.parametrize("said", ["pod didn't trigger scale-up: ", "pod didn't trigger scale-up:", "", " "])
def test_who_gives_no_reason_gives_no_verdict(said: str) -> None:
    words = parse_autoscaler("NotTriggerScaleUp", said, "cluster-autoscaler")
    assert words is not None
    assert words.state is ScalingState.UNKNOWN
