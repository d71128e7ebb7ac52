"""Status documents say what a kubelet says of the same containers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.agent.states import (
    ContainerView,
    Phase,
    PodView,
    Running,
    State,
    Terminated,
    Waiting,
    decide_phase,
    settle,
    will_restart,
)
from sandbox.agent.status import build_rejection, build_status, format_time, parse_time

pytestmark = pytest.mark.unit

NOW = 1_800_000_000 * 10**9
OK = Terminated(exit_code=0, reason="Completed", started_ns=NOW, finished_ns=NOW, container_id="process://1")
BAD = Terminated(exit_code=7, reason="Error", started_ns=NOW, finished_ns=NOW)
ON = Running(started_ns=NOW)
OFF = Waiting(reason="ContainerCreating")
POD: dict[str, Any] = {"spec": {"containers": []}}


def container(state: State, name: str = "main", last: Terminated | None = None) -> ContainerView:
    return ContainerView(name=name, image="i", state=state, last=last, restart_count=1 if last else 0)


def view(*regular: State, init: tuple[State, ...] = (), **more: Any) -> PodView:
    return PodView(
        init=tuple(container(state, f"i{n}") for n, state in enumerate(init)),
        regular=tuple(container(state, f"c{n}") for n, state in enumerate(regular)),
        started_ns=NOW,
        **more,
    )


@pytest.mark.parametrize(
    ("pod", "phase"),
    [
        (view(OFF), Phase.PENDING),
        (view(ON), Phase.RUNNING),
        (view(ON, OFF), Phase.PENDING),  # one that was never started outweighs one that runs
        (view(ON, OK), Phase.RUNNING),
        (view(OK), Phase.RUNNING),  # not final before the pod has ended, as measured
        (view(OK, ended=True), Phase.SUCCEEDED),
        (view(OK, BAD, ended=True), Phase.FAILED),
        (view(OFF, init=(OFF,)), Phase.PENDING),
        (view(OFF, init=(ON,)), Phase.PENDING),
        (view(OFF, init=(OK, OFF)), Phase.PENDING),
        (view(OFF, init=(BAD, OFF), ended=True), Phase.FAILED),
        (view(OK, init=(OK,), ended=True), Phase.SUCCEEDED),
        (view(OK, ended=True, failure=("DeadlineExceeded", "late")), Phase.FAILED),
        (view(ON, failure=("DeadlineExceeded", "late")), Phase.RUNNING),  # during its grace period
    ],
)
def test_phase_follows_from_the_containers(pod: PodView, phase: Phase) -> None:
    assert decide_phase(POD, pod) is phase


def test_container_that_waits_to_restart_counts_as_having_run() -> None:
    crashed = PodView(
        init=(), regular=(container(Waiting(reason="CrashLoopBackOff"), last=BAD),), started_ns=NOW, sandbox_ready=True
    )
    assert decide_phase(POD, crashed) is Phase.RUNNING


@pytest.mark.parametrize(
    ("policy", "code", "again"),
    [
        ("Never", 1, False),
        ("OnFailure", 0, False),
        ("OnFailure", 1, True),
        ("Always", 0, True),
        ("Always", 1, True),
    ],
)
def test_restart_policy(policy: str, code: int, again: bool) -> None:
    assert will_restart(policy, code) is again


def status_of(pod: PodView, before: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    return build_status(POD, pod, address="127.0.0.1", before=before, now_ns=NOW)


def conditions_of(pod: PodView) -> dict[str, tuple[str, Any]]:
    return {one["type"]: (one["status"], one["reason"]) for one in status_of(pod)["conditions"]}


@pytest.mark.parametrize(
    ("pod", "ready", "initialized"),
    [
        (view(OFF), ("False", "ContainersNotReady"), ("True", None)),
        (view(ON, sandbox_ready=True), ("True", None), ("True", None)),
        (view(OK, ended=True), ("False", "PodCompleted"), ("True", "PodCompleted")),
        (view(BAD, ended=True), ("False", "PodFailed"), ("True", None)),
        (view(OFF, init=(OFF,)), ("False", "ContainersNotReady"), ("False", "ContainersNotInitialized")),
        (view(OFF, init=(OK,)), ("False", "ContainersNotReady"), ("True", None)),
    ],
)
def test_conditions_have_the_kubelet_s_reasons(
    pod: PodView, ready: tuple[str, Any], initialized: tuple[str, Any]
) -> None:
    conditions = conditions_of(pod)
    assert conditions["Ready"] == ready
    assert conditions["ContainersReady"] == ready
    assert conditions["Initialized"] == initialized
    assert conditions["PodScheduled"] == ("True", None)
    assert conditions["PodReadyToStartContainers"][0] == str(pod.sandbox_ready)


def test_unready_containers_are_named() -> None:
    (condition,) = [one for one in status_of(view(ON, OFF))["conditions"] if one["type"] == "ContainersReady"]
    assert condition["message"] == "containers with unready status: [c1]"


def test_readiness_gate_holds_the_pod_back() -> None:
    pod = {"spec": {"readinessGates": [{"conditionType": "x"}]}, "status": {"conditions": []}}
    status = build_status(pod, view(ON), address="a", before=(), now_ns=NOW)
    told = {one["type"]: one["status"] for one in status["conditions"]}
    assert (told["Ready"], told["ContainersReady"]) == ("False", "True")


def test_condition_that_did_not_change_keeps_its_time() -> None:
    before = ({"type": "Ready", "status": "False", "lastTransitionTime": "2020-01-01T00:00:00Z"},)
    old = {one["type"]: one["lastTransitionTime"] for one in status_of(view(OFF), before)["conditions"]}
    new = {one["type"]: one["lastTransitionTime"] for one in status_of(view(ON), before)["conditions"]}
    assert (old["Ready"], new["Ready"]) == ("2020-01-01T00:00:00Z", format_time(NOW))


def test_container_statuses_have_state_and_the_state_before() -> None:
    (status,) = status_of(PodView(init=(), regular=(container(ON, last=BAD),), started_ns=NOW, sandbox_ready=True))[
        "containerStatuses"
    ]
    assert status["state"] == {"running": {"startedAt": format_time(NOW)}}
    assert status["lastState"]["terminated"]["exitCode"] == 7
    assert (status["restartCount"], status["ready"], status["started"]) == (1, True, True)


def test_deadline_is_told_only_when_all_has_ended() -> None:
    failure = ("DeadlineExceeded", "late")
    assert status_of(view(ON, failure=failure))["reason"] is None
    assert status_of(view(OK, failure=failure, ended=True))["reason"] == "DeadlineExceeded"


def test_rejected_pod_has_neither_conditions_nor_containers() -> None:
    status = build_rejection("OutOfcpu", "Node didn't have enough resource", now_ns=NOW)
    assert status == {
        "phase": "Failed",
        "reason": "OutOfcpu",
        "message": "Pod was rejected: Node didn't have enough resource",
        "startTime": format_time(NOW),
    }


@pytest.mark.parametrize(
    ("pod", "init", "regular"),
    [
        (view(OFF), [], [137]),
        (view(OK, ON), [], [0, 137]),
        (view(OFF, init=(OFF, OFF)), [137, None], [None]),
        (view(OFF, init=(OK, ON)), [0, 137], [None]),
        (view(OFF, init=(BAD, OFF)), [7, None], [None]),
        (view(OFF, init=(OK, OK)), [0, 0], [137]),
    ],
)
def test_what_should_have_run_and_was_not_seen_to_end_is_told_as_killed(
    pod: PodView, init: list[int | None], regular: list[int | None]
) -> None:
    def codes(containers: tuple[ContainerView, ...]) -> list[int | None]:
        return [one.state.exit_code if isinstance(one.state, Terminated) else None for one in containers]

    settled = settle(pod)
    assert (codes(settled.init), codes(settled.regular)) == (init, regular)
    assert decide_phase(POD, settled) is Phase.FAILED


STATES = st.sampled_from([OFF, ON, OK, BAD])


@given(st.lists(STATES, min_size=1, max_size=4), st.lists(STATES, max_size=3), st.booleans())
def test_every_combination_has_a_phase_and_only_an_ended_pod_a_final_one(
    regular: list[State], init: list[State], ended: bool
) -> None:
    phase = decide_phase(POD, view(*regular, init=tuple(init), ended=ended))
    assert (phase in (Phase.SUCCEEDED, Phase.FAILED)) is ended
    if phase is Phase.SUCCEEDED:
        assert {*regular, *init} == {OK}


def test_times_survive_the_round_trip_in_whole_seconds() -> None:
    assert parse_time(format_time(NOW + 5)) == NOW
