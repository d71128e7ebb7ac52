"""PostgreSQL for Airflow's metadata: a cluster of its own below the state folder, reachable on the loopback only.

SQLite would need no server, but locks up under four services that write at once.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from sandbox.supervisor import ProcessSpec
from stack.errors import StackError
from stack.postgresql_binaries import Binaries, move_wheel, reachable_by, unprivileged_user

NAME = "airflow"
"""Name of the database, and of its one user."""

PROCESS = "postgresql"
"""Name of the server's process."""

HOME_NOTE = "postgresql.home"
"""File of the state folder that says where the database is."""

_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",  # a socket's path is too long in many a checkout
    # What a crash would lose is a demo's; durability costs a good part of the start.
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    # In the data folder instead of /dev/shm, where a killed server would leave it behind.
    "dynamic_shared_memory_type": "mmap",
    "shared_buffers": "32MB",
    "jit": "off",
    "max_connections": "150",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """A PostgreSQL cluster with one database.

    :param home: folder that holds everything of it; below the state folder, or below the temporary folder when
        PostgreSQL must run as another user and that user can not reach the state folder.
    :param user: user that it runs as; None: whoever this is.
    """

    home: Path
    binaries: Binaries
    user: str | None
    port: int
    password: str

    @property
    def data(self) -> Path:
        return self.home / "data"

    def is_ready(self) -> bool:
        """Tell whether the server takes connections."""
        command = [str(self.binaries.folder / "pg_isready"), "--quiet", "-h", "127.0.0.1", "-p", str(self.port)]
        return subprocess.run(command, env=_environment(), check=False).returncode == 0

    def spec(self, log: Path) -> ProcessSpec:
        """Give the server's process."""
        settings = [word for name, value in _SETTINGS.items() for word in ("-c", f"{name}={value}")]
        return ProcessSpec(
            name=PROCESS,
            argv=(str(self.binaries.folder / "postgres"), "-D", str(self.data), "-p", str(self.port), *settings),
            environment=_environment(),
            log=log,
            cwd=self.home,
            user=self.user,
            grace_s=3,
        )


def location(port: int, password: str) -> str:
    """Give the part of a database URL that follows the name of the driver."""
    return f"{NAME}:{password}@127.0.0.1:{port}/{NAME}"


def prepare(state: Path, binaries: Binaries, *, port: int, password: str, template: Path | None) -> Database:
    """Make a database that is ready to be started.

    :param template: data folder of a stopped cluster to begin from (:func:`save_template`); None: an empty database.
    :raises StackError: PostgreSQL's own programs failed; the message holds what they said.
    """
    user = unprivileged_user()
    home = _make_home(state, user)
    if not reachable_by(user, binaries.folder):
        binaries = move_wheel(binaries, home)
    database = Database(home=home, binaries=binaries, user=user, port=port, password=password)
    if template is None:
        _initialise(database)
    else:
        shutil.copytree(template, database.data)
        database.data.chmod(0o700)
        _give_to(user, database.data)
        _single_user(database, f"ALTER USER {NAME} PASSWORD '{password}'")
    return database


def save_template(database: Database, target: Path) -> None:
    """Keep a stopped cluster as a template, in one step: a reader sees the whole of it or none."""
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        shutil.copytree(database.data, draft / "data")
        (draft / "data" / "postmaster.pid").unlink(missing_ok=True)
        if not target.exists():
            (draft / "data").rename(target)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def remove(state: Path) -> None:
    """Take away all that a database left, below the temporary folder too; its server is ended by then."""
    note = state / HOME_NOTE
    if note.exists():
        shutil.rmtree(note.read_text(), ignore_errors=True)
        note.unlink()


def _make_home(state: Path, user: str | None) -> Path:
    """Give an empty folder that the user owns, and write down where it is."""
    note = state / HOME_NOTE
    if reachable_by(user, state / "postgresql"):
        home = state / "postgresql"
        home.mkdir(mode=0o700)
    else:
        home = Path(tempfile.mkdtemp(prefix="gpu-training-postgresql-"))
    note.write_text(str(home))
    _give_to(user, home)
    return home


def _give_to(user: str | None, folder: Path) -> None:
    if user is None:
        return
    account = pwd.getpwnam(user)
    for parent, folders, files in os.walk(folder):
        for name in (".", *folders, *files):
            os.chown(os.path.join(parent, name), account.pw_uid, account.pw_gid, follow_symlinks=False)


def _initialise(database: Database) -> None:
    password_file = database.home / "password"
    password_file.write_text(database.password)
    password_file.chmod(0o600)
    _give_to(database.user, database.home)
    options = ["-D", str(database.data), "-U", NAME, "--auth=scram-sha-256", f"--pwfile={password_file}"]
    try:
        # One file of write-ahead log is 16 MiB by default, most of what a template would hold.
        _run(database, "initdb", [*options, "--encoding=UTF8", "--no-locale", "--no-sync", "--wal-segsize=1"])
    finally:
        password_file.unlink()
    _single_user(database, f"CREATE DATABASE {NAME}")


def _single_user(database: Database, statement: str) -> None:
    """Run a statement without a server, which needs no password (postgres(1), --single)."""
    _run(database, "postgres", ["--single", "-j", "-D", str(database.data), "-c", "fsync=off", "postgres"], statement)


def _run(database: Database, program: str, arguments: list[str], text: str = "") -> None:
    done = subprocess.run(
        [str(database.binaries.folder / program), *arguments],
        input=text + "\n;\n" if text else None,
        env=_environment(),
        cwd=database.home,
        user=database.user,
        group=pwd.getpwnam(database.user).pw_gid if database.user else None,
        extra_groups=[] if database.user else None,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0 or "ERROR:" in done.stderr:
        raise StackError(f"{program} failed with exit code {done.returncode}: {done.stderr.strip()[-2000:]}")


def _environment() -> dict[str, str]:
    return {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}
