"""Ranks of a measurement on this host: starts them, collects what they print. Loopback only."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
from typing import Any

from worker.launch import Gang
from worker.launch_config import LaunchConfig, LocalRank


def run_ranks(module: str, arguments: list[str], ranks: int, *, threads: int, device: str) -> list[dict[str, Any]]:
    """Run `python -m module` as so many joined ranks; the last JSON object each prints, by rank.

    Marks (`{"mark": ...}`) of the first rank are passed on at once. Raises `RuntimeError` if a rank ended without an
    answer; what it said is on our standard error.
    """
    pipes = [os.pipe() for _ in range(ranks)]
    bodies: list[bytes] = [b""] * ranks
    readers = [threading.Thread(target=_drain, args=(pipes[rank][0], bodies, rank)) for rank in range(ranks)]
    quiet = os.open(os.devnull, os.O_WRONLY)
    with tempfile.TemporaryDirectory(prefix="gang-") as requests:
        config = LaunchConfig(
            argv=[sys.executable, "-m", module, *arguments], workdir=os.getcwd(), requests=requests,  # noqa: PTH109
            status_fd=quiet, backend=os.environ.get("DLH_BACKEND", "horovod"), hosts=[("localhost", ranks)],
            hostname="localhost", address="127.0.0.1", interface="lo",
            ranks=[_rank(rank, pipes[rank][1], threads, device) for rank in range(ranks)],
        )  # fmt: skip
        gang = Gang(config)
        gang.start()
        for reader in readers:
            reader.start()
        code = gang.run()
    for reader in readers:
        reader.join()
    os.close(quiet)
    answers = [_last_object(body.decode(errors="replace")) for body in bodies]
    told = [answer for answer in answers if answer is not None]
    if len(told) < ranks:
        raise RuntimeError(f"a rank ended with code {code} and no answer")
    return told


def _rank(rank: int, writer: int, threads: int, device: str) -> LocalRank:
    environment = {
        "DLH_RANK": str(rank), "DLH_DEVICE": f"cuda:{rank}" if device.startswith("cuda") else "cpu",
        "DLH_BACKEND": os.environ.get("DLH_BACKEND", "horovod"), "DLH_THREADS": str(threads),
        "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads),
    }  # fmt: skip
    return LocalRank(rank=rank, local_rank=rank, stdout_fd=writer, stderr_fd=os.dup(2), environment=environment)


def _drain(reader: int, bodies: list[bytes], rank: int) -> None:
    with os.fdopen(reader, "rb") as pipe:
        for line in pipe:
            bodies[rank] += line
            if rank == 0 and line.startswith(b'{"mark"'):
                print(line.decode(errors="replace"), end="", flush=True)


def _last_object(text: str) -> dict[str, Any] | None:
    for line in reversed(text.splitlines()):
        try:
            body = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(body, dict):
            return body
    return None
