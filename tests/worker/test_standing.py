"""A rank that stands still on one of two nodes is named by its own node, whichever of them notices it first; where the
network between them is cut, nobody is blamed."""

from __future__ import annotations

import pytest

from tests.waiting import wait_for
from tests.worker.pairs import NODES, TELL, Pair, cut

pytestmark = pytest.mark.ranks
STALL_S, LATER_S = 8.0, 4.0
STANDS = f"""
import faulthandler, signal, threading
ready = threading.Event()
def tick():
    while not ready.wait(1.0):
        tell("metric", step=0, values={{}})
threading.Thread(target=tick, daemon=True).start()
import torch
faulthandler.register(signal.SIGUSR1, all_threads=False)
from worker.runtime.collective import join
from worker.runtime.pulse import pulse
pulse.listen(lambda **more: tell("metric", step=0, values={{}}, **more))
group = join(os.environ["DLH_BACKEND"], 0.1, torch.device("cpu"))
ready.set()
rank = int(os.environ["DLH_RANK"])
def dream():
    time.sleep(1000)
for step in range(1, 10**9):
    group.sum_start(torch.ones(8), "sum").wait()
    tell("progress", step=step, phase="train")
    time.sleep(0.02)
    if step == 5 and rank == STANDING:
        time.sleep({LATER_S})
        tell("metric", step=step, values={{}})  # its node notices it later than the other one
        dream()
"""
DEADLOCK = STANDS.replace("STANDING", "-1").replace(
    "    time.sleep(0.02)\n",
    "    if step == 5:\n        torch.distributed.recv(torch.zeros(1), src=1 - rank)\n    time.sleep(0.02)\n",
)
"""Both want to hear from the other one first."""
CROSSED = STANDS.replace("STANDING", "-1").replace('"sum")', 'f"sum {rank if step == 5 else -1}")')
"""Each adds up what the other one never does."""
WAYS = {"torch": (DEADLOCK, "sync"), "horovod": (CROSSED, "async")}
"""Backend -> a program, and a mode in which nodes ask each other for an answer."""


@pytest.mark.parametrize("backend", ["horovod", "torch"])
@pytest.mark.parametrize("standing", [0, 1])
def test_the_node_of_the_rank_that_stands_still_has_the_first_word(loopback: Pair, backend: str, standing: int) -> None:
    body = STANDS.replace("STANDING", str(standing))
    loopback.start(body, backend=backend, stall_s=STALL_S)
    own, other = loopback.ended(NODES[standing]), loopback.ended(NODES[1 - standing])
    line = (TELL + body).splitlines().index("    time.sleep(1000)") + 1
    failure = own.data["failure"]
    assert (own.data["outcome"], failure["code"]) == ("failed", "stalled"), loopback.logs()
    assert f"Rank {standing} stands in train.py, line {line} (dream)" in failure["message"]
    assert "suffered" not in failure
    assert other.data["failure"]["suffered"]
    # As soon as one ends its ranks, those of the other end as well: which record is written first is left to chance.
    assert other.time_s > own.time_s - LATER_S / 2, "it did not leave the first word to the other"
    assert other.data["outcome"] == "failed", "the network is there"


@pytest.mark.parametrize("backend", WAYS)
def test_ranks_that_wait_for_each_other_are_told_from_ones_that_are_cut_off(loopback: Pair, backend: str) -> None:
    body, mode = WAYS[backend]
    loopback.start(body, backend=backend, mode=mode, stall_s=STALL_S)
    for end in [loopback.ended(node).data for node in NODES]:
        failure = end["failure"]
        assert (end["outcome"], failure["code"], failure["suffered"]) == ("failed", "stalled", True), loopback.logs()
        assert "no network is cut" in failure["message"] and "train.py" in failure["traceback"]


def test_ranks_by_torch_that_are_cut_off_from_each_other_are_both_lost_and_neither_is_blamed(namespaces: Pair) -> None:
    namespaces.start(STANDS.replace("STANDING", "-1"), backend="torch", stall_s=STALL_S)
    for node in NODES:
        wait_for(lambda node=node: "progress" in namespaces.events(node), 180.0)
    with cut("right"):
        ends = [namespaces.ended(node).data for node in NODES]
    told = [(end["outcome"], end["failure"]["code"], end["failure"].get("suffered")) for end in ends]
    assert told == [("lost", "rank_killed", True)] * 2, namespaces.logs()
