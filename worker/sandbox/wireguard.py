"""WireGuard for the ranks of one attempt: a network of theirs that is encrypted, and authenticates each node.

By the kernel where it can, else by `wireguard-go`, a process outside of the namespace that holds the UDP socket of the
host and the interface inside. It ends when the namespace does, and with whoever started it. Each node makes a key pair
for the attempt; the private key is never in a file. See docs/decisions/035.
"""

from __future__ import annotations

import os
import re
import secrets
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import psutil

from worker.sandbox.model import Encryption, SandboxError
from worker.sandbox.namespace import Space, run, tool

PORTS = range(21820, 21920)
"""UDP ports of the hosts: each attempt has one of them, below those that the kernel gives away."""
PACKAGES = "wireguard-go wireguard-tools"
_KEY = re.compile(r"[A-Za-z0-9+/]{43}=")
_ADDED_BYTES = {4: 60, 6: 80}
"""IP version of the hosts -> what WireGuard, UDP and IP add to each packet."""
_MTU_MOST = 8920
_START_S, _LOOK_S = 10.0, 0.005
_START = """
[ "$PPID" = "$1" ] || exit 1  # who was killed before this process could be told to die with it
mount -t tmpfs dlh /var/run || exit 1  # for the socket that it is configured by, which so ends with it
exec "$2" --inh-caps -all --bounding-set -all,+net_admin --no-new-privs "$3" --foreground "$4"
"""
"""It takes packets that ranks made, so it keeps the one capability that it needs."""


@dataclass(frozen=True, kw_only=True)
class Peer:
    """Another node of the attempt."""

    key: str
    """Its public key."""
    address: str
    """Of its host."""
    inside: str
    """Of its ranks: nothing else comes from it."""


@dataclass(frozen=True, kw_only=True)
class Tunnel:
    """This node's end, which knows no other node yet."""

    encryption: Encryption
    port: int
    key: str
    """Its public key."""
    _set: Callable[[str, str], None]
    """How a part of its configuration is taken in: (`setconf` or `addconf`, text)."""
    _process: subprocess.Popen[bytes] | None = None

    def add(self, peers: Sequence[Peer]) -> None:
        """Let these nodes in; those that are known already stay. Raises `SandboxError`."""
        self._set("addconf", "".join(_section(peer, self.port) for peer in peers))

    def check(self) -> None:
        """Raises `SandboxError` where the process that holds it has ended: the ranks reach nobody any more."""
        code = self._process.poll() if self._process is not None else None
        if code is not None:
            raise SandboxError(f"wireguard-go, which held the network of the ranks, ended with code {code}")

    def close(self) -> None:
        """End what is not in the namespace."""
        if self._process is not None:
            end(self._process)


def _section(peer: Peer, port: int) -> str:
    if not _KEY.fullmatch(peer.key):
        raise SandboxError(f"the node at {peer.address} sent no WireGuard key")
    host = f"[{peer.address}]" if ":" in peer.address else peer.address
    return f"[Peer]\nPublicKey={peer.key}\nEndpoint={host}:{port}\nAllowedIPs={peer.inside}/32\n"


def make(space: Space, interface: str, *, port: int, local: str, device: str) -> Tunnel:
    """An interface of this name in the namespace. Raises `SandboxError` with why neither way works.

    `local`, `device`: address and interface of the host towards the other nodes. `port`: of the host, by UDP.
    """
    wg = tool("wg", "wireguard-tools")
    mtu = str(_mtu(local, device))
    try:
        run([tool("ip"), "link", "add", interface, "mtu", mtu, "netns", space.path, "type", "wireguard"])
    except SandboxError as error:
        return _by_program(space, interface, wg, mtu, port, str(error))
    return _configured(Encryption.KERNEL, port, wg, lambda argv, text: run(space.entered(argv), text), interface)


