"""A slow link between two network namespaces, for kernels without netem: it holds each packet back, or loses it.

    python -m tests.worker.relay DELAY_S LOST_SHARE NAMESPACE ADDRESS NAMESPACE ADDRESS

Needs root. Makes the interface `slow0` in both, prints `ready`, `lost` with the first packet that it loses, and ends
with them when it is killed.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import heapq
import os
import random
import select
import struct
import subprocess
import sys
import time

_TUNSETIFF, _TUN, _NO_INFO, _NEWNET = 0x400454CA, 0x1, 0x1000, 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


def enter(fd: int) -> None:
    """Join a network namespace. Raises `OSError`."""
    if _libc.setns(fd, _NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


def tunnel_open(namespace: str, address: str, peer: str) -> int:
    """One end of the link; what is read from it was sent there."""
    own, there = os.open("/proc/self/ns/net", os.O_RDONLY), os.open(f"/run/netns/{namespace}", os.O_RDONLY)
    enter(there)
    try:
        fd = os.open("/dev/net/tun", os.O_RDWR)
        fcntl.ioctl(fd, _TUNSETIFF, struct.pack("16sH22x", b"slow0", _TUN | _NO_INFO))
        subprocess.run(["ip", "addr", "add", address, "peer", peer, "dev", "slow0"], check=True)
        subprocess.run(["ip", "link", "set", "slow0", "up"], check=True)
    finally:
        enter(own)
        os.close(own)
        os.close(there)
    return fd


def main() -> None:
    """Relay until killed."""
    delay_s, lost_share, (left, left_address, right, right_address) = *map(float, sys.argv[1:3]), sys.argv[3:7]
    ends = (tunnel_open(left, left_address, right_address), tunnel_open(right, right_address, left_address))
    other = {ends[0]: ends[1], ends[1]: ends[0]}
    print("ready", flush=True)
    held: list[tuple[float, int, int, bytes]] = []
    chance = random.Random(1)
    count, lost = 0, 0
    while True:
        wait_s = max(0.0, held[0][0] - time.monotonic()) if held else None
        for fd in select.select(ends, (), (), wait_s)[0]:
            count += 1
            packet = os.read(fd, 65536)
            if chance.random() >= lost_share:
                heapq.heappush(held, (time.monotonic() + delay_s, count, other[fd], packet))
                continue
            lost += 1
            if lost == 1:
                print("lost", flush=True)
        while held and held[0][0] <= time.monotonic():
            _, _, fd, packet = heapq.heappop(held)
            with contextlib.suppress(OSError):
                os.write(fd, packet)


if __name__ == "__main__":
    main()
