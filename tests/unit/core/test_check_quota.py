"""What quotas, limits and Pod Security leave for one pod: by what may be read, and by what a dry run says."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.core.specs import spec

from gpu_training.core.check_quota import asked_of_quota, check_limits, check_quota, pod_security
from gpu_training.core.check_up import Check, State
from gpu_training.core.look_ups import Answer, LookUp
from gpu_training.core.surroundings import Limit, Quota
from gpu_training.core.trial import Trial, TrialEnd

pytestmark = pytest.mark.core

RESOURCES = spec(
    resources={"requests": {"cpu": "500m"}, "limits": {"nvidia.com/gpu": 2, "memory": "2Gi", "cpu": "1"}}
).resources
FOUND = LookUp(answer=Answer.FOUND)
FORBIDDEN = LookUp(answer=Answer.FORBIDDEN)
ACCEPTED = Trial(end=TrialEnd.ACCEPTED, of_pod=True)
NOT_ALLOWED = Trial(end=TrialEnd.NOT_ALLOWED)
QUOTA_WORDS = (
    'pods "a-x" is forbidden: exceeded quota: gpus, requested: requests.nvidia.com/gpu=2, used: '
    "requests.nvidia.com/gpu=3, limited: requests.nvidia.com/gpu=4"
)
SECURITY_WORDS = 'pods "a-x" is forbidden: violates PodSecurity "restricted:latest": host namespaces (hostNetwork=true)'


def refused(words: str) -> Trial:
    return Trial(end=TrialEnd.REFUSED, said=words)


def test_a_training_asks_a_quota_by_every_name_that_quotas_have_for_it() -> None:
    assert asked_of_quota(RESOURCES) == {
        "pods": "1",
        "count/pods": "1",
        "count/jobs.batch": "1",
        "cpu": "500m",
        "requests.cpu": "500m",
        "limits.cpu": "1",
        "memory": "2Gi",
        "requests.memory": "2Gi",
        "limits.memory": "2Gi",
        "requests.nvidia.com/gpu": "2",
        "limits.nvidia.com/gpu": "2",
    }


def quota(trial: Trial = NOT_ALLOWED, look_up: LookUp = FOUND, used: str = "0", **hard: str) -> Check:
    names = {"gpu": "requests.nvidia.com/gpu", "cpu": "requests.cpu", "pods": "pods", "services": "services"}
    limits = {names[name]: amount for name, amount in hard.items()}
    found = Quota(name="q", hard=limits, used=dict.fromkeys(limits, used))
    return check_quota(look_up, [found] if hard else [], RESOURCES, trial, subject="model m")


@pytest.mark.parametrize(
    ("check", "state", "said"),
    [
        (quota(), State.OK, "none bounds"),
        (quota(services="0"), State.OK, "none bounds"),
        (quota(gpu="4", used="2"), State.OK, "requests.nvidia.com/gpu of quota 'q': asked for 2, used 2 of 4"),
        (quota(gpu="4", used="3"), State.BROKEN, "nothing is left of a quota for one more training"),
        (quota(gpu="1"), State.BROKEN, "smaller than one training"),
        (quota(cpu="1", used="600m"), State.BROKEN, "requests.cpu of quota 'q': asked for 500m, used 600m of 1"),
        (quota(cpu="1", used="500m"), State.OK, "used 500m of 1"),
        (quota(pods="0"), State.BROKEN, "pods of quota 'q'"),
        # The server knows which pods a quota counts.
        (quota(ACCEPTED, gpu="1"), State.OK, "asked for 2"),
        (quota(refused(QUOTA_WORDS), FORBIDDEN), State.BROKEN, "Quota gpus is used up"),
        (quota(refused(QUOTA_WORDS)), State.BROKEN, "Quota gpus is used up"),
        (quota(refused(SECURITY_WORDS), gpu="1"), State.BROKEN, "smaller than one training"),
        (quota(ACCEPTED, FORBIDDEN), State.OK, "may not be read"),
        (quota(NOT_ALLOWED, FORBIDDEN), State.UNKNOWN, "may not be read by this account"),
        (quota(NOT_ALLOWED, LookUp(answer=Answer.FAILED, said="time-out")), State.UNKNOWN, "time-out"),
    ],
)
def test_a_quota_leaves_room_or_it_does_not(check: Check, state: State, said: str) -> None:
    assert check.state is state
    assert said in check.said
    assert bool(check.remedy) is (state is not State.OK)


def limits(trial: Trial = NOT_ALLOWED, look_up: LookUp = FOUND, **rule: Any) -> Check:
    rules = [Limit(name="l", **{"kind": "Container", **rule})] if rule else []
    return check_limits(look_up, rules, RESOURCES, trial, subject="model m")


LIMIT_WORDS = 'pods "a-x" is forbidden: maximum memory usage per Container is 1Gi, but limit is 2Gi'


@pytest.mark.parametrize(
    ("check", "state", "said"),
    [
        (limits(), State.OK, "no LimitRange forbids"),
        (limits(maximum={"memory": "2Gi"}, minimum={"cpu": "500m"}), State.OK, "no LimitRange forbids"),
        (limits(maximum={"memory": "1Gi"}), State.BROKEN, "memory 2Gi is above the maximum 1Gi of LimitRange 'l'"),
        (limits(kind="Pod", maximum={"memory": "1Gi"}), State.BROKEN, "above the maximum"),
        (limits(minimum={"cpu": "1"}), State.BROKEN, "cpu 500m is below the minimum 1"),
        (limits(kind="PersistentVolumeClaim", maximum={"memory": "1"}), State.OK, "no LimitRange forbids"),
        (limits(ACCEPTED, maximum={"memory": "1Gi"}), State.OK, "accepts a pod that asks for this much"),
        (limits(refused(LIMIT_WORDS), FORBIDDEN), State.BROKEN, "1Gi"),
        (limits(NOT_ALLOWED, FORBIDDEN), State.UNKNOWN, "may not be read"),
    ],
)
def test_a_limit_range_allows_what_is_asked_for_or_it_does_not(check: Check, state: State, said: str) -> None:
    assert check.state is state
    assert said in check.said
    assert bool(check.remedy) is (state is not State.OK)


@pytest.mark.parametrize(
    ("trial", "state"),
    [
        (ACCEPTED, State.OK),
        (Trial(end=TrialEnd.ACCEPTED), State.UNKNOWN),
        (refused(SECURITY_WORDS), State.BROKEN),
        (refused(QUOTA_WORDS), State.UNKNOWN),
        (NOT_ALLOWED, State.UNKNOWN),
    ],
)
def test_pod_security_is_known_by_the_dry_run_of_a_pod_alone(trial: Trial, state: State) -> None:
    assert pod_security(trial, subject="model m").state is state
