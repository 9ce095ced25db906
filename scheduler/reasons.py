"""Reasons for all waiting jobs of one decision: alike jobs share the work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from scheduler import obstacles
from scheduler.obstacles import NEVER, NodeNow
from scheduler.obstacles import device_words as device_words
from scheduler.types import JobView, NodeView, Option, PoolView, Quotas, WaitCode, WaitReason


class Reasons:
    """What the pool looks like once a decision is carried out."""

    def __init__(
        self,
        jobs: Sequence[JobView],
        pool: PoolView,
        quotas: Quotas,
        taken: Mapping[str, tuple[str, float]],
        memory_bytes: Mapping[str, int],
    ) -> None:
        """`taken`: device -> (job that has it, when it ends); `memory_bytes`: node -> what is asked for there."""
        self._spans = pool.spans_nodes
        self._quotas = quotas
        self._taken = taken
        self._memory_bytes = memory_bytes
        self._taken_ids = frozenset(taken)
        self._nodes = tuple(sorted((node for node in pool.nodes if node.takes_work), key=lambda node: node.name))
        self._keepers = {
            keep.project for node in pool.nodes if node.is_kept for device in node.devices for keep in device.reserved
        }
        self._held = _held(jobs, pool, taken) if quotas else Counter[tuple[str, str]]()
        self._by_shape: dict[tuple[object, ...], WaitReason] = {}
        self._seen: dict[tuple[str, str, str], list[NodeNow]] = {}

    def of(self, job: JobView, position: int) -> WaitReason:
        """Why this job waits."""
        found = [(*self._of(job, option), number) for number, option in enumerate(job.options)]
        _, _, reason, _ = min(found, key=lambda item: (item[0], item[1], item[3])) if found[1:] else found[0]
        code, text = reason.code, reason.text
        if code is WaitCode.BEHIND:
            text = f"It is number {position} in the queue. {text}"
        if job.running is not None and code not in NEVER:
            code, text = WaitCode.PAUSED, f"It was paused for another job and keeps its place. {text}"
        return replace(reason, code=code, text=text, position=position)

    def _of(self, job: JobView, option: Option) -> tuple[bool, int, WaitReason]:
        """(whether waiting is of no use, how far from running, the reason) against one way to run."""
        found = self._obstacle(job, option)
        if found.code in NEVER:
            return True, 2, found
        quota = self._quota(job, option)
        return (quota.code in NEVER, 1, quota) if quota else (False, 0, found)

    def _obstacle(self, job: JobView, option: Option) -> WaitReason:
        """All but the quota; alike jobs share it."""
        project, level = job.project if job.project in self._keepers else "", job.minimum_sandbox_level
        shape = (project, level, option.kind, option.model_name, option.count, option.memory_bytes)
        reason = self._by_shape.get(shape)
        if reason is None:
            nodes = self._look(option, project)
            reason = obstacles.never(nodes, option, level, spans_nodes=self._spans)
            reason = reason or obstacles.busy(nodes, option, level, spans_nodes=self._spans)
            self._by_shape[shape] = reason
        return reason

    def _quota(self, job: JobView, option: Option) -> WaitReason | None:
        quota = self._quotas.get(job.project)
        limit = quota.limit(option.kind) if quota else None
        if quota is None or limit is None:
            return None
        held = self._held[job.project, option.kind]
        return obstacles.quota(held, limit, option, quota.name or job.project, borrows=quota.borrows(option.kind))

    def _look(self, option: Option, project: str) -> list[NodeNow]:
        key = (option.kind, option.model_name, project)
        if key not in self._seen:
            wanted = _Wanted(option)
            self._seen[key] = [
                # Where gangs span nodes, what one node has of a mixture is not wanted of the next one.
                self._node_now(node, option, project, wanted if self._spans else _Wanted(option))
                for node in self._nodes
            ]
        return self._seen[key]

    def _node_now(self, node: NodeView, option: Option, project: str, wanted: _Wanted) -> NodeNow:
        total: dict[str, int] = {}
        free: dict[str, int] = {}
        kept = 0
        holders: dict[str, float] = {}
        purposes: list[str] = []
        untouched = not node.is_kept and node.device_ids.isdisjoint(self._taken_ids)
        if untouched:
            total = free = {model: count for (kind, model), count in node.counts.items() if kind == option.kind}
        for device in () if untouched else node.devices:
            if device.kind != option.kind or not option.takes(device.model_name):
                continue
            total[device.model_name] = total.get(device.model_name, 0) + 1
            holder = self._taken.get(device.device_id)
            if holder is not None:
                holders[holder[0]] = holder[1]
            elif device.reserved and any(not keep.project or keep.project != project for keep in device.reserved):
                kept += 1
                purposes += [keep.purpose for keep in device.reserved if not keep.project or keep.project != project]
            else:
                free[device.model_name] = free.get(device.model_name, 0) + 1
        return NodeNow(
            node=node,
            total=_counted(total, option, wanted.total),
            free=_counted(free, option, wanted.free),
            kept=kept,
            memory_free_bytes=node.memory_bytes - self._memory_bytes.get(node.name, 0),
            holders=tuple(name for name, _ in sorted(holders.items(), key=lambda item: (item[1], item[0])) if name),
            purposes=tuple(dict.fromkeys(purposes)),
        )


class _Wanted:
    """Of a mixture: how many devices of each model are still looked for, busy or not, and among the free ones."""

    def __init__(self, option: Option) -> None:
        self.total = Counter(dict(option.parts))
        self.free = Counter(dict(option.parts))


def _counted(models: Mapping[str, int], option: Option, wanted: Counter[str]) -> int:
    """How many of these devices the option's gang may have; of a mixture, taken off what is still wanted."""
    if not option.parts:
        return models.get(option.model_name, 0) if option.model_name else sum(models.values())
    found = Counter({name: min(count, models.get(name, 0)) for name, count in wanted.items()})
    wanted -= found
    return found.total()


def _held(jobs: Sequence[JobView], pool: PoolView, taken: Mapping[str, tuple[str, float]]) -> Counter[tuple[str, str]]:
    """(project, kind) -> devices."""
    projects = {job.job_id: job.project for job in jobs}
    return Counter(
        (projects[holder[0]], device.kind)
        for node in pool.nodes
        for device in node.devices
        if (holder := taken.get(device.device_id)) is not None and holder[0] in projects
    )
