"""The proxy in front of the API server does to requests what its rules say, as a client on the other side sees it."""

from __future__ import annotations

import http.client
import json
import ssl
import time
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from sandbox.cluster import Sandbox
from sandbox.errors import SandboxError
from sandbox.proxy import FaultyProxy, cut_proxy_streams, start_proxy, stop_proxy
from sandbox.proxy_script import Action, Rule, Stream

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 1.0


@pytest.fixture
def faulty(sandbox: Sandbox, tmp_path: Path) -> Iterator[FaultyProxy]:
    with FaultyProxy(sandbox, tmp_path) as proxy:
        yield proxy


class Client:
    """The user of a kubeconfig, a connection each request."""

    def __init__(self, kubeconfig: Path, timeout_s: float = 30) -> None:
        config = json.loads(kubeconfig.read_text())
        cluster = config["clusters"][0]["cluster"]
        trust = ssl.create_default_context(cadata=b64decode(cluster["certificate-authority-data"]).decode())
        self._headers = {"Authorization": f"Bearer {config['users'][0]['user']['token']}"}
        self._connection = http.client.HTTPSConnection(
            urlsplit(cluster["server"]).netloc, context=trust, timeout=timeout_s
        )

    def ask(self, method: str, path: str, body: object = None) -> http.client.HTTPResponse:
        self._connection.request(method, path, None if body is None else json.dumps(body), self._headers)
        return self._connection.getresponse()


