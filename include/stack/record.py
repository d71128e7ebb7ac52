"""What a stack is known by: its ports, its secrets. Made at random for each start, kept in the state folder."""

from __future__ import annotations

import base64
import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from sandbox.ports import free_ports
from sandbox.processes import is_alive, read_process
from stack.airflow_settings import USERS, AirflowSecrets
from stack.database import location
from stack.heartbeats import USUAL, Heartbeats
from stack.mlflow_server import MlflowServer
from stack.object_store import ObjectStore

FILE_NAME = "stack.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class StackRecord:
    """Ports and secrets of one stack.

    :param owner_pid: the process with which the stack ends; None: it runs until it is taken down.
    :param owner_start: its start time, since pids are reused.
    :param heartbeats: how soon its Airflow notices what is dead.
    :param passwords: of Airflow's users.
    """

    owner_pid: int | None
    owner_start: int
    heartbeats: Heartbeats

    airflow_port: int
    database_port: int
    database_password: str
    mlflow_port: int
    store_port: int
    access_key: str
    secret_key: str
    fernet_key: str
    jwt_secret: str
    api_secret: str
    passwords: Mapping[str, str]

    @classmethod
    def make(cls, *, owner_pid: int | None, heartbeats: Heartbeats = USUAL) -> Self:
        """Choose free ports and random secrets."""
        owner = read_process(owner_pid) if owner_pid is not None else None
        airflow_port, database_port, mlflow_port, store_port = free_ports(4)
        return cls(
            owner_pid=owner_pid,
            owner_start=owner.start if owner else 0,
            heartbeats=heartbeats,
            airflow_port=airflow_port,
            database_port=database_port,
            database_password=secrets.token_hex(16),
            mlflow_port=mlflow_port,
            store_port=store_port,
            access_key=secrets.token_hex(10),
            secret_key=secrets.token_hex(20),
            fernet_key=base64.urlsafe_b64encode(os.urandom(32)).decode(),
            jwt_secret=secrets.token_hex(64),
            api_secret=secrets.token_hex(32),
            passwords={user: secrets.token_urlsafe(12) for user in USERS},
        )

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """Read the record of a state folder; None when it holds none."""
        try:
            document = json.loads((folder / FILE_NAME).read_text())
            return cls(**{**document, "heartbeats": Heartbeats(**document["heartbeats"])})
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def write(self, folder: Path) -> None:
        """Keep it where only the owner reads it."""
        file = folder / FILE_NAME
        file.touch(mode=0o600)
        file.write_text(json.dumps(asdict(self), indent=1))

    @property
    def has_owner(self) -> bool:
        """Tell whether whoever started the stack still runs, or it was to run without."""
        return self.owner_pid is None or is_alive(self.owner_pid, self.owner_start)

    @property
    def airflow_url(self) -> str:
        return f"http://127.0.0.1:{self.airflow_port}"

    @property
    def database_url(self) -> str:
        return f"postgresql+psycopg2://{location(self.database_port, self.database_password)}"

    @property
    def mlflow(self) -> MlflowServer:
        return MlflowServer(port=self.mlflow_port)

    @property
    def store(self) -> ObjectStore:
        return ObjectStore(port=self.store_port, access_key=self.access_key, secret_key=self.secret_key)

    @property
    def airflow_secrets(self) -> AirflowSecrets:
        return AirflowSecrets(
            fernet_key=self.fernet_key,
            jwt_secret=self.jwt_secret,
            api_secret=self.api_secret,
            passwords=self.passwords,
        )
