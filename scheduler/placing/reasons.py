"""Reasons for all waiting jobs of one decision: alike jobs share the work."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from scheduler.placing import obstacles
from scheduler.placing.lacking import lacks, lacks_on_one_level
from scheduler.placing.obstacles import NEVER, Keep, Kept, NodeNow
from scheduler.placing.obstacles import device_words as device_words
from scheduler.types import DeviceView, JobView, NodeView, Option, PoolView, Quotas, WaitCode, WaitReason


class Reasons:
    """What the pool looks like once a decision is carried out."""

    def __init__(
        self,
        jobs: Sequence[JobView],
        pool: PoolView,
        quotas: Quotas,
        taken: Mapping[str, tuple[str, float]],
        memory_bytes: Mapping[str, int],
        now_s: float,
    ) -> None:
        """`taken`: device -> (job that has it, when it ends); `memory_bytes`: node -> what is asked for there."""
        self._now_s = now_s
        self._spans, self._span_level, self._apart = pool.spans_nodes, pool.span_level, pool.apart
        self._quotas = quotas
        self._taken = taken
        self._memory_bytes = memory_bytes
        self._taken_ids = frozenset(taken)
        self._nodes = tuple(sorted((node for node in pool.nodes if node.takes_work), key=lambda node: node.name))
        self._away = [node for node in pool.nodes if not node.takes_work]
        self._keepers = {
            keep.project for node in pool.nodes if node.is_kept for device in node.devices for keep in device.reserved
        }
        kept = (device for node in pool.nodes if node.is_kept for device in node.devices)
        self._keep_starts_s = sorted({keep.start_s for device in kept for keep in device.reserved})
        self._held = _held(jobs, pool, taken) if quotas else Counter[tuple[str, str]]()
        self._by_shape: dict[tuple[object, ...], WaitReason] = {}
        self._seen: dict[tuple[str, str, str, int, bool], list[NodeNow]] = {}

    def of(self, job: JobView, position: int) -> WaitReason:
        """Why this job waits."""
        reason = self._nearest(job)
        code, text = reason.code, reason.text
        if code is WaitCode.BEHIND:
            text = f"It is number {position} in the queue. {text}"
        if job.running is not None and code not in NEVER:
            code, text = WaitCode.PAUSED, f"It was paused for another job and keeps its place. {text}"
        return replace(reason, code=code, text=text, position=position)

    def _nearest(self, job: JobView) -> WaitReason:
        """The reason against the way to run that is nearest to running; of several the first."""
        found: list[tuple[bool, int, WaitReason]] = []
        for option in job.options:
            found.append(self._of(job, option))
            if found[-1][:2] == (False, 0):
                # No other way can be nearer.
                return found[-1][2]
        return min(found, key=lambda item: item[:2])[2]

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
        may_span = option.may_span(level, self._span_level)
        spans, apart = self._spans and may_span, self._apart if may_span else ""
        # What is kept only after it would have ended is nothing to it.
        reach = bisect_left(self._keep_starts_s, self._now_s + job.left_high_s(option)) if self._keep_starts_s else 0
        what = (option.kind, option.model_name, option.count, option.memory_bytes)
        shape = (project, level, *what, spans, apart, reach)
        reason = self._by_shape.get(shape)
        if reason is None:
            nodes = self._look(option, project, reach, spans=spans)
            reason = lacks(nodes, self._away, option, level, spans_nodes=spans, apart=apart)
            reason = reason or obstacles.never(nodes, option, level, spans_nodes=spans)
            reason = reason or (self._together if spans else self._on_one_node)(nodes, option, level)
            self._by_shape[shape] = reason
        return reason

    def _together(self, nodes: Sequence[NodeNow], option: Option, level: int) -> WaitReason:
        """Against a gang for which all nodes together would do."""
        able = obstacles.able_levels(nodes, option, level)
        if able:
            return obstacles.busy_together(able, option)
        reason = obstacles.never_memory_together(nodes, option, level)
        return reason or lacks_on_one_level(nodes, self._away, option, level)

    def _on_one_node(self, nodes: Sequence[NodeNow], option: Option, level: int) -> WaitReason:
        return obstacles.busy(nodes, option, level, partial(self._holders_on, option))

    def _quota(self, job: JobView, option: Option) -> WaitReason | None:
        quota = self._quotas.get(job.project)
        limit = quota.limit(option.kind) if quota else None
        if quota is None or limit is None:
            return None
        held = self._held[job.project, option.kind]
        return obstacles.quota(held, limit, option, quota.name or job.project, borrows=quota.borrows(option.kind))

    def _look(self, option: Option, project: str, reach: int, *, spans: bool) -> list[NodeNow]:
        """`reach`: how many of the moments at which reservations begin are before the job would end."""
        key = (option.kind, option.model_name, project, reach, spans and bool(option.parts))
        if key not in self._seen:
            # Where the gang may span nodes, what one node has of a mixture is not wanted of the next one of its level.
            levels = {node.sandbox_level for node in self._nodes} if spans else set()
            wanted = {level: _Wanted(option) for level in levels}
            self._seen[key] = [
                self._node_now(node, option, project, reach, wanted.get(node.sandbox_level) or _Wanted(option))
                for node in self._nodes
            ]
        return self._seen[key]

    def _node_now(self, node: NodeView, option: Option, project: str, reach: int, wanted: _Wanted) -> NodeNow:
        if node.is_kept and reach:
            free, kept = self._free_and_kept(node, option, project, self._keep_starts_s[reach - 1])
        else:
            free, kept = self._free_on(node, option), Kept()
        total = {model: count for (kind, model), count in node.counts.items() if kind == option.kind}
        return NodeNow(
            node=node,
            total=_counted(total, option, wanted.total),
            free=_counted(free, option, wanted.free),
            kept=kept,
            memory_free_bytes=node.memory_bytes - self._memory_bytes.get(node.name, 0),
        )

    def _free_on(self, node: NodeView, option: Option) -> Mapping[str, int]:
        """Model -> devices that nobody has, of a node that no admin keeps anything of."""
        if node.device_ids <= self._taken_ids:
            return {}
        like = ((model, devices) for (kind, model), devices in node.by_key.items() if kind == option.kind)
        if node.device_ids.isdisjoint(self._taken_ids):
            return {model: len(devices) for model, devices in like}
        return {model: sum(device.device_id not in self._taken_ids for device in devices) for model, devices in like}

    def _free_and_kept(
        self, node: NodeView, option: Option, project: str, last_s: float
    ) -> tuple[Mapping[str, int], Kept]:
        """(model -> devices that nobody has or keeps, those that an admin keeps from `last_s` on or before that)."""
        free: Counter[str] = Counter()
        kept: tuple[list[Keep], list[Keep]] = [], []
        for device in _such(node, option):
            others = [keep for keep in device.reserved if keep.start_s <= last_s and keep.end_s > self._now_s]
            others = [keep for keep in others if not keep.project or keep.project != project]
            is_held = device.device_id in self._taken_ids
            if others:
                end_s, purposes = max(keep.end_s for keep in others), tuple(keep.purpose for keep in others)
                kept[is_held].append((end_s, purposes))
            free[device.model_name] += not others and not is_held
        return free, Kept(idle=tuple(kept[False]), held=tuple(kept[True]))

    def _holders_on(self, option: Option, node: NodeView) -> list[str]:
        """Jobs on such devices, those that are expected to end first first."""
        held = [self._taken[device.device_id] for device in _such(node, option) if device.device_id in self._taken_ids]
        return [name for name, _ in sorted(dict(held).items(), key=lambda item: (item[1], item[0])) if name]


def _such(node: NodeView, option: Option) -> Iterator[DeviceView]:
    """Devices of the node that the option's gang could have, busy or not."""
    return (device for device in node.devices if device.kind == option.kind and option.takes(device.model_name))


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
