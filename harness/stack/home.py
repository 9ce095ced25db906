"""The home folder of an installation: its paths, its lock, and the record of what runs in it."""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from harness.backup.archive import BackupError
from harness.backup.unfinished import home_settle
from harness.env import env_home, env_path, env_text, secret_read_or_make


class StackError(Exception):
    """The stack cannot start or go on; the text says why and what to do next."""


@dataclass(frozen=True)
class StackHome:
    """Names every file that the stack itself keeps below `DLH_HOME`."""

    root: Path

    @property
    def run(self) -> Path:
        """Process records and the lock."""
        return self.root / "run"

    @property
    def logs(self) -> Path:
        """One log file per process."""
        return self.root / "logs"

    @property
    def broker(self) -> Path:
        """Configuration and append-only file of our own broker."""
        return self.root / "broker"

    @property
    def state_file(self) -> Path:
        """What runs here: URL, process ids, broker; readable by the owner only."""
        return self.run / "stack.json"

    @property
    def jobs(self) -> Path:
        """Run folders of the jobs (`harness.store.StorePaths.jobs`)."""
        return self._store / "jobs"

    @property
    def _store(self) -> Path:
        return env_path("DLH_STORE", self.root / "store")

    def make_folders(self) -> None:
        """Create the folders. Raises `StackError` where that is not allowed, or a restore into it was not finished."""
        try:
            self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
            home_settle(self.root, self._store)
            for folder in (self.run, self.logs, self.broker, self.root / "secrets"):
                folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise StackError(
                f"cannot write in {self.root}: {error.strerror}\n"
                "  next: choose another folder, e.g. DLH_HOME=~/dlh make run"
            ) from error
        except BackupError as error:
            raise StackError(str(error)) from error

    def broker_password(self) -> str:
        """Password of our own broker, made at first use."""
        return secret_read_or_make(self.root / "secrets" / "broker_password")

    def state_read(self) -> dict[str, Any]:
        """The record of the last or running stack; empty where there is none or it is torn."""
        try:
            body = json.loads(self.state_file.read_text())
        except (OSError, ValueError):
            return {}
        return body if isinstance(body, dict) else {}

    def state_write(self, state: dict[str, Any]) -> None:
        """Replace the record in one step. Raises `OSError` (disk full); the old record stays then."""
        draft = self.state_file.with_name(f".stack.{secrets.token_hex(4)}")
        try:
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w") as stream:
                json.dump(state, stream, indent=1)
            draft.replace(self.state_file)
        finally:
            draft.unlink(missing_ok=True)

    def lock(self) -> IO[str] | None:
        """Take the lock of this home; None where another stack holds it. Freed by the kernel when we die."""
        stream = (self.run / "stack.lock").open("a")
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            stream.close()
            return None
        return stream


def home_from_environment() -> StackHome:
    """The home of this process's environment."""
    return StackHome(env_home())


def node_name() -> str:
    """Name of this host's node: `DLH_NODE_NAME`, else the host name as a slug."""
    return node_slug(env_text("DLH_NODE_NAME") or socket.gethostname().split(".")[0])


def node_slug(name: str) -> str:
    """A name as nodes may have it."""
    return re.sub(r"[^a-z0-9-]+", "-", name.lower()).strip("-")[:60] or "node-1"
