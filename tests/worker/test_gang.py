"""Real Horovod ranks, and torch's twin, inside the sandbox."""

from __future__ import annotations

import pytest

from tests.worker.conftest import JobFixture, wait_for

pytestmark = pytest.mark.ranks

TRAIN = """
import torch
if os.environ["DLH_BACKEND"] == "horovod":
    import horovod.torch as dist
    dist.init()
    rank, size = dist.rank(), dist.size()
    add = lambda value: float(dist.allreduce(torch.tensor([value]), op=dist.Sum))
else:
    import torch.distributed as dist
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    def add(value):
        tensor = torch.tensor([value])
        dist.all_reduce(tensor)
        return float(tensor)
for step in range(1, 6):
    tell("progress", step=step, phase="train")
    tell("metric", step=step, epoch=0.0, values={"sum": add(float(rank + 1)), "size": size})
"""
LEAVE = """
if os.environ["DLH_BACKEND"] == "torch":
    dist.destroy_process_group()  # else the interpreter may end while Gloo's threads run, which aborts
"""


@pytest.mark.parametrize(("backend", "level"), [("horovod", 3), ("torch", 3), ("horovod", 1)])
def test_two_ranks_add_up_inside_the_sandbox(job: JobFixture, backend: str, level: int, monkeypatch) -> None:
    monkeypatch.setenv("DLH_SANDBOX_MAX_LEVEL", str(level))
    exited = job.run(TRAIN + LEAVE, ranks=2, backend=backend)
    assert exited.data == {"outcome": "succeeded", "failure": None, "node": "testnode", "rescue": []}, job.log(
        0
    ) + job.log(1)
    wait_for(lambda: job.kinds()[-1:] == ["exited"])
    values = [(event.rank, event.data["values"]) for event in job.events() if event.kind == "metric"]
    assert sorted({rank for rank, _ in values}) == [0, 1]
    assert all(value == {"sum": 3.0, "size": 2} for _, value in values)


def test_a_horovod_rank_that_is_killed_loses_the_attempt_and_no_rank_is_left(job: JobFixture) -> None:
    job.program(TRAIN.replace("range(1, 6)", "range(1, 10**9)") + "    time.sleep(0.01)\n")
    job.start(job.plan(ranks=2))
    wait_for(lambda: "running" in job.kinds())
    victim = wait_for(lambda: next((one for one in job.processes() if one.environ()["DLH_RANK"] == "1"), None))
    victim.kill()
    exited = job.exited()
    assert (exited.data["outcome"], exited.data["failure"]["code"]) == ("lost", "rank_killed")
    assert job.processes() == []


def test_a_rank_that_fails_is_named_and_not_its_sibling(job: JobFixture) -> None:
    body = TRAIN + "if rank == 1: raise ValueError('the cause')\nwhile True: add(1.0)\n"
    exited = job.run(body, ranks=2)
    assert exited.data["outcome"] == "failed"
    lines = (job.paths.program / "train.py").read_text().splitlines()
    (line,) = [number for number, text in enumerate(lines, 1) if "raise ValueError" in text]
    assert exited.data["failure"]["message"] == f"Rank 1, train.py, line {line}: ValueError: the cause"
    assert job.processes() == []


def test_a_rank_that_never_comes_is_ended_by_the_watchdog(job: JobFixture) -> None:
    body = "if os.environ['DLH_RANK'] == '1': time.sleep(1000)\n" + TRAIN
    exited = job.run(body, ranks=2, limits={"stall_s": 6.0})
    assert exited.data["failure"]["code"] in {"stalled", "program_error"}
    assert job.processes() == []
