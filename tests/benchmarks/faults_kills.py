"""Fifty random kills in a row on one stack; see `bench_faults` and `tests/e2e/kills.py`."""

from __future__ import annotations

import os

from tests.benchmarks.fault_lab import Fault, Lab, Row
from tests.e2e.kills import Storm
from tests.e2e.stack import RunningStack

KILLS = int(os.environ.get("DLH_KILLS", "50"))
SEED = int(os.environ.get("DLH_KILLS_SEED", "4"))


def random_kills(lab: Lab) -> Row:
    """Ranks, launchers, supervisors, agent, control, portal and broker, at random moments of small jobs."""
    stack = RunningStack(lab.folder / "storm")  # with the usual limit without progress: kills make starts slow
    try:
        told = Storm(stack.wait_running(), lab.upload(stack), SEED).run(KILLS)
        stack.stop()
    finally:
        stack.kill()
    of = ", ".join(f"{count} {kind}" for kind, count in sorted(told.kills.items()))
    return Row(
        fault=f"{told.kills.total()} random kills in a row ({of}; seed {SEED})",
        outcome=f"{told.jobs} jobs succeeded in {told.attempts} attempts, none twice at once; nothing left",
        good=told.kills.total() == KILLS and told.attempts == told.jobs + told.restarts + told.pauses,
        figures={"kills_settled_s": told.settled_s},
    )


FAULTS: tuple[Fault, ...] = (random_kills,)
