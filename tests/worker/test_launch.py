"""The node process alone, without a sandbox: what ranks are told, and gangs over several nodes."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.waiting import wait_for
from worker import launch
from worker.launch import LaunchConfig, LocalRank, await_port, rank_environments

HOSTS = [("dlh-a", 2), ("dlh-b", 1)]
CONNECT_LIMIT_S = 4.0
SUM = """
import os, sys, time
time.sleep(float(os.environ.get("READS_S", 0)))
if "HOROVOD_RANK" in os.environ:
    import torch, horovod.torch as hvd
    hvd.init()
    total = float(hvd.allreduce(torch.tensor([hvd.rank() + 1.0]), op=hvd.Sum))
else:
    import torch, torch.distributed as dist
    dist.init_process_group("gloo")
    tensor = torch.tensor([dist.get_rank() + 1.0])
    dist.all_reduce(tensor)
    total = float(tensor)
    dist.barrier()
    dist.destroy_process_group()
os.write(1, f"sum {total}\\n".encode())
"""
IMPATIENT = f"""
from worker import launch
launch.CONNECT_LIMIT_S = {CONNECT_LIMIT_S}
raise SystemExit(launch.main())
"""


def config(hostname: str = "dlh-a", **changes) -> LaunchConfig:
    first = hostname == "dlh-a"
    ranks = [LocalRank(rank=r, local_rank=r, stdout_fd=1, stderr_fd=2, environment={}) for r in (0, 1)]
    if not first:
        ranks = [LocalRank(rank=2, local_rank=0, stdout_fd=1, stderr_fd=2, environment={})]
    defaults = {
        "argv": [sys.executable, "-c", "pass"], "workdir": "/", "requests": "/nowhere", "status_fd": 3,
        "backend": "horovod", "hosts": HOSTS, "hostname": hostname, "address": "127.0.0.1", "interface": "lo",
        "ranks": ranks,
    }  # fmt: skip
    return LaunchConfig(**{**defaults, **changes})


def test_the_configuration_survives_its_file() -> None:
    assert LaunchConfig.from_json(config().to_json()) == config()


def test_horovod_ranks_are_told_their_place_in_the_world() -> None:
    told = rank_environments(config("dlh-b"), 1234)[2]
    names = ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE", "GLOO_RENDEZVOUS_PORT")
    assert [told[f"HOROVOD_{name}"] for name in names] == ["2", "3", "0", "1", "1", "2", "1234"]
    assert told["HOROVOD_CONTROLLER"] == told["HOROVOD_CPU_OPERATIONS"] == "gloo"


def test_one_rank_is_told_nothing_of_others() -> None:
    lone = config(hosts=[("dlh-a", 1)], ranks=config().ranks[:1])
    assert rank_environments(lone, 0) == {0: {}}


def start(hostname: str, folder: Path, backend: str, reads_s: float = 0.0) -> subprocess.Popen[str]:
    """`reads_s`: how long the ranks need for their data."""
    writer = os.open(folder / f"{hostname}.status", os.O_CREAT | os.O_WRONLY)
    out = (folder / f"{hostname}.out").open("w")
    ranks = [
        replace(rank, stdout_fd=fd, stderr_fd=os.dup(fd), environment={"READS_S": str(reads_s)})
        for rank in config(hostname).ranks
        for fd in [os.dup(out.fileno())]
    ]
    body = config(
        hostname, argv=[sys.executable, "-c", SUM], workdir=str(folder), requests=str(folder), status_fd=writer,
        backend=backend, port_file=str(folder / "port"), ranks=ranks,
    )  # fmt: skip
    file = folder / f"{hostname}.json"
    file.write_text(body.to_json())
    fds = (writer, *(fd for rank in ranks for fd in (rank.stdout_fd, rank.stderr_fd)))
    process = subprocess.Popen([sys.executable, "-c", IMPATIENT, str(file)], pass_fds=fds, text=True)
    for fd in fds:
        os.close(fd)
    return process


@pytest.mark.ranks
@pytest.mark.parametrize(
    ("backend", "reads_s"),
    [("horovod", 0.0), ("torch", 0.0), ("torch", 2 * CONNECT_LIMIT_S)],
    ids=["horovod", "torch", "torch, slow to read"],
)
def test_nodes_meet_at_the_first_node_s_rendezvous(tmp_path: Path, backend: str, reads_s: float, monkeypatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    nodes = [start("dlh-b", tmp_path, backend), start("dlh-a", tmp_path, backend, reads_s)]
    try:
        wait_for(lambda: "port" in (tmp_path / "dlh-a.status").read_text())
        told = json.loads((tmp_path / "dlh-a.status").read_text().splitlines()[0])
        (tmp_path / "port").write_text(str(told["port"]))  # as the supervisors do
        assert [node.wait(timeout=180) for node in nodes] == [0, 0], (tmp_path / "dlh-a.out").read_text()
    finally:
        for node in nodes:
            node.kill()
    said = "".join((tmp_path / f"{name}.out").read_text() for name, _ in HOSTS)
    assert said.count("sum 6.0") == 3


def test_a_first_node_that_cannot_be_reached_is_named_with_what_to_look_at(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(launch, "CONNECT_LIMIT_S", 0.2)
    with socket.socket() as taken:  # and nobody listens
        taken.bind(("127.0.0.1", 0))
        (tmp_path / "port").write_text(str(taken.getsockname()[1]))
        with pytest.raises(TimeoutError, match=r"127.0.0.1 cannot be reached .* Open the port"):
            await_port(config("dlh-b", backend="torch", hint="Open the port."), str(tmp_path / "port"))


def test_the_exit_code_is_that_of_the_rank_that_failed_first(tmp_path: Path) -> None:
    body = "import os, sys, time\nif os.environ['DLH_RANK'] == '1': sys.exit(7)\ntime.sleep(1000)"
    reader, writer = os.pipe()
    ranks = [
        LocalRank(rank=r, local_rank=r, stdout_fd=os.dup(1), stderr_fd=os.dup(2), environment={"DLH_RANK": str(r)})
        for r in (0, 1)
    ]
    gang = config(
        argv=[sys.executable, "-c", body], workdir=str(tmp_path), requests=str(tmp_path), status_fd=writer,
        hosts=[("dlh-a", 2)], ranks=ranks, backend="torch",
    )  # fmt: skip
    (tmp_path / "config.json").write_text(gang.to_json())
    fds = (writer, *(fd for rank in ranks for fd in (rank.stdout_fd, rank.stderr_fd)))
    done = subprocess.run(
        [sys.executable, "-m", "worker.launch", str(tmp_path / "config.json")], pass_fds=fds, check=False
    )
    assert done.returncode == 7
    told = [json.loads(line) for line in os.read(reader, 65536).splitlines()]
    assert [(body["rank"], body["own"]) for body in told if "code" in body] == [(1, True), (0, False)]
