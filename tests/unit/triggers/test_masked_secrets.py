"""What is secret in a training's connections is masked before its pods are listened to."""

from __future__ import annotations

import asyncio
import json

import pytest
from airflow.sdk.log import redact
from tests.unit.triggers.one_job import Log

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
