"""What is known of a kind of device: the fitted model, else a prior with its wide intervals."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from harness.calibration.models import DeviceModelRow, FinishedJobRow, RanOutRow
from harness.calibration.shipped import prior_of
from harness.jobs.models import DeviceUse, JobAttempt
from harness.pool.links import LinksKnown, link_model, links_known
from harness.pool.models import DeviceKind, NetworkKind, Node, NodeLink, NodeState
from harness.pool.networks import ENCRYPTED
from harness.pool.power import device_power, table_power
from harness.pool.services import pool_setting_get
from harness.pool.sums import nodes_by_host
from scheduler.estimation.device_model import POOL_TABLE, DeviceModel, PowerModel
from scheduler.estimation.learning import RECENT, Finished, RanOut
from scheduler.estimation.link import step_sums_s
from scheduler.estimation.prior import by_host
from scheduler.estimation.values import Allocation, Basis
from scheduler.kinds import real_name
from scheduler.workload import Workload
from worker.words import counted

_log = logging.getLogger(__name__)

Key = tuple[str, str]


def device_model(kind: str, model_name: str) -> DeviceModel:
    """The model to estimate with: fitted and corrected where there are points, else the prior.

    `model_name` as the scheduler names devices: a declared slowdown is part of it, and of the model.
    """
    return device_models([(kind, model_name)])[kind, model_name]


def fitted_since(kind: str, names: Collection[str], moment: datetime) -> bool:
    """Whether a calibration of one of these devices tells since then what it takes; `names` as the scheduler has them.

    What finished jobs correct does not count: that goes on all day, and moves figures within their ranges.
    """
    rows = DeviceModelRow.objects.filter(kind=kind, model_name__in=[real_name(name)[0] for name in names])
    return rows.filter(fitted_at__gt=moment, n_points__gt=0).exists()


def device_models(keys: Collection[Key]) -> dict[Key, DeviceModel]:
    """The same of many (kind, name); those that differ in their declared slowdown alone share what is read."""
    real = {(kind, name): real_name(name) for kind, name in keys}
    rows = DeviceModelRow.objects.filter(model_name__in={name for name, _ in real.values()})
    known = {(row.kind, row.model_name): DeviceModel.from_dict(row.model) for row in rows}
    setting = pool_setting_get()
    hosts = nodes_by_host(setting) if any(kind == DeviceKind.CUDA for kind, _ in keys) else {}
    found = {}
    for key, (name, slowdown) in real.items():
        kind, _ = key
        model = known.get((kind, name)) or known.setdefault((kind, name), prior_of(kind, name))
        model = replace(_powered(_of_pool(model), setting.power_table), slowdown=max(1.0, slowdown))
        found[key] = by_host(model, _host_words(hosts[name])) if kind == DeviceKind.CUDA and name in hosts else model
    return found


def _host_words(nodes: Sequence[str]) -> str:
    more = f" and {counted(len(nodes) - 1, 'other node')}" if len(nodes) > 1 else ""
    return f"Horovod has no NCCL on {nodes[0]}{more}"


def _of_pool(model: DeviceModel) -> DeviceModel:
    """Without the slow starts and the paces of nodes that take no work: nothing is placed there.

    Such a pace is still known to whoever measured there.
    """
    slow, paces = model.overheads.slow_starts, model.paces
    if not slow and not paces:
        return model
    there = set(Node.objects.filter(name__in={*slow, *paces}, state=NodeState.UP).values_list("name", flat=True))
    left = {name: factor for name, factor in slow.items() if name in there}
    told = {name: replace(pace, takes_work=name in there) for name, pace in paces.items()}
    return replace(model, overheads=replace(model.overheads, slow_starts=left), paces=told)


def _powered(model: DeviceModel, table: Mapping[str, Any]) -> DeviceModel:
    """With the watts that an admin entered, where none were measured here: offers and bills count by the same table."""
    entered = table_power(model.kind, model.model_name, table) if model.power.basis is not Basis.MEASURED else None
    if entered is None:
        return model
    power = PowerModel(idle_w=entered.idle_w, busy_w=entered.busy_w, basis=Basis.ASSUMED, source=POOL_TABLE)
    return replace(model, power=power)


def powers_known(keys: Collection[Key]) -> dict[Key, PowerModel]:
    """What one device of each (kind, real name) draws, as estimates count it: as a calibration measured it, else the
    admin's entry, else a data sheet."""
    rows = DeviceModelRow.objects.filter(model_name__in={name for _, name in keys})
    told = {(kind, name): power for kind, name, power in rows.values_list("kind", "model_name", "model__power")}
    table = pool_setting_get().power_table
    return {key: _power(key, told.get(key), table) for key in keys}


def _power(key: Key, told: Mapping[str, Any] | None, table: Mapping[str, Any]) -> PowerModel:
    if told and told["basis"] == Basis.MEASURED:
        return PowerModel(**{**told, "basis": Basis.MEASURED})
    entered = device_power(*key, table)
    return PowerModel(idle_w=entered.idle_w, busy_w=entered.busy_w, basis=Basis.ASSUMED)


