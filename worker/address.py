"""Where this node is on the network: its address for other nodes, the interface that has it, its links."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket
from typing import Any
from urllib.parse import urlsplit

import psutil

from worker.home import redis_url

DEFAULT_REDIS_PORT = 6379


def own_address() -> str:
    """`DLH_NODE_ADDRESS`, else the address this host uses towards the broker; empty where there is no way to it."""
    given = os.environ.get("DLH_NODE_ADDRESS", "")
    if given:
        return given
    parts = urlsplit(redis_url())
    return address_towards(parts.hostname or "", parts.port or DEFAULT_REDIS_PORT)


def address_towards(host: str, port: int) -> str:
    """Own IPv4 address on the way to `host`; no packet is sent. Empty where there is no way."""
    if not host:
        return ""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((host, port))
            return str(probe.getsockname()[0])
    except OSError:
        return ""


def is_loopback(address: str) -> bool:
    """Whether it means this host alone."""
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(address).is_loopback
    return False


def interface_of(address: str) -> str:
    """Name of the interface that has the address; `lo` for all of 127.0.0.0/8. Raises `ValueError` for others."""
    for name, entries in psutil.net_if_addrs().items():
        if any(entry.address == address for entry in entries):
            return name
    if is_loopback(address):
        return "lo"
    raise ValueError(f"no network interface of this host has the address {address}")


def interface_addresses(name: str) -> list[str]:
    """The addresses of an interface, of IPv4 and IPv6."""
    entries = psutil.net_if_addrs().get(name, [])
    return [entry.address for entry in entries if entry.family in (socket.AF_INET, socket.AF_INET6)]


def links() -> list[dict[str, Any]]:
    """Interfaces that are up: `name`, `address`, `speed_mbit` (0: not told)."""
    states = psutil.net_if_stats()
    return [
        {"name": name, "address": entry.address, "speed_mbit": states[name].speed}
        for name, entries in sorted(psutil.net_if_addrs().items())
        for entry in entries
        if entry.family == socket.AF_INET and name in states and states[name].isup
    ]
