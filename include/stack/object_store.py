"""The S3 server: moto's, in memory. It speaks the protocol that production's buckets speak, and keeps nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from stack.checkout import SERVICES, TRAINER, base_environment, python_of
from stack.errors import StackError
from stack.host import Host

NAME = "object-store"
PUBLICATION = "publish-flights"
FLIGHTS, MLFLOW = "flights", "mlflow"
REGION = "us-east-1"
_START_DEADLINE_S = 120.0
_PUBLISH_DEADLINE_S = 300.0
_ANSWER_DEADLINE_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectStore:
    """Where the S3 server is, and the key pair that its clients use."""

    port: int
    access_key: str
    secret_key: str

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """What an AWS client needs; the same names are the keys of the Kubernetes Secret."""
        return {
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_ENDPOINT_URL": self.url,
        }


def start(host: Host, store: ObjectStore, home: Path) -> None:
    """Start the server and make the buckets.

    :raises StackError: it does not come up.
    """
    argv = [python_of(SERVICES), "-m", "moto.server", "-H", "127.0.0.1", "-p", str(store.port)]
    host.start(NAME, argv, base_environment(home), grace_s=1)
    await_answer(host, store)
    make_buckets(store)


def await_answer(host: Host, store: ObjectStore) -> None:
    """Wait until the server takes requests."""
    host.wait_until_answers(NAME, f"{store.url}/moto-api/", deadline_s=_START_DEADLINE_S)


def make_buckets(store: ObjectStore) -> None:
    """Make the buckets in a server that has none."""
    for bucket in (FLIGHTS, MLFLOW):
        put(store, bucket)


def put(store: ObjectStore, path: str, body: bytes = b"") -> None:
    """Make a bucket or an object.

    :raises StackError: the server refuses.
    """
    _send(store, "PUT", path, content=body)


def get(store: ObjectStore, path: str, **query: str) -> bytes:
    """Read an object or the list of a bucket.

    :raises StackError: the server refuses.
    """
    return _send(store, "GET", path, params=query).content


def _send(store: ObjectStore, method: str, path: str, **options: Any) -> httpx.Response:
    # This server wants to see that a request is signed, and does not look at the signature.
    signature = {"authorization": f"AWS {store.access_key}:unchecked"}
    answer = httpx.request(
        method, f"{store.url}/{path}", headers=signature, timeout=_ANSWER_DEADLINE_S, trust_env=False, **options
    )
    if not answer.is_success:
        raise StackError(f"{NAME} refuses {method} {path}: {answer.status_code} {answer.text[:500]}")
    return answer


def publish_flights(host: Host, store: ObjectStore, home: Path, *, weeks: int) -> None:
    """Publish growing weekly versions of the flights, one a week.

    :raises StackError: the program failed.
    """
    target = ["--to", f"s3://{FLIGHTS}/versions", "--weeks", str(weeks)]
    environment = {
        **base_environment(home),
        **store.environment,
        "AWS_DEFAULT_REGION": REGION,
        "PYTHONPATH": f"{TRAINER.parent / 'include'}:{TRAINER.parent / 'plugins'}",
    }
    argv = [python_of(TRAINER), "-m", "trainer.publish_flights", *target]
    host.run_to_end(PUBLICATION, argv, environment, deadline_s=_PUBLISH_DEADLINE_S)
