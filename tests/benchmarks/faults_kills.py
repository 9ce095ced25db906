"""Fifty random kills in a row on one stack, for each database; see `bench_faults` and `tests/e2e/kills.py`."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable

from tests.benchmarks.fault_lab import Fault, Lab, Row
from tests.e2e.kills import Storm
from tests.e2e.stack import RunningStack
from tests.postgres import running as postgres

KILLS = int(os.environ.get("DLH_KILLS", "50"))
SEED = int(os.environ.get("DLH_KILLS_SEED", "4"))


def random_kills(lab: Lab) -> Row:
    """Ranks, launchers, supervisors, agent, control, portal and broker, at random moments of small jobs."""
    return stormed(lab, "on SQLite", RunningStack(lab.folder / "storm"))


def random_kills_on_postgresql(lab: Lab) -> Row:
    """The same, and the whole server of the database beside them."""
    with postgres() as server:

        def server_kill() -> None:
            server.end(signal.SIGQUIT)
            server.start()

        stack = RunningStack(lab.folder / "storm-postgresql", DLH_DATABASE_URL=server.url)
        return stormed(lab, "on PostgreSQL", stack, server_kill)


def stormed(lab: Lab, where: str, stack: RunningStack, database_kill: Callable[[], object] | None = None) -> Row:
    """One series on a stack that has just been begun, with the usual limit without progress: kills make starts slow."""
    try:
        told = Storm(stack.wait_running(), lab.upload(stack), SEED, database_kill=database_kill).run(KILLS)
        stack.stop()
    finally:
        stack.kill()
    ends = f"{told.jobs.total()} jobs ({by_kind(told.jobs)}) succeeded in {told.attempts} attempts"
    return Row(
        fault=f"{told.kills.total()} random kills in a row {where} ({by_kind(told.kills)}; seed {SEED})",
        outcome=f"{ends}, none twice at once; nothing left; at rest after {told.settled_s:.0f} s",
        good=told.kills.total() == KILLS and told.attempts == told.jobs.total() + told.lost + told.pauses,
        figures={"kills_settled_s": told.settled_s},
    )


def by_kind(seen: Counter[str]) -> str:
    """Numbers with what they count."""
    return ", ".join(f"{count} {kind}" for kind, count in sorted(seen.items()))


FAULTS: tuple[Fault, ...] = (random_kills, random_kills_on_postgresql)
