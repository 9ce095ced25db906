"""The node process alone, without a sandbox: what ranks are told, and gangs over several nodes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.waiting import wait_for
from tests.worker.launch_configs import HOSTS, config
from worker.launch_config import LaunchConfig, LocalRank

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
from worker import launch, rendezvous
rendezvous.CONNECT_LIMIT_S = {CONNECT_LIMIT_S}
raise SystemExit(launch.main())
"""


def test_the_configuration_survives_its_file() -> None:
    assert LaunchConfig.from_json(config().to_json()) == config()


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
