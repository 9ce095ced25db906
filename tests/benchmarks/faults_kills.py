"""Fifty random kills in a row on one stack; see `bench_faults` and `tests/e2e/kills.py`."""

from __future__ import annotations

import os
from collections import Counter

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
    ends = f"{told.jobs.total()} jobs ({by_kind(told.jobs)}) succeeded in {told.attempts} attempts"
    return Row(
        fault=f"{told.kills.total()} random kills in a row ({by_kind(told.kills)}; seed {SEED})",
        outcome=f"{ends}, none twice at once; nothing left",
        good=told.kills.total() == KILLS and told.attempts == told.jobs.total() + told.restarts + told.pauses,
        figures={"kills_settled_s": told.settled_s},
    )


def by_kind(seen: Counter[str]) -> str:
    """Numbers with what they count."""
    return ", ".join(f"{count} {kind}" for kind, count in sorted(seen.items()))


FAULTS: tuple[Fault, ...] = (random_kills,)
