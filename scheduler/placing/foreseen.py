"""Where jobs that wait are going to start, as far as anybody can tell: their data can go there ahead of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from scheduler.types import Decision, JobView, NodeView, Option, PoolView, count_of

FEW = 2
"""A job that could run on so many nodes at most is foreseen on all of them, whatever the plan says."""


def foreseen(
    jobs: Sequence[JobView], pool: PoolView, decision: Decision, *, starting: Collection[str] = ()
) -> dict[str, tuple[str, ...]]:
    """Waiting job -> nodes, the job that is served first first. `starting`: placed ones that have their devices now."""
    views = {job.job_id: job for job in jobs}
    found = {start.job_id: start.nodes for start in decision.placements if start.job_id not in starting}
    possible = _Possible(pool)
    for job_id in decision.waits:
        planned = decision.planned_on.get(job_id)
        nodes = (planned,) if planned else possible.nodes(views[job_id]) if job_id in views else ()
        if nodes:
            found[job_id] = nodes
    return found


class _Possible:
    """Which nodes could run a job at all; jobs that ask for the same are looked up once."""

    def __init__(self, pool: PoolView) -> None:
        self._pool = pool
        self._known: dict[tuple[int, tuple[Option, ...]], tuple[str, ...]] = {}

    def nodes(self, job: JobView) -> tuple[str, ...]:
        """All of them, nothing where they are more than `FEW`."""
        key = (job.minimum_sandbox_level, job.options)
        if key not in self._known:
            self._known[key] = self._look(job)
        return self._known[key]

    def _look(self, job: JobView) -> tuple[str, ...]:
        names: list[str] = []
        for node in self._pool.nodes:
            if any(self._could(node, job, option) for option in job.options):
                names.append(node.name)
            if len(names) > FEW:
                return ()
        return tuple(names)

    def _could(self, node: NodeView, job: JobView, option: Option) -> bool:
        if not node.takes_work or node.sandbox_level < job.minimum_sandbox_level:
            return False
        here = count_of(node.counts, option)
        if self._pool.spans_nodes and option.may_span(job.minimum_sandbox_level, self._pool.span_level):
            return here > 0
        return here >= option.count and node.memory_bytes >= option.memory_bytes
