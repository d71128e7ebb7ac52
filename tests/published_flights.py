"""Data versions of the flights for tests: published by the trainer's own program, into a folder or an S3 server."""

from __future__ import annotations

import base64
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tests.object_store_service import ObjectStoreServer

FIRST_DAY = "2013-03-04"

_ROOT = Path(__file__).resolve().parent.parent
_NONE: Mapping[str, str] = MappingProxyType({})


def publish(to: str, *, weeks: int, variables: Mapping[str, str] = _NONE) -> None:
    """Publish a data version for each week from FIRST_DAY on, of 20 rows a day.

    :param variables: with which the store is reached.
    """
    python = _ROOT / ".venv-trainer" / "bin" / "python"
    arguments = ["--to", to, "--weeks", str(weeks), "--first", FIRST_DAY, "--rows-per-day", "20"]
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": f"{_ROOT}/include:{_ROOT}/plugins", **variables}
    subprocess.run([python, "-m", "trainer.publish_flights", *arguments], env=environment, check=True)


def publish_in(store: ObjectStoreServer, bucket: str) -> dict[str, str]:
    """Publish one data version in a new bucket, and give the variables with which a pod reads it."""
    store.client.create_bucket(Bucket=bucket)
    variables = {
        "AWS_ACCESS_KEY_ID": "test-access-key",
        "AWS_SECRET_ACCESS_KEY": "test-secret-key",
        "AWS_ENDPOINT_URL": store.url,
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    publish(f"s3://{bucket}/versions", weeks=1, variables=variables)
    return variables


def secret_of(variables: Mapping[str, str]) -> dict[str, Any]:
    """Give the Secret from which the example models' pods take such variables."""
    data = {key: base64.b64encode(value.encode()).decode() for key, value in variables.items()}
    return {"metadata": {"name": "flights-data-credentials"}, "data": data}