def finished_of(kind: str, model_name: str) -> list[Finished]:
    """Finished jobs that a model can learn from, oldest first."""
    newest = finished_teaching(kind, model_name)
    ran = _ran([row.job_id for row in newest if row.job_id])
    names = {name for one in ran.values() for name in one.nodes}
    links = links_known(set(Node.objects.filter(name__in=names).values_list("pk", flat=True)))
    # As these nodes add up now: what is installed there seldom changes.
    hosts = frozenset(nodes_by_host(pool_setting_get()).get(model_name, ()))
    found = (_finished(row, ran.get(row.job_id or "", _Ran()), links, hosts) for row in reversed(newest))
    return [job for job in found if job is not None]


def finished_teaching(kind: str, model_name: str) -> QuerySet[FinishedJobRow]:
    """The rows that a model of device is corrected by, newest first: older ones count no more."""
    rows = FinishedJobRow.objects.filter(kind=kind, model_name=model_name).exclude(step_s=None)
    return rows.exclude(workload={}).exclude(allocation={}).order_by("-finished_at", "-pk")[:RECENT]


@dataclass(frozen=True)
class _Ran:
    """Where the last attempt of a job ran."""

    on_node: Mapping[str, int] = field(default_factory=dict)
    """Name of a node -> devices there; none: nobody knows."""
    network: int = 0
    port: int = 0
    """As in its `RunPlan`."""

    @property
    def nodes(self) -> Collection[str]:
        """Their names."""
        return self.on_node.keys()

    def talked_over(self, link: NodeLink) -> bool:
        """Whether its ranks talked through what the link was timed through."""
        if self.port:
            return link.path["network"] in ENCRYPTED
        return bool(link.path["network"] == (NetworkKind.VXLAN if self.network else NetworkKind.HOSTS))


def _ran(jobs: Collection[str]) -> dict[str, _Ran]:
    """Job -> where its last attempt ran."""
    uses: dict[str, dict[int, set[tuple[str, int]]]] = {}
    rows = DeviceUse.objects.filter(job__in=jobs).values_list("job_id", "token", "node_name", "device_index")
    for job_id, token, node, index in rows:
        uses.setdefault(job_id, {}).setdefault(token, set()).add((node, index))
    plans = JobAttempt.objects.filter(job__in=jobs).values_list(
        "job_id", "number", "plan__network", "plan__network_port"
    )
    networks = {(job_id, number): (network or 0, port or 0) for job_id, number, network, port in plans}
    newest = {job_id: max(by_token) for job_id, by_token in uses.items()}
    on_node = {job_id: Counter(node for node, _ in uses[job_id][token]) for job_id, token in newest.items()}
    return {job_id: _Ran(on_node[job_id], *networks.get((job_id, token), ())) for job_id, token in newest.items()}


def _finished(row: FinishedJobRow, ran: _Ran, links: LinksKnown, hosts: frozenset[str]) -> Finished | None:
    """None where nothing can be learnt: what ranks on several nodes waited for each other must be known."""
    try:
        workload = Workload.from_dict(row.workload)
        between = [link_model(link) for link in links.among_named(ran.nodes) if ran.talked_over(link)]
        if len(ran.nodes) > 1 and not between:
            return None
        size_bytes, messages = workload.gradient_bytes, workload.step_messages
        way = _allocation(row.allocation)
        return Finished(
            workload=workload,
            # not as many together as were foretold at most, but as there were
            allocation=replace(way, most_on_node=max(ran.on_node.values(), default=way.most_on_node)),
            step_s=row.step_s or 0.0,
            run_s=row.run_s if row.run_comparable else None,
            start_s=row.start_s,
            load_s=row.load_s,
            peak_bytes=row.peak_bytes,
            nodes=tuple(sorted(ran.nodes)),
            by_host=row.kind == DeviceKind.CUDA and not hosts.isdisjoint(ran.nodes),
            nodes_link=max(between, key=lambda link: step_sums_s(link, size_bytes, 2, messages), default=None),
        )
    except (KeyError, TypeError, ValueError) as error:
        _log.warning("nothing can be learnt from finished job %s: %s", row.pk, error)
        return None


def ran_out_of(kind: str, model_name: str) -> list[RanOut]:
    """Jobs that ran out of memory and that a model can learn from, oldest first."""
    return [job for row in reversed(ran_out_teaching(kind, model_name)) if (job := _ran_out(row))]


def ran_out_teaching(kind: str, model_name: str) -> QuerySet[RanOutRow]:
    """The rows that a model of memory is corrected by, newest first: older ones count no more."""
    rows = RanOutRow.objects.filter(kind=kind, model_name=model_name).exclude(limit_bytes=None)
    return rows.exclude(workload={}).exclude(allocation={}).order_by("-ended_at", "-pk")[:RECENT]


def _ran_out(row: RanOutRow) -> RanOut | None:
    try:
        return RanOut(
            workload=Workload.from_dict(row.workload),
            allocation=_allocation(row.allocation),
            limit_bytes=float(row.limit_bytes or 0),
        )
    except (KeyError, TypeError, ValueError) as error:
        _log.warning("nothing can be learnt from a job that ran out of memory, row %s: %s", row.pk, error)
        return None


def _allocation(told: Mapping[str, Any]) -> Allocation:
    """Raises `KeyError`, `TypeError`, `ValueError`."""
    return Allocation(**{**told, "batch_split": tuple(told["batch_split"])})
