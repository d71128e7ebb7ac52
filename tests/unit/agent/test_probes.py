"""Probes by their thresholds, what they are asked when, and how a container that failed one is ended."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web

from sandbox.agent.back_off import RestartBackOff
from sandbox.agent.launcher import LaunchError
from sandbox.agent.probe_actions import Answer, Asked, ask, find_port
from sandbox.agent.probes import ProbeKind, ProbeTally, RunHealth, plan_kill
from sandbox.agent.states import Terminated

pytestmark = pytest.mark.unit

SECOND = 10**9


@pytest.mark.parametrize(
    ("spec", "results", "verdicts"),
    [
        ({}, "FFF", [None, None, False]),
        ({"failureThreshold": 1}, "FS", [False, True]),
        ({"failureThreshold": 2}, "FSFF", [None, True, True, False]),
        ({"successThreshold": 2}, "SSFS", [None, True, True, True]),
        ({"successThreshold": 2, "failureThreshold": 1}, "FSS", [False, False, True]),
    ],
)
def test_verdict_changes_when_a_threshold_is_reached_in_a_row(
    spec: dict[str, int], results: str, verdicts: list[bool | None]
) -> None:
    tally = ProbeTally(spec)
    seen = []
    for result in results:
        tally.take(result == "S")
        seen.append(tally.verdict)
    assert seen == verdicts


def test_container_without_probes_is_started_and_ready() -> None:
    health = RunHealth.of({"name": "main"})
    assert (health.started, health.ready) == (True, True)


def test_others_are_asked_once_the_startup_probe_has_succeeded_and_that_one_no_more() -> None:
    health = RunHealth.of({kind.key: {"failureThreshold": 1} for kind in ProbeKind})
    assert [health.is_due(kind) for kind in ProbeKind] == [True, False, False]
    assert (health.started, health.ready) == (False, False)
    health.tallies[ProbeKind.STARTUP].take(True)
    assert [health.is_due(kind) for kind in ProbeKind] == [False, True, True]
    assert (health.started, health.ready) == (True, False)
    health.tallies[ProbeKind.READINESS].take(True)
    assert health.ready


def test_startup_probe_that_failed_is_not_asked_again() -> None:
    health = RunHealth.of({ProbeKind.STARTUP.key: {"failureThreshold": 1}})
    health.tallies[ProbeKind.STARTUP].take(False)
    assert not health.is_due(ProbeKind.STARTUP)
    assert not health.started


def test_what_was_told_of_a_run_holds_until_its_probes_say_otherwise() -> None:
    health = RunHealth.of({kind.key: {"failureThreshold": 1} for kind in ProbeKind})
    health.assume(started=True, ready=True)
    assert health.ready
    health.tallies[ProbeKind.READINESS].take(False)
    assert not health.ready


@pytest.mark.parametrize(
    ("policy", "is_last", "message", "grace"),
    [
        ("Always", True, "Container main failed liveness probe, will be restarted", 3.0),
        ("OnFailure", False, "Container main failed liveness probe, will be restarted", 3.0),
        ("Never", False, "Container main failed liveness probe", 3.0),
        ("Never", True, "Stopping container main", 40.0),
    ],
)
def test_last_container_that_is_not_restarted_ends_as_its_pod_does(
    policy: str, is_last: bool, message: str, grace: float
) -> None:
    container = {"name": "main", "livenessProbe": {"terminationGracePeriodSeconds": 3}}
    spec = {"restartPolicy": policy, "terminationGracePeriodSeconds": 40}
    kill = plan_kill(spec, container, ProbeKind.LIVENESS, is_last=is_last)
    assert (kill.message, kill.grace_s) == (message, grace)


def end(started_s: int, finished_s: int) -> Terminated:
    times = {"started_ns": started_s * SECOND, "finished_ns": finished_s * SECOND}
    return Terminated(exit_code=1, reason="Error", **times)


def test_container_that_ends_by_itself_waits_from_its_second_end_on() -> None:
    back_off = RestartBackOff()
    waits = [back_off.wait_s(end(1, 2), now_ns=2 * SECOND, killed_after=None, killed=False) for _ in range(7)]
    assert waits == [0, 10, 20, 40, 80, 160, 300]
    assert back_off.wait_s(end(1, 601), now_ns=601 * SECOND, killed_after=None, killed=False) == 0


def test_container_that_a_probe_ended_waits_by_the_end_before() -> None:
    back_off = RestartBackOff()
    assert back_off.wait_s(end(1, 5), now_ns=5 * SECOND, killed_after=None, killed=True) == 0
    assert back_off.wait_s(end(5, 9), now_ns=9 * SECOND, killed_after=end(1, 5), killed=True) == 0
    assert back_off.wait_s(end(9, 13), now_ns=13 * SECOND, killed_after=end(5, 9), killed=True) == 10
    assert back_off.wait_s(end(23, 53), now_ns=53 * SECOND, killed_after=end(9, 13), killed=True) == 0


@pytest.mark.parametrize(
    ("port", "found"),
    [
        (80, 80),
        ("web", 8080),
        ("none", 'port "none" not found'),
        (0, "invalid port number: 0"),
        (70000, "invalid port number: 70000"),
    ],
)
def test_port_is_a_number_or_a_name_of_the_container_s(port: object, found: object) -> None:
    assert find_port(port, {"ports": [{"name": "web", "containerPort": 8080}]}) == found


def reporting(**report: Any) -> Callable[[list[str], float], Awaitable[dict[str, Any]]]:
    async def execute(command: list[str], timeout_s: float) -> dict[str, Any]:
        return {**report, "output": " ".join(command)} if "exit_code" in report else report

    return execute


async def broken(command: list[str], timeout_s: float) -> dict[str, Any]:
    raise LaunchError("gone")


@pytest.mark.parametrize(
    ("execute", "asked"),
    [
        (reporting(exit_code=0), Asked(Answer.SUCCESS, "test red $(B)")),
        (reporting(exit_code=3), Asked(Answer.FAILURE, "test red $(B)")),
        (
            reporting(timed_out=True),
            Asked(Answer.FAILURE, 'command timed out: "test red $(B)" timed out after 2s'),
        ),
        (reporting(fault="no such"), Asked(Answer.ERROR, "rpc error: code = Unknown desc = no such")),
        (broken, Asked(Answer.ERROR, "gone")),
    ],
)
def test_program_is_asked_with_the_variables_that_the_pod_writes_down(execute: Any, asked: Asked) -> None:
    env = [{"name": "A", "value": "red"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
    probe = {"exec": {"command": ["test", "$(A)", "$(B)"]}, "timeoutSeconds": 2}
    assert asyncio.run(ask(probe, {"env": env}, execute, "127.0.0.1")) == asked


@pytest.mark.parametrize(
    ("path", "answer", "words"),
    [
        ("/ok", Answer.SUCCESS, "fine"),
        ("/moved", Answer.SUCCESS, "fine"),
        ("/away", Answer.WARNING, "Probe terminated redirects, Response body: go"),
        ("/no", Answer.FAILURE, "HTTP probe failed with statuscode: 404"),
        ("/round", Answer.FAILURE, "stopped after 10 redirects"),
        ("/slow", Answer.FAILURE, "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"),
    ],
)
def test_http_answer_counts_by_its_status(path: str, answer: Answer, words: str) -> None:
    async def serve(request: web.Request) -> web.Response:
        match request.path:
            case "/ok":
                assert request.headers["User-Agent"].startswith("kube-probe/")
                return web.Response(text="fine")
            case "/moved":
                return web.Response(status=302, headers={"Location": "/ok"})
            case "/away":
                return web.Response(status=302, headers={"Location": "http://elsewhere.invalid/"}, text="go")
            case "/round":
                return web.Response(status=302, headers={"Location": "/round"})
            case "/slow":
                await asyncio.sleep(30)
        return web.Response(status=404)

    async def run() -> Asked:
        application = web.Application()
        application.router.add_get("/{rest:.*}", serve)
        runner = web.AppRunner(application, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        probe = {"httpGet": {"port": runner.addresses[0][1], "path": path}, "timeoutSeconds": 1}
        try:
            return await ask(probe, {}, broken, "127.0.0.1")
        finally:
            await runner.cleanup()

    asked = asyncio.run(run())
    assert asked.answer is answer
    assert words in asked.words


def test_closed_port_is_told_as_go_tells_it() -> None:
    async def run(kind: str) -> Asked:
        server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        server.close()
        await server.wait_closed()
        asked = await ask({kind: {"port": port}}, {}, broken, "127.0.0.1")
        return Asked(asked.answer, asked.words.replace(str(port), "PORT"))

    refused = "dial tcp 127.0.0.1:PORT: connect: connection refused"
    assert asyncio.run(run("tcpSocket")) == Asked(Answer.FAILURE, refused)
    assert asyncio.run(run("httpGet")) == Asked(Answer.FAILURE, f'Get "http://127.0.0.1:PORT/": {refused}')
