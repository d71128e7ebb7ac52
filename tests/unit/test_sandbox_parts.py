"""The sandbox's parts that need no cluster: progress texts, waiting, certificates, state folders, platforms."""

from __future__ import annotations

import io
import platform
import re
import socket
import ssl
import stat
import threading
from pathlib import Path

import pytest
import yaml

from sandbox import binaries, manifests
from sandbox.certificates import Authority, KeyPair
from sandbox.control_plane import Credentials, kubeconfig, write_secret_json
from sandbox.errors import SandboxError
from sandbox.lifecycle import NodeLifecycle
from sandbox.plan import choose_version
from sandbox.progress import QUIET_S, Display, format_duration
from sandbox.state import check_folder, remove_entries
from sandbox.waiting import DeadlineError, wait_for

pytestmark = pytest.mark.unit


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_log_gets_a_line_now_and_then_and_each_new_step_at_once() -> None:
    stream, now = io.StringIO(), [0.0]
    show = Display(stream, clock=lambda: now[0])
    for second in range(40):
        now[0] = float(second)
        show(f"etcd v3: {second} of 99 packages, {second} s")
    show("etcd v3: built")
    lines = stream.getvalue().splitlines()
    assert [line.split()[2] for line in lines[:-1]] == ["0", str(int(QUIET_S)), str(2 * int(QUIET_S))]
    assert lines[-1] == "etcd v3: built"


def test_a_terminal_gets_one_changing_line_a_subject() -> None:
    stream = Terminal()
    show = Display(stream)
    for text in ("one: 1", "one: 2", "two: 1"):
        show(text)
    show.close()
    assert stream.getvalue() == "\r\x1b[Kone: 1\r\x1b[Kone: 2\n\r\x1b[Ktwo: 1\n"


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0 s"), (59.9, "59 s"), (60, "1 min 00 s"), (185, "3 min 05 s")])
def test_durations_are_written_as_people_read_them(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


def test_waiting_gives_the_value_that_was_waited_for() -> None:
    values = iter(["", "", "here"])
    assert wait_for(lambda: next(values), 10, "a word") == "here"


def test_waiting_in_vain_says_what_was_seen_last() -> None:
    with pytest.raises(DeadlineError, match="waited 0 s for rain; last seen: ''"):
        wait_for(lambda: "", 0, "rain")


def test_waiting_hides_no_error() -> None:
    with pytest.raises(ZeroDivisionError):
        wait_for(lambda: 1 / 0, 10, "the impossible")


def test_client_and_server_with_certificates_of_one_authority_trust_each_other(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "ca").create()
    server = authority.issue(pair(tmp_path, "server"), common_name="s", addresses=["127.0.0.1", "host"], server=True)
    client = authority.issue(pair(tmp_path, "client"), common_name="jo", organizations=["staff"], client=True)
    assert shake_hands(authority, server, authority, client) == {"commonName": "jo", "organizationName": "staff"}


def test_a_client_of_another_authority_is_turned_away(tmp_path: Path) -> None:
    authority, stranger = Authority(tmp_path, "ca").create(), Authority(tmp_path, "stranger").create()
    server = authority.issue(pair(tmp_path, "server"), common_name="s", addresses=["127.0.0.1"], server=True)
    client = stranger.issue(pair(tmp_path, "client"), common_name="jo", client=True)
    with pytest.raises(ssl.SSLError):
        shake_hands(authority, server, authority, client)


def test_keys_and_kubeconfigs_are_for_their_owner_only(tmp_path: Path) -> None:
    credentials = Credentials(tmp_path)
    credentials.create()
    document = kubeconfig("https://h:1", credentials.cluster.certificate, {"token": "t"}, namespace="n")
    config = write_secret_json(tmp_path / "config", document)
    secret = [*tmp_path.glob("*.key"), config]
    assert len(secret) > 10
    assert {stat.S_IMODE(path.stat().st_mode) for path in secret} == {0o600}
    assert yaml.safe_load(config.read_text())["users"][0]["user"] == {"token": "t"}


def test_only_a_sandboxs_own_folder_is_taken_and_only_its_entries_are_removed(tmp_path: Path) -> None:
    check_folder(tmp_path / "new")
    check_folder(tmp_path)
    closed = tmp_path / "nodes" / "gpu-1" / "closed"
    closed.mkdir(parents=True)
    (closed / "file").touch()
    closed.chmod(0)
    check_folder(tmp_path)
    remove_entries(tmp_path)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "thesis").touch()
    with pytest.raises(SandboxError, match="holds thesis, which is no sandbox's: give an empty or new folder"):
        check_folder(tmp_path)
    with pytest.raises(SandboxError, match="is no folder"):
        check_folder(tmp_path / "thesis")


@pytest.mark.parametrize(("system", "machine"), [("Darwin", "arm64"), ("Windows", "AMD64"), ("Linux", "ppc64le")])
def test_another_platform_is_told_in_a_clear_word(monkeypatch: pytest.MonkeyPatch, system: str, machine: str) -> None:
    monkeypatch.setattr(platform, "system", lambda: system)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    with pytest.raises(SandboxError, match=f"runs on Linux on x86_64 and arm64, this is {system} on {machine}: "):
        binaries.find_binaries(print)


def test_the_cache_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(binaries.CACHE_VARIABLE, str(tmp_path))
    assert binaries.cache_folder() == tmp_path
    monkeypatch.delenv(binaries.CACHE_VARIABLE)
    assert binaries.cache_folder() == Path.home() / ".cache" / "gpu-training"


