"""Why a pod that has a node does not start: the reason decides what a message can be about."""

from __future__ import annotations

import pytest

from gpu_training.core.kubelet_words import parse_container_wait, parse_kubelet_event
from gpu_training.core.pending_cause import Cause, Cure

pytestmark = pytest.mark.core

NOT_FOUND = 'failed to resolve reference "r.example.com/a:1": r.example.com/a:1: not found'


@pytest.mark.parametrize("reason", ["ContainerCreating", "PodInitializing", "CrashLoopBackOff", "", "Anything"])
def test_a_state_that_is_nothing_wrong_tells_nothing(reason: str) -> None:
    assert parse_container_wait(reason, 'secret "x" not found') is None


@pytest.mark.parametrize("reason", ["Scheduled", "Pulled", "Created", "Started", "Killing", "", "Anything"])
def test_an_event_that_is_nothing_wrong_tells_nothing(reason: str) -> None:
    assert parse_kubelet_event(reason, 'secret "x" not found') is None


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("InvalidImageName", Cause.IMAGE_NAME_INVALID),
        ("ErrImageNeverPull", Cause.IMAGE_NOT_PRESENT),
        ("RegistryUnavailable", Cause.REGISTRY_UNREACHABLE),
        ("SignatureValidationFailed", Cause.IMAGE_PULL_FAILED),
        ("ImagePullBackOff", Cause.IMAGE_PULL_FAILED),
        ("CreateContainerError", Cause.CONTAINER_NOT_CREATED),
    ],
)
def test_a_state_without_a_message_is_told_by_its_reason(reason: str, cause: Cause) -> None:
    words = parse_container_wait(reason, "")
    assert words is not None
    assert words.cause is cause


@pytest.mark.case("C039")
@pytest.mark.parametrize(
    "message",
    [
        'toomanyrequests: You have reached your pull rate limit for "not found"',
        'failed to authorize: failed to fetch oauth token: Post "https://r.example.com": EOF',
        "unexpected status from GET request to https://r.example.com/token: 503 Service Unavailable",
        "denied: Your authorization token has expired. Reauthenticate and try again.",
    ],
)
def test_what_heals_by_itself_is_not_taken_for_a_refusal(message: str) -> None:
    words = parse_container_wait("ErrImagePull", message)
    assert words is not None
    assert words.cure is Cure.TRANSIENT


@pytest.mark.parametrize("image", ["r.example.com/ratelimit:429", "r.example.com/x509:401", "r.example.com/a:500"])
def test_an_images_name_is_no_reason(image: str) -> None:
    words = parse_container_wait("ErrImagePull", NOT_FOUND.replace("r.example.com/a:1", image))
    assert words is not None
    assert words.cause is Cause.IMAGE_NOT_FOUND
    assert image in words.summary


def test_only_the_words_that_matter_are_told_of_a_pull() -> None:
    lead = 'Failed to pull image "a:1": rpc error: code = Unknown desc = failed to pull and unpack image "a:1": '
    words = parse_kubelet_event("Failed", lead + "dial tcp 10.0.0.1:443: i/o timeout")
    assert words is not None
    assert (
        words.summary
        == "The registry of image a:1 can not be reached from the node: dial tcp 10.0.0.1:443: i/o timeout."
    )
