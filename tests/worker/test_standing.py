"""A rank that stands still on one of two nodes is named by its own node, whichever of them notices it first."""

from __future__ import annotations

import pytest

from tests.worker.pairs import NODES, TELL, Pair

pytestmark = pytest.mark.ranks
STALL_S, LATER_S = 8.0, 4.0
STANDS = f"""
import faulthandler, signal, torch
faulthandler.register(signal.SIGUSR1, all_threads=False)
from worker.runtime.collective import join
from worker.runtime.pulse import pulse
pulse.listen(lambda: tell("metric", step=0, values={{}}))
group = join(os.environ["DLH_BACKEND"], 0.1, torch.device("cpu"))
rank = int(os.environ["DLH_RANK"])
def dream():
    time.sleep(1000)
for step in range(1, 10**9):
    group.sum_start(torch.ones(8), "sum").wait()
    tell("progress", step=step, phase="train")
    if step == 5 and rank == STANDING:
        time.sleep({LATER_S})
        tell("metric", step=step, values={{}})  # its node notices it later than the other one
        dream()
"""


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
    assert other.data["failure"]["suffered"] and other.time_s > own.time_s
    assert other.data["outcome"] == ("failed" if backend == "horovod" else "lost")
