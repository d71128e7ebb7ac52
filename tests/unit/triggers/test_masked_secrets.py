"""What is secret in a training's connections is masked before its pods are listened to."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator

import pytest
from airflow.sdk import Connection
from airflow.sdk.log import redact
from tests.unit.patience import until
from tests.unit.triggers.one_job import Log

from gpu_training.triggers import masked_secrets as masked_secrets_module
from gpu_training.triggers.masked_secrets import mask_secrets_of

pytestmark = pytest.mark.unit


def connect(monkeypatch: pytest.MonkeyPatch, conn_id: str, **fields: object) -> None:
    monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps({"conn_type": "http", **fields}))


def test_password_and_secret_extras_are_masked_in_whatever_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch, "tracking_a", password="8c1e-password", extra={"api_token": "77ab-token", "region": "north"})
    log = Log()
    asyncio.run(mask_secrets_of(["tracking_a"], log))

    assert redact("it says 8c1e-password and 77ab-token in north") == "it says *** and *** in north"
    assert log.warnings == []


def test_a_connection_that_is_not_there_is_a_warning_each_time_and_keeps_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = Log()

    async def twice() -> None:
        await mask_secrets_of(["tracking_none"], log)
        connect(monkeypatch, "tracking_none", password="20fe-password")
        await mask_secrets_of(["tracking_none"], log)

    asyncio.run(twice())
    (warning,) = log.warnings
    assert warning.startswith("The secrets of connection tracking_none are not masked in what the pods say: ")
    assert redact("20fe-password") == "***"


class SlowBackend:
    """A secrets backend that answers when it is told to.

    :ivar asked: ids of connections, each time one is asked for.
    """

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answers = threading.Event()
        self.fails = False

    def get(self, conn_id: str) -> Connection:
        self.asked.append(conn_id)
        self.answers.wait(10)
        if self.fails:
            raise OSError("the vault is sealed")
        return Connection(conn_id=conn_id, conn_type="http", extra='{"api_token": "91ee-token"}')


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowBackend]:
    backend = SlowBackend()
    monkeypatch.setattr(Connection, "get", backend.get)
    monkeypatch.setattr(masked_secrets_module, "_WITHIN_S", 0.05)
    yield backend
    backend.answers.set()


def test_a_backend_that_hangs_is_asked_once_however_many_trainings_begin(backend: SlowBackend) -> None:
    log = Log()

    async def trainings() -> None:
        for _ in range(3):
            await mask_secrets_of(["slow"], log)
        assert len(log.warnings) == 3
        assert "within 0.05 s" in log.warnings[0]
        assert backend.asked == ["slow"]
        backend.answers.set()
        await until(lambda: bool(redact("91ee-token") == "***"))
        await mask_secrets_of(["slow"], log)

    asyncio.run(trainings())
    assert backend.asked == ["slow"]
    assert len(log.warnings) == 3


def test_connections_are_asked_for_at_once_and_each_once(backend: SlowBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masked_secrets_module, "_WITHIN_S", 60.0)
    log = Log()

    async def training() -> None:
        masking = asyncio.create_task(mask_secrets_of(["one", "other", "one"], log))
        await until(lambda: sorted(backend.asked) == ["one", "other"])
        backend.answers.set()
        await masking

    asyncio.run(training())
    assert log.warnings == []


def test_one_that_fails_after_nobody_waits_is_asked_for_again(backend: SlowBackend) -> None:
    log = Log()

    async def trainings() -> None:
        await mask_secrets_of(["sealed"], log)
        backend.fails = True
        backend.answers.set()
        await until(lambda: not masked_secrets_module._loading[asyncio.get_running_loop()])
        backend.fails = False
        await mask_secrets_of(["sealed"], log)

    asyncio.run(trainings())
    assert backend.asked == ["sealed", "sealed"]
    assert len(log.warnings) == 1