def test_versions_are_those_that_go_mod_pins() -> None:
    versions = {minor: source.version for minor, source in binaries.KUBERNETES.items()}
    assert binaries.ETCD.version == "v3.7.3"
    assert versions == {"1.37": "v1.37.2", "1.34": "v1.34.4"}
    assert binaries.KUBECTL.version == versions[binaries.DEFAULT_VERSION]
    assert "version.gitVersion=v1.37.2" in binaries.KUBERNETES["1.37"].linker_flags


@pytest.mark.parametrize("minor", binaries.KUBERNETES)
def test_a_version_is_of_one_piece(minor: str) -> None:
    source = binaries.KUBERNETES[minor]
    replaced = re.findall(r"^\tk8s\.io/\S+ => k8s\.io/\S+ v0\.(\S+)$", (source.folder / "go.mod").read_text(), re.M)
    assert len(replaced) > 30
    assert {f"v1.{version}" for version in replaced} == {source.version}
    assert source.version.startswith(f"v{minor}.")


@pytest.mark.parametrize(
    ("asked", "variable", "running", "version"),
    [
        (None, None, None, "1.37"),
        (None, None, "v1.34.4", "1.34"),
        (None, "1.34", None, "1.34"),
        ("1.37", "1.34", None, "1.37"),
        ("1.34", None, "v1.34.4", "1.34"),
    ],
)
def test_the_version_asked_for_wins_then_the_running_one_then_the_newest(
    monkeypatch: pytest.MonkeyPatch, asked: str | None, variable: str | None, running: str | None, version: str
) -> None:
    monkeypatch.delenv(binaries.VERSION_VARIABLE, raising=False)
    if variable:
        monkeypatch.setenv(binaries.VERSION_VARIABLE, variable)
    assert choose_version(asked, running, Path("state")) == version


def test_another_version_than_the_running_one_and_an_unknown_one_are_refused() -> None:
    with pytest.raises(SandboxError, match=r"Kubernetes 1\.34 is asked for and state runs v1\.37\.2: end it"):
        choose_version("1.34", "v1.37.2", Path("state"))
    with pytest.raises(
        SandboxError, match=r"Kubernetes '1\.9' \(K8S_VERSION\) is not pinned here; known are 1\.37, 1\.34"
    ):
        binaries.control_plane("1.9")


@pytest.mark.parametrize(
    ("times", "message"),
    [
        ({"lease_s": 0}, "lease_s is 0: give a whole number of seconds from 1 up"),
        ({"toleration_s": 0.5}, "toleration_s is 0.5"),
        ({"monitor_grace_s": 10}, "a node renews its lease of 40 s every 10 s, so give more than that"),
    ],
)
def test_times_that_can_not_be_are_refused(times: dict[str, int], message: str) -> None:
    with pytest.raises(SandboxError, match=message):
        NodeLifecycle(**times)


def test_manifests_move_to_another_namespace_but_their_subjects_stay() -> None:
    moved = list(manifests.documents("elsewhere"))
    (namespace,) = (document for document in moved if document["kind"] == "Namespace")
    assert namespace["metadata"]["name"] == "elsewhere"
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    bindings = [document for document in moved if document["kind"] == "RoleBinding"]
    assert [binding["metadata"]["namespace"] for binding in bindings] == ["elsewhere", "kube-system"]
    assert {binding["subjects"][0]["namespace"] for binding in bindings} == {"gpu-training"}


def test_what_is_the_cluster_s_own_moves_nowhere() -> None:
    kinds = {"PriorityClass", "ResourceFlavor", "ClusterQueue", "WorkloadPriorityClass"}
    shown = [*manifests.documents("elsewhere"), *manifests.documents("elsewhere", folder=manifests.QUEUES)]
    found = {document["kind"]: document["metadata"].get("namespace") for document in shown}
    assert {kind: found[kind] for kind in kinds} == dict.fromkeys(kinds)
    assert found["LocalQueue"] == "elsewhere"


def pair(folder: Path, name: str) -> KeyPair:
    return KeyPair(certificate=folder / f"{name}.crt", key=folder / f"{name}.key")


def shake_hands(server_ca: Authority, server: KeyPair, client_ca: Authority, client: KeyPair) -> dict[str, str]:
    """Give the subject by which the server knows the client."""
    seen: dict[str, str] = {}
    listening = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(client_ca.certificate))
    listening.verify_mode = ssl.CERT_REQUIRED
    listening.load_cert_chain(server.certificate, server.key)
    calling = ssl.create_default_context(cafile=str(server_ca.certificate))
    calling.verify_flags |= ssl.VERIFY_X509_STRICT
    calling.load_cert_chain(client.certificate, client.key)
    with socket.create_server(("127.0.0.1", 0)) as door:

        def serve() -> None:
            plain, _ = door.accept()
            with plain:
                try:
                    with listening.wrap_socket(plain, server_side=True) as secure:
                        certificate = secure.getpeercert()
                        assert certificate is not None
                        seen.update(item for group in certificate["subject"] for item in group)  # type: ignore[misc]
                        secure.sendall(b"welcome")
                except ssl.SSLError:
                    return

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            with calling.wrap_socket(
                socket.create_connection(door.getsockname()), server_hostname="127.0.0.1"
            ) as connection:
                assert connection.recv(100) == b"welcome"
        finally:
            thread.join()
    return seen