def config_maps(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps"


def names(sandbox: Sandbox, namespace: str) -> set[str]:
    return {each["metadata"]["name"] for each in sandbox.api.request("GET", config_maps(namespace))["items"]}


def config_map(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": {"word": "x" * 1000}}


def test_without_rules_all_passes_as_the_operator_and_no_more(
    sandbox: Sandbox, namespace: str, faulty: FaultyProxy
) -> None:
    assert Client(faulty.kubeconfig).ask("GET", f"/apis/batch/v1/namespaces/{namespace}/jobs").status == 200
    refused = Client(faulty.kubeconfig).ask("GET", "/api/v1/secrets")
    assert refused.status == 403
    assert json.load(refused)["reason"] == "Forbidden"
    assert faulty.requests == [f"GET /apis/batch/v1/namespaces/{namespace}/jobs", "GET /api/v1/secrets"]
    assert faulty.asked("/secrets") == 1


def test_a_user_with_a_client_certificate_is_refused(sandbox: Sandbox, tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="has a client certificate, which a proxy can not pass on"):
        FaultyProxy(sandbox, tmp_path, sandbox.kubeconfig)


@pytest.mark.fault("proxy answer")
@pytest.mark.parametrize("status", [401, 403, 409, 410, 429, 500, 503])
def test_an_answer_is_given_as_often_as_ordered(namespace: str, faulty: FaultyProxy, status: int) -> None:
    faulty.follow(Rule(action=Action.ANSWER, path="/jobs", status=status, count=1, retry_after_s=2))
    jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    answer = Client(faulty.kubeconfig).ask("GET", jobs)
    assert (answer.status, json.load(answer)["code"], answer.headers["Retry-After"]) == (status, status, "2")
    assert Client(faulty.kubeconfig).ask("GET", jobs).status == 200


@pytest.fixture
def writer(sandbox: Sandbox, namespace: str, tmp_path: Path) -> Path:
    """Give the kubeconfig of someone who may do everything in the namespace, with a token."""
    account = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    sandbox.api.request("POST", account, {"metadata": {"name": "writer"}})
    subject = {"kind": "ServiceAccount", "name": "writer", "namespace": namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin"}
    binding = {"metadata": {"name": "writer"}, "roleRef": role, "subjects": [subject]}
    bindings = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings"
    sandbox.api.request("POST", bindings, binding)
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = sandbox.api.request("POST", f"{account}/writer/token", request)["status"]["token"]
    document = json.loads(sandbox.operator_kubeconfig.read_text())
    document["users"][0]["user"]["token"] = token
    path = tmp_path / "writer.kubeconfig"
    path.write_text(json.dumps(document))
    return path


@pytest.mark.fault("proxy lose-reply", "proxy reset")
@pytest.mark.parametrize(("action", "written"), [(Action.LOSE_REPLY, True), (Action.RESET, False)])
def test_a_lost_reply_was_a_write_and_a_reset_was_none(
    sandbox: Sandbox, namespace: str, writer: Path, tmp_path: Path, action: Action, written: bool
) -> None:
    with FaultyProxy(sandbox, tmp_path, writer) as proxy:
        proxy.follow(Rule(action=action, method="POST", path="/configmaps$"))
        with pytest.raises((ConnectionError, ssl.SSLError)):
            Client(proxy.kubeconfig).ask("POST", config_maps(namespace), config_map("made"))
    assert ("made" in names(sandbox, namespace)) is written


@pytest.mark.fault("proxy stall")
def test_a_stalled_write_is_done_and_never_answered(
    sandbox: Sandbox, namespace: str, writer: Path, tmp_path: Path
) -> None:
    with FaultyProxy(sandbox, tmp_path, writer) as proxy:
        proxy.follow(Rule(action=Action.STALL, method="POST"))
        with pytest.raises(TimeoutError):
            Client(proxy.kubeconfig, PATIENCE_S).ask("POST", config_maps(namespace), config_map("made"))
    assert "made" in names(sandbox, namespace)


@pytest.mark.fault("proxy forward")
def test_a_delay_delays_and_changes_nothing(namespace: str, faulty: FaultyProxy) -> None:
    faulty.follow(Rule(action=Action.FORWARD, delay_s=0.5, count=1))
    started = time.monotonic()
    answer = Client(faulty.kubeconfig).ask("GET", f"/apis/batch/v1/namespaces/{namespace}/jobs")
    assert time.monotonic() - started >= 0.5
    assert json.load(answer)["kind"] == "JobList"


@pytest.mark.fault("proxy cut")
def test_a_watch_breaks_off_after_so_many_bytes(namespace: str, writer: Path, sandbox: Sandbox, tmp_path: Path) -> None:
    sandbox.api.request("POST", config_maps(namespace), config_map("one"))
    with FaultyProxy(sandbox, tmp_path, writer) as proxy:
        proxy.follow(Rule(action=Action.CUT, stream=Stream.WATCH, after_bytes=300))
        watch = Client(proxy.kubeconfig).ask("GET", f"{config_maps(namespace)}?watch=true")
        with pytest.raises(http.client.IncompleteRead) as broken:
            watch.read()
        assert len(broken.value.partial) == 300
        plain = Client(proxy.kubeconfig).ask("GET", config_maps(namespace))
        assert len(plain.read()) > 1000


@pytest.mark.fault("proxy cut")
def test_a_watch_breaks_off_after_so_many_seconds(namespace: str, faulty: FaultyProxy) -> None:
    faulty.follow(Rule(action=Action.CUT, stream=Stream.WATCH, after_s=0.3))
    watch = Client(faulty.kubeconfig).ask("GET", f"/apis/batch/v1/namespaces/{namespace}/jobs?watch=true")
    assert watch.status == 200
    with pytest.raises(http.client.IncompleteRead):
        watch.read()


@pytest.mark.fault("proxy stall")
def test_a_watch_falls_silent_until_it_is_cut(sandbox: Sandbox, namespace: str, writer: Path, tmp_path: Path) -> None:
    sandbox.api.request("POST", config_maps(namespace), config_map("one"))
    with FaultyProxy(sandbox, tmp_path, writer) as proxy:
        proxy.follow(Rule(action=Action.STALL, stream=Stream.WATCH, after_bytes=300))
        watch = Client(proxy.kubeconfig, PATIENCE_S).ask("GET", f"{config_maps(namespace)}?watch=true")
        assert len(watch.read(300)) == 300
        with pytest.raises(TimeoutError):
            watch.read(1)
        other = Client(proxy.kubeconfig).ask("GET", f"{config_maps(namespace)}?watch=true")
        other.read(300)
        assert proxy.cut_streams() >= 1
        with pytest.raises((ConnectionError, ssl.SSLError, http.client.IncompleteRead)):
            other.read(1)


@pytest.mark.fault("proxy expire")
def test_an_expired_watch_says_so_in_its_stream(namespace: str, faulty: FaultyProxy) -> None:
    faulty.follow(Rule(action=Action.EXPIRE))
    jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    watch = Client(faulty.kubeconfig).ask("GET", f"{jobs}?watch=true")
    event = json.load(watch)
    assert (watch.status, event["type"], event["object"]["code"]) == (200, "ERROR", 410)
    assert json.load(Client(faulty.kubeconfig).ask("GET", jobs))["kind"] == "JobList"


@pytest.mark.fault("proxy", "cut-proxy", "stop-proxy")
def test_the_sandboxs_own_proxy_follows_its_script_until_it_is_stopped(sandbox: Sandbox, namespace: str) -> None:
    jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    kubeconfig = start_proxy(sandbox, [Rule(action=Action.ANSWER, status=503)])
    assert Client(kubeconfig).ask("GET", jobs).status == 503
    assert start_proxy(sandbox) == kubeconfig
    assert Client(kubeconfig).ask("GET", jobs).status == 200
    watch = Client(kubeconfig).ask("GET", f"{jobs}?watch=true")
    cut_proxy_streams(sandbox)
    with pytest.raises((ConnectionError, ssl.SSLError, http.client.IncompleteRead)):
        watch.read()
    stop_proxy(sandbox)
    with pytest.raises(ConnectionError):
        Client(kubeconfig).ask("GET", jobs)
