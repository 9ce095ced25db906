"""How fast a dataset comes to two nodes at once, against the same bytes over bare TCP on the same link; and again.

    make bench-preload [ARGS="--mib 192 --mbit 400 --rounds 3"]

A real portal serves a dataset to two nodes with caches of their own. Where root may make network namespaces, the nodes
are two of them at a bridge, and what the portal sends is shaped to `--mbit` in all; elsewhere, said loudly, both are
this machine on loopback and nothing is shaped. In each round bare TCP and preload take turns; a second preload of the
same data must fetch nothing. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import select
import shutil
import signal
import socketserver
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from harness.client.cli.node import program_json
from tests.e2e.stack import REPOSITORY, RunningStack

NODES = ("left", "right")
BAR = 0.8
LIMIT_S = 600.0
SPACES = {node: f"p{os.getpid() % 10_000_000}-{node}" for node in NODES}
BRIDGE = f"p{os.getpid() % 10_000_000}-0"


class Bytes(socketserver.BaseRequestHandler):
    """Sends as many bytes as it is asked for."""

    block = os.urandom(1 << 20)

    def handle(self) -> None:
        """One connection."""
        left = int(self.request.recv(32))
        while left > 0:
            self.request.sendall(self.block[: min(left, len(self.block))])
            left -= len(self.block)


class Server(socketserver.ThreadingTCPServer):
    """A bare TCP server."""

    allow_reuse_address = daemon_threads = True


def ip(*arguments: str, tool: str = "ip") -> None:
    """Run `ip` or `tc`. Raises `CalledProcessError`."""
    subprocess.run([tool, *arguments], check=True, capture_output=True)


@contextmanager
def link(mbit: int) -> Iterator[tuple[str, dict[str, list[str]]]]:
    """(address of the portal, what to put before a command to run it on a node)."""
    subnet = f"10.{100 + os.getpid() % 100}.{os.getpid() // 100 % 250}"
    try:
        for number, node in enumerate(NODES):
            ip("netns", "add", SPACES[node])
            if number == 0:
                ip("link", "add", BRIDGE, "type", "bridge")
                ip("addr", "add", f"{subnet}.1/24", "dev", BRIDGE)
                ip("link", "set", BRIDGE, "up")
            ip("link", "add", SPACES[node], "type", "veth", "peer", "name", "eth0", "netns", SPACES[node])
            ip("link", "set", SPACES[node], "master", BRIDGE, "up")
            ip("-n", SPACES[node], "addr", "add", f"{subnet}.{number + 2}/24", "dev", "eth0")
            ip("-n", SPACES[node], "link", "set", "eth0", "up")
        shape = ("tbf", "rate", f"{mbit}mbit", "burst", "256kb", "latency", "50ms")
        ip("qdisc", "add", "dev", BRIDGE, "root", *shape, tool="tc")
        yield f"{subnet}.1", {node: ["ip", "netns", "exec", SPACES[node]] for node in NODES}
    finally:
        for node in NODES:  # the link by itself: what goes with its namespace goes some time later
            subprocess.run(["ip", "link", "del", SPACES[node]], capture_output=True, check=False)
            subprocess.run(["ip", "netns", "del", SPACES[node]], capture_output=True, check=False)
        subprocess.run(["ip", "link", "del", BRIDGE], capture_output=True, check=False)


def can_shape() -> bool:
    """Whether this machine lets us make namespaces and shape a link."""
    if os.getuid() != 0 or not (shutil.which("ip") and shutil.which("tc")):
        return False
    try:
        with link(100):
            return True
    except subprocess.CalledProcessError:
        return False


def dataset_make(store: Path, size_bytes: int) -> str:
    """A packed dataset as the store holds it; its folder."""
    folder = f"datasets/{secrets.token_hex(32)}/packed"
    (store / folder).mkdir(parents=True)
    (store / folder / "profile.json").write_text("{}")
    with (store / folder / "table.parquet").open("wb") as stream:
        for _ in range(size_bytes >> 20):
            stream.write(os.urandom(1 << 20))
    return folder


def secret_get(stack: RunningStack, node: str) -> str:
    """Have a node join; its secret."""
    stack.post("/pool/nodes", {"name": node})
    token = stack.post(f"/pool/nodes/{node}/token", {})["token"]
    facts = program_json("worker.facts", stack.environment)
    body = {"token": token, **{name: facts[name] for name in ("version", "plan_version", "time_s")}}
    return str(stack.post("/pool/join", body)["secret"])


def wait_ready(process: subprocess.Popen[str], limit_s: float) -> None:
    """Until a side says that it is ready. Raises `RuntimeError` where it ends before that, or says nothing."""
    assert process.stdout
    can_read, *_ = select.select([process.stdout], [], [], max(0.0, limit_s))
    if not can_read or process.stdout.readline() != "ready\n":
        raise RuntimeError(f"a side of the bench {'ended' if can_read else 'hung'} before it was ready")


def both(folder: Path, enter: dict[str, list[str]], arguments: dict[str, list[str]]) -> dict[str, float]:
    """Both nodes do it at once: `{rate, fetched_bytes, cached_bytes}` of both together, bytes per second."""
    go = folder / f"go-{secrets.token_hex(4)}"
    running = [
        subprocess.Popen(
            [*enter[node], sys.executable, "-m", "tests.benchmarks.preload_node", *arguments[node], str(go)],
            cwd=REPOSITORY, stdout=subprocess.PIPE, text=True,
        )
        for node in NODES
    ]  # fmt: skip
    told: list[dict[str, Any]] = []
    try:
        until_s = time.monotonic() + LIMIT_S
        for process in running:
            wait_ready(process, until_s - time.monotonic())
        go.touch()
        for process in running:
            output, _ = process.communicate(timeout=LIMIT_S)
            assert process.returncode == 0
            told.append(json.loads(output))
    finally:
        for process in running:
            process.kill()
            process.wait()
    took_s = max(one["ended_s"] for one in told) - min(one["began_s"] for one in told)
    total = {key: sum(one[key] for one in told) for key in ("fetched_bytes", "cached_bytes")}
    return {**total, "rate": total["fetched_bytes"] / took_s}


def rounds(stack: RunningStack, host: str, enter: dict[str, list[str]], options: argparse.Namespace) -> dict[str, Any]:
    """Bare TCP, preload, and preload again, so many times."""
    size_bytes = options.mib << 20
    known = {node: secret_get(stack, node) for node in NODES}
    raw_rates, rates, again_bytes = [], [], 0.0
    with Server((host, 0), Bytes) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        plain = ["raw", host, str(server.server_address[1]), str(size_bytes)]
        for number in range(options.rounds):
            source = dataset_make(stack.home / "store", size_bytes)
            fetch = {
                node: ["preload", stack.url, known[node], source, str(stack.home / f"cache-{node}")] for node in NODES
            }
            raw_rates.append(both(stack.home, enter, dict.fromkeys(NODES, plain))["rate"])
            first, second = (both(stack.home, enter, fetch) for _ in range(2))
            assert first["fetched_bytes"] == 2 * (size_bytes + 2)
            rates.append(first["rate"])
            again_bytes += second["fetched_bytes"]
            bare, ours = raw_rates[-1] / 2**20, rates[-1] / 2**20
            print(f"round {number + 1}: bare TCP {bare:.1f} MiB/s, preload {ours:.1f} MiB/s", flush=True)
        server.shutdown()
    share = statistics.median(rate / raw for rate, raw in zip(rates, raw_rates, strict=True))
    return {
        "raw_bytes_per_s": statistics.median(raw_rates), "preload_bytes_per_s": statistics.median(rates),
        "share_of_link": share, "second_job_bytes": again_bytes,
    }  # fmt: skip


def run(options: argparse.Namespace, host: str, enter: dict[str, list[str]], folder: Path) -> dict[str, Any]:
    """With a portal at `host`."""
    stack = RunningStack(folder / "home", DLH_HOST=host, DLH_NODE_REDIS_URL=f"redis://{host}:6379/0")
    try:
        stack.wait_running()
        return rounds(stack, host, enter, options)
    finally:
        stack.stop(signal.SIGTERM)
        stack.kill()


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=int, default=192, help="size of the dataset")
    parser.add_argument("--mbit", type=int, default=400, help="rate of the shaped link")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    shaped = can_shape()
    with tempfile.TemporaryDirectory() as folder:
        if shaped:
            with link(options.mbit) as (host, enter):
                told = run(options, host, enter, Path(folder))
        else:
            print("NO NAMESPACES: nothing is shaped, both nodes are this machine on loopback", flush=True)
            told = run(options, "127.0.0.1", {node: [] for node in NODES}, Path(folder))
    body = {
        "benchmark": "preload", **told, "link": f"{options.mbit} Mbit/s, shaped" if shaped else "loopback, not shaped",
        "mib": options.mib, "nodes": 2, "bar": BAR,
        "kept": told["share_of_link"] >= BAR and told["second_job_bytes"] == 0,
    }  # fmt: skip
    print(json.dumps(body))


if __name__ == "__main__":
    main()
