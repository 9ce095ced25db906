"""How Horovod is set, and that its thread wakes for a message."""

from __future__ import annotations

import subprocess
import sys

import horovod
import pytest

from tests.worker.runtime import samples
from tests.worker.runtime.ranks import rank_environments
from worker.runtime.collective import CYCLE_MS_LIMITS, WAKING, horovod_settings

TEN_MINUTES_MS = "600000"
SUMS = (
    "import os, torch\n"
    "from worker.runtime.collective import join\n"
    "group = join('horovod', 0.1, torch.device('cpu'))\n"
    "for number in range(3):\n"
    "    tensor = torch.ones(5)\n"
    "    group.sum_start(tensor, 'gradients').wait()\n"
    "    print(tensor.sum().item(), flush=True)\n"
    "os._exit(0)\n"  # leaving takes a cycle
)


def test_a_horovod_that_does_not_wake_looks_for_messages_in_a_share_of_the_step() -> None:
    assert horovod_settings("0.28.1", 0.125) == {"HOROVOD_CYCLE_TIME": "5.00"}


def test_a_horovod_that_wakes_is_told_to_and_does_not_look_itself() -> None:
    told = horovod_settings("0.28.1" + WAKING, 0.125)
    assert "HOROVOD_WAKE_ON_ENQUEUE" in told
    assert float(told["HOROVOD_CYCLE_TIME"]) > CYCLE_MS_LIMITS[1]


@pytest.mark.ranks
def test_a_message_does_not_wait_for_the_cycle_of_a_horovod_that_wakes() -> None:
    if not horovod.__version__.endswith(WAKING):
        pytest.skip("this Horovod was built without deploy/horovod/wake.patch")
    common = samples.BARE | {"PYTHONPATH": str(samples.PROJECT), "HOROVOD_CYCLE_TIME": TEN_MINUTES_MS}
    ranks = [
        subprocess.Popen([sys.executable, "-c", SUMS], env=common | told, stdout=subprocess.PIPE, text=True)
        for told in rank_environments(2, "horovod")
    ]
    try:
        assert [rank.communicate(timeout=120)[0].split() for rank in ranks] == [["10.0"] * 3] * 2
    finally:
        for rank in ranks:
            rank.kill()
