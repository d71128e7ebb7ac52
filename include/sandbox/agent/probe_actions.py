"""Asks a container how it is: by a program in it, by HTTP, or by a TCP connection; answers in the kubelet's words."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from urllib.parse import urljoin, urlsplit

import aiohttp
from yarl import URL

from sandbox.agent.environment import expand
from sandbox.agent.launcher import LaunchError

Document = Mapping[str, Any]
Execute = Callable[[list[str], float], Awaitable[Document]]

BODY_LIMIT_BYTES = 10 * 1024
REDIRECTS = 10


class Answer(StrEnum):
    """What came of asking. An error is nobody's fault and says nothing of the container."""

    SUCCESS = "success"
    WARNING = "warning"
    FAILURE = "failure"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Asked:
    """An answer with the words that the kubelet has for it."""

    answer: Answer
    words: str = ""


async def ask(probe: Document, container: Document, execute: Execute, address: str) -> Asked:
    """Ask once.

    :param execute: runs a command in the container for so many seconds at most; gives what :mod:`executing` reports.
    :param address: of the pod.
    """
    timeout_s = float(probe.get("timeoutSeconds", 1))
    if "exec" in probe:
        return await _execute(probe["exec"].get("command") or [], container, execute, timeout_s)
    action = probe.get("httpGet") or probe.get("tcpSocket") or {}
    port = find_port(action.get("port"), container)
    if isinstance(port, str):
        return Asked(Answer.ERROR, port)
    host = action.get("host") or address
    if "httpGet" in probe:
        return await _get(action, host, port, timeout_s)
    return await _connect(host, port, timeout_s)


def find_port(port: object, container: Document) -> int | str:
    """Return the number of a port that may be named in the container; text: the kubelet's words why there is none."""
    if isinstance(port, str):
        named = next((one["containerPort"] for one in container.get("ports") or () if one.get("name") == port), None)
        if named is None:
            return f'port "{port}" not found'
        port = named
    return port if isinstance(port, int) and 0 < port < 65536 else f"invalid port number: {port}"


async def _execute(command: list[str], container: Document, execute: Execute, timeout_s: float) -> Asked:
    # Only what is written down in the pod counts: the program gets its variables, its arguments are no part of that.
    fixed = {one["name"]: one["value"] for one in container.get("env") or () if one.get("value")}
    command = [expand(part, fixed) for part in command]
    try:
        report = await execute(command, timeout_s)
    except LaunchError as error:
        return Asked(Answer.ERROR, str(error))
    if "fault" in report:
        return Asked(Answer.ERROR, f"rpc error: code = Unknown desc = {report['fault']}")
    if report.get("timed_out"):
        return Asked(Answer.FAILURE, f'command timed out: "{" ".join(command)}" timed out after {timeout_s:g}s')
    return Asked(Answer.FAILURE if report["exit_code"] else Answer.SUCCESS, report["output"])


async def _connect(host: str, port: int, timeout_s: float) -> Asked:
    try:
        _, writer = await asyncio.wait_for(asyncio.open_connection(host, port), timeout_s)
    except OSError as error:
        return Asked(Answer.FAILURE, _dial_words(host, port, error))
    writer.close()
    return Asked(Answer.SUCCESS)


async def _get(action: Document, host: str, port: int, timeout_s: float) -> Asked:
    url = _url_of(action, host, port)
    headers = {"User-Agent": "kube-probe/1", "Accept": "*/*"}
    headers |= {one["name"]: one.get("value", "") for one in action.get("httpHeaders") or ()}
    try:
        async with asyncio.timeout(timeout_s), aiohttp.ClientSession() as session:
            return await _follow(session, url, headers)
    except TimeoutError:
        words = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
    except aiohttp.ClientConnectorError as error:
        words = _dial_words(host, port, error.os_error)
    except aiohttp.ServerDisconnectedError:
        words = "EOF"
    except (aiohttp.ClientError, OSError, ValueError) as error:
        words = str(error)
    return Asked(Answer.FAILURE, f'Get "{url}": {words}')


def _url_of(action: Document, host: str, port: int) -> str:
    path = action.get("path") or "/"
    name = f"[{host}]" if ":" in host else host
    return f"{(action.get('scheme') or 'HTTP').lower()}://{name}:{port}/{path.removeprefix('/')}"


async def _follow(session: aiohttp.ClientSession, url: str, headers: Mapping[str, str]) -> Asked:
    for _ in range(REDIRECTS):
        # A probe asks whether the program answers, not who it is: certificates are not looked at.
        request = session.get(URL(url, encoded=True), headers=headers, allow_redirects=False, ssl=False)
        async with request as response:
            body = (await response.content.read(BODY_LIMIT_BYTES)).decode(errors="replace")
            if response.status >= 400 or response.status < 200:
                return Asked(Answer.FAILURE, f"HTTP probe failed with statuscode: {response.status}")
            target = response.headers.get("Location")
            if response.status < 300 or target is None:
                return Asked(Answer.SUCCESS, body)
            target = urljoin(url, target)
            if urlsplit(target).hostname != urlsplit(url).hostname:
                return Asked(Answer.WARNING, f"Probe terminated redirects, Response body: {body}")
            url = target
    return Asked(Answer.FAILURE, f'Get "{url}": stopped after {REDIRECTS} redirects')


def _dial_words(host: str, port: int, error: OSError) -> str:
    where = f"dial tcp {f'[{host}]' if ':' in host else host}:{port}"
    if isinstance(error, TimeoutError):
        return f"{where}: i/o timeout"
    # asyncio puts its own sentence where the kernel's word is wanted.
    word = os.strerror(error.errno).lower() if error.errno else str(error)
    return f"{where}: connect: {word}"
