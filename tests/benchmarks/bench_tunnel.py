"""What the networks of ranks on several nodes cost: none, a VXLAN, WireGuard as this machine has it.

    make bench-tunnel [ARGS="--rounds 5 --stream-s 3"]

Two namespaces at a bridge of this machine, the ways in turn; one TCP stream at a time. Needs root. CPU time is that of
the processes that hold tunnels, at both ends: what the kernel does for the others is not counted. The last
line is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.worker.ends import End, Ends
from tests.worker.pairs import SPACES, bridged, ip
from worker.sandbox import Overlay, overlay
from worker.sandbox.overlay import inside_address

PORTS = {"bare": None, "vxlan": 0, "wireguard": 21830}
"""Way -> port of WireGuard."""
TAKE = """
import json, socket, sys, time
with socket.create_server(("", 40000)) as server:
    print("listens", flush=True)
    stream, buffer, size = server.accept()[0], bytearray(1 << 20), 0
    began_s = time.perf_counter()
    while took := stream.recv_into(buffer):
        size += took
    print(json.dumps({"bytes": size, "s": time.perf_counter() - began_s}), flush=True)
sys.stdin.readline()
"""
GIVE = """
import socket, sys, time
block = memoryview(bytes(1 << 20))
with socket.create_connection((sys.argv[1], 40000), timeout=30.0) as stream:
    end_s = time.perf_counter() + float(sys.argv[2])
    while time.perf_counter() < end_s:
        stream.sendall(block)
print("sent", flush=True)
sys.stdin.readline()
"""


def make_ms(port: int) -> float:
    """To make one end."""
    trial = Overlay(number=5, local="127.0.0.1", device="lo", inside=inside_address(0), peers=("127.0.0.2",), port=port)
    began_s = time.perf_counter()
    network = overlay.make(trial)
    took_s = time.perf_counter() - began_s
    network.close()
    return took_s * 1e3


def tunnel_s(ends: Sequence[End]) -> float:
    """CPU seconds that the processes of their tunnels have used."""
    below = [one for end in ends for one in psutil.Process(end.process.pid).children(recursive=True)]
    return sum(sum(one.cpu_times()[:2]) for one in below if one.name() == "wireguard-go")


def stream(addresses: tuple[str, str], port: int | None, stream_s: float) -> dict[str, float]:
    """One stream from the first node to the second."""
    ends = Ends(addresses)
    try:
        if port is None:
            there = End(ends.start(1, TAKE))
            here = End(ends.start(0, GIVE, addresses[1], str(stream_s)))
        else:
            there, here = ends.pair(5, TAKE, GIVE, inside_address(1), str(stream_s), port=port)
        told = json.loads(there.line())
        cpu_s = tunnel_s((here, there))
    finally:
        ends.close()
    return {"mib_per_s": told["bytes"] / told["s"] / (1 << 20), "cpu_s_per_gib": cpu_s / (told["bytes"] / (1 << 30))}


def skipped(why: str) -> int:
    """Tell that nothing was measured."""
    print(f"not measured: {why}")
    print(json.dumps({"benchmark": "tunnel", "skipped": ["tunnel"]}))
    return 1


def main() -> int:
    """Run and print; 0 if it could be measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--stream-s", type=float, default=3.0)
    options = parser.parse_args()
    if problem := overlay.problem() or overlay.encryption_problem():
        return skipped(problem)
    found: dict[str, list[dict[str, float]]] = {way: [] for way in PORTS}
    if not ip("netns", "add", SPACES["left"]):
        return skipped("no namespaces by name here")
    with bridged() as (_, addresses):
        for number in range(options.rounds):
            for way, port in PORTS.items():
                row = stream(addresses, port, options.stream_s)
                row |= {} if port is None else {"make_ms": make_ms(port)}
                found[way].append(row)
                print(f"round {number + 1} {way}: {', '.join(f'{key} {value:.1f}' for key, value in row.items())}")
    figures = {
        way: {key: round(statistics.median(row[key] for row in rows), 1) for key in rows[0]}
        for way, rows in found.items()
    }
    kernel = not overlay.encryption_problem(by_kernel=True)
    load = round(os.getloadavg()[0], 1)
    print(json.dumps({"benchmark": "tunnel", "rounds": options.rounds, "kernel": kernel, "load": load, **figures}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