def by_kernel(space: Space, interface: str) -> None:
    """Try whether this kernel can. Raises `SandboxError` with why not."""
    tool("wg", "wireguard-tools")
    try:
        run([tool("ip"), "link", "add", interface, "netns", space.path, "type", "wireguard"])
    except SandboxError as error:
        raise SandboxError(f"this kernel has no WireGuard ({_said(str(error))})") from error


def _mtu(local: str, device: str) -> int:
    found = psutil.net_if_stats().get(device)
    if found is None:
        raise SandboxError(f"a network for the ranks cannot be made: there is no interface {device}")
    return min(found.mtu - _ADDED_BYTES[6 if ":" in local else 4], _MTU_MOST)


def _by_program(space: Space, interface: str, wg: str, mtu: str, port: int, why: str) -> Tunnel:
    """`why`: what the kernel said."""
    try:
        program = tool("wireguard-go", PACKAGES)
    except SandboxError as error:
        raise SandboxError(f"this kernel has no WireGuard ({_said(why)}), and {error}") from error
    name = f"dlh{secrets.token_hex(5)}"
    with tempfile.TemporaryFile() as said:
        process = start(program, name, said)
        try:
            _wait(process, name, said)
            inside = [tool("nsenter"), f"--mount=/proc/{process.pid}/ns/mnt"]
            made = _configured(Encryption.PROGRAM, port, wg, lambda argv, text: run([*inside, *argv], text), name)
            run([tool("ip"), "link", "set", name, "mtu", mtu])
            run([tool("ip"), "link", "set", name, "netns", space.path, "name", interface])
        except BaseException:
            end(process)
            raise
    return Tunnel(encryption=made.encryption, port=port, key=made.key, _set=made._set, _process=process)


def start(program: str, name: str, said: IO[bytes]) -> subprocess.Popen[bytes]:
    """The process that makes and holds an interface of this name. It dies with the thread that calls this."""
    setpriv = tool("setpriv")
    dying = [setpriv, "--pdeathsig", "KILL", tool("unshare"), "--mount"]
    return subprocess.Popen(
        [*dying, "/bin/sh", "-c", _START, "tunnel", str(os.getpid()), setpriv, program, name],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=said, start_new_session=True,
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LOG_LEVEL": "error"},
    )  # fmt: skip


def _wait(process: subprocess.Popen[bytes], name: str, said: IO[bytes]) -> None:
    """Until it can be configured."""
    # A link on the way, as /var/run often is, would lead out of its folders into ours.
    socket = Path(f"/proc/{process.pid}/root{Path('/var/run').resolve()}/wireguard/{name}.sock")
    give_up_s = time.monotonic() + _START_S
    while not socket.exists():
        if process.poll() is not None or time.monotonic() > give_up_s:
            said.seek(0)
            text = re.sub(r"[│┌┐└┘─]|\s+", " ", said.read().decode(errors="replace")).strip()
            raise SandboxError(f"wireguard-go does not start: {text[-300:] or 'it says nothing'}")
        time.sleep(_LOOK_S)


def end(process: subprocess.Popen[bytes]) -> None:
    """At once."""
    with suppress(ProcessLookupError):
        process.kill()
    process.wait()


def _configured(
    encryption: Encryption, port: int, wg: str, inside: Callable[[list[str], str], str], name: str
) -> Tunnel:
    """With a key pair of its own. `inside`: runs a command line where the interface of this name is configured."""

    def take(verb: str, text: str) -> None:
        try:
            inside([wg, verb, name, "/dev/stdin"], text)
        except SandboxError as error:
            raise SandboxError(f"{error} (UDP port {port})") from error

    private = run([wg, "genkey"]).strip()
    take("setconf", f"[Interface]\nPrivateKey={private}\nListenPort={port}\n")
    return Tunnel(encryption=encryption, port=port, key=run([wg, "pubkey"], private).strip(), _set=take)


def _said(error: str) -> str:
    """What a tool said, without our own words before it."""
    return error.rpartition(": ")[2] or error
