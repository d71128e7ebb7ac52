"""A faulty proxy to be had: in this process for tests, or as a process of the sandbox that follows a script file.

What it can do to requests is in :mod:`sandbox.proxy_script`, what it can not pass on in :mod:`sandbox.proxy_server`.
"""

from __future__ import annotations

import asyncio
import json
import signal
import ssl
import sys
import threading
from collections.abc import Coroutine, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self, TypeVar

from sandbox.certificates import KeyPair
from sandbox.cluster import Sandbox
from sandbox.control_plane import HOST, Credentials, write_secret_json
from sandbox.errors import SandboxError
from sandbox.process_spec import ProcessSpec
from sandbox.proxy_script import Rule, Script
from sandbox.proxy_server import ProxyServer
from sandbox.waiting import wait_for

T = TypeVar("T")

PROCESS = "proxy"
START_DEADLINE_S = 60.0


class FaultyProxy:
    """A proxy in this process, in a thread of its own, in front of a sandbox's API server.

    :param folder: takes its kubeconfig.
    :param kubeconfig: of the user whom it serves; None: the operator. The user needs a token.
    :ivar kubeconfig: leads through the proxy, as that user. Nobody here reads it again, so a test may rewrite it.
    :ivar requests: `METHOD target` of every request so far.
    :raises SandboxError: the user has no token.
    """

    def __init__(self, sandbox: Sandbox, folder: Path, kubeconfig: Path | None = None) -> None:
        self.requests: list[str] = []
        self._script = Script()
        document = _read_kubeconfig(kubeconfig or sandbox.operator_kubeconfig)
        trust, serving = _credentials(sandbox.folder)
        self._server = ProxyServer(sandbox.api_url, trust, serving, lambda: self._script, self._tell)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="faulty proxy", daemon=True)
        self._thread.start()
        self.kubeconfig = _write_kubeconfig(document, folder / "proxy.kubeconfig", self._do(self._server.start()))

    def follow(self, *rules: Rule) -> None:
        """Obey these rules from now on instead of those before; without any, everything passes."""
        self._script = Script(rules)

    def cut_streams(self) -> int:
        """Break every watch and followed log that is open now; give how many there were."""

        async def cut() -> int:
            return self._server.cut_streams()

        return self._do(cut())

    def asked(self, part: str) -> int:
        """Give how many requests had this in `METHOD target`."""
        return sum(part in request for request in self.requests)

    def stop(self) -> None:
        """Stop; what is open breaks."""
        self._do(self._server.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _tell(self, method: str, target: str, _: Rule | None) -> None:
        self.requests.append(f"{method} {target}")

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(START_DEADLINE_S)


def start_proxy(sandbox: Sandbox, rules: Iterable[Rule] = ()) -> Path:
    """Have the sandbox's own proxy follow these rules, started if it does not run; its log has each request.

    :returns: the operator's kubeconfig that leads through it.
    """
    folder = proxy_folder(sandbox)
    folder.mkdir(exist_ok=True)
    draft = folder / "script.new"
    draft.write_text(json.dumps({"rules": [_to_document(rule) for rule in rules]}, indent=2))
    draft.replace(folder / "script.json")
    status = sandbox.supervisor.status().get(PROCESS)
    if status is None or not status.alive:
        _launch(sandbox, folder)
    return folder / "kubeconfig"


def stop_proxy(sandbox: Sandbox) -> None:
    """End the sandbox's own proxy.

    :raises SandboxError: none runs.
    """
    sandbox.supervisor.remove(PROCESS)


def cut_proxy_streams(sandbox: Sandbox) -> None:
    """Break every watch and followed log that is open through the sandbox's own proxy.

    :raises SandboxError: none runs.
    """
    sandbox.supervisor.signal(PROCESS, signal.SIGUSR1)


def proxy_folder(sandbox: Sandbox) -> Path:
    """Give the folder of the sandbox's own proxy."""
    return sandbox.folder / "proxy"


def read_rules(path: Path) -> list[Rule]:
    """Read a script: JSON, `{"rules": [{"action": …}, …]}`.

    :raises SandboxError: it can not be read, or a rule does not fit.
    """
    try:
        document = json.loads(path.read_text())
        rules = document["rules"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SandboxError(f'script {path} can not be read: {error!r}; give JSON, {{"rules": [...]}}') from error
    return [Rule.from_document(rule) for rule in rules]


class _FileScript:
    """The script of a file, read again when it is another file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read: tuple[int, int] | None = None
        self._script = Script()

    def __call__(self) -> Script:
        stat = self._path.stat()
        if (stat.st_mtime_ns, stat.st_ino) != self._read:
            self._script, self._read = Script(read_rules(self._path)), (stat.st_mtime_ns, stat.st_ino)
        return self._script


def _launch(sandbox: Sandbox, folder: Path) -> None:
    port = folder / "port"
    port.unlink(missing_ok=True)
    document = _read_kubeconfig(sandbox.operator_kubeconfig)
    environment = {"PYTHONPATH": str(Path(__file__).resolve().parents[1]), "PYTHONUNBUFFERED": "1"}
    spec = ProcessSpec(
        name=PROCESS,
        argv=(sys.executable, "-m", "sandbox.proxy", str(sandbox.folder), sandbox.api_url),
        environment=environment,
        log=sandbox.folder / "logs" / "proxy.log",
        grace_s=2.0,
    )
    sandbox.supervisor.run(spec)
    wait_for(port.exists, START_DEADLINE_S, f"the proxy, whose log is {spec.log}")
    _write_kubeconfig(document, folder / "kubeconfig", int(port.read_text()))


def _credentials(folder: Path) -> tuple[ssl.SSLContext, KeyPair]:
    credentials = Credentials(folder / "certificates")
    serving = credentials.cluster.issue(
        credentials.pair("proxy"), common_name="proxy", addresses=[HOST, "localhost"], server=True
    )
    return ssl.create_default_context(cafile=str(credentials.cluster.certificate)), serving


def _read_kubeconfig(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(path.read_text())
    if "token" not in document["users"][0]["user"]:
        raise SandboxError(
            f"the user of {path} has a client certificate, which a proxy can not pass on: give one who has a token"
        )
    return document


def _write_kubeconfig(document: dict[str, Any], path: Path, port: int) -> Path:
    document["clusters"][0]["cluster"]["server"] = f"https://{HOST}:{port}"
    return write_secret_json(path, document)


def _to_document(rule: Rule) -> dict[str, Any]:
    return {name: value for name, value in asdict(rule).items() if value is not None}


async def _serve(folder: Path, api_url: str) -> None:
    def tell(method: str, target: str, rule: Rule | None) -> None:
        print(json.dumps({"method": method, "target": target, "action": rule and rule.action}), flush=True)

    home = folder / "proxy"
    server = ProxyServer(api_url, *_credentials(folder), _FileScript(home / "script.json"), tell)
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    loop.add_signal_handler(signal.SIGUSR1, server.cut_streams)
    draft = home / "port.new"
    draft.write_text(str(await server.start()))
    draft.replace(home / "port")
    await stop.wait()
    await server.stop()


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1]), sys.argv[2]))
