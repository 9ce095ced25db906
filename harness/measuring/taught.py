"""What a model of device learns from: jobs that finished, and those that ran out of memory."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from codegen.modes import STAGED
from harness.calibration.known import finished_teaching, ran_out_teaching
from harness.calibration.models import FinishedJobRow, RanOutRow
from harness.jobs.models import DeviceUse, JobAttempt
from harness.pool.links import LinksKnown, link_model, links_known
from harness.pool.models import DeviceKind, NetworkKind, Node, NodeLink
from harness.pool.networks import ENCRYPTED
from harness.pool.services import pool_setting_get
from harness.pool.sums import nodes_by_host
from scheduler.estimation.finished import Finished, RanOut
from scheduler.estimation.link import sent_bytes, step_sums_s
from scheduler.estimation.values import Allocation
from scheduler.workload import Workload

_log = logging.getLogger(__name__)


def finished_of(kind: str, model_name: str) -> list[Finished]:
    """Finished jobs that a model can learn from, oldest first."""
    newest = list(finished_teaching(kind, model_name))
    ran = _ran(newest)
    names = {name for one in ran.values() for name in one.nodes}
    links = links_known(set(Node.objects.filter(name__in=names).values_list("pk", flat=True)))
    # As these nodes add up now: what is installed there seldom changes.
    hosts = frozenset(nodes_by_host(pool_setting_get()).get(model_name, ()))
    found = (_finished(row, ran.get(row.pk, _Ran()), links, hosts) for row in reversed(newest))
    return [job for job in found if job is not None]


@dataclass(frozen=True)
class _Ran:
    """Where an attempt of a job ran."""

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


def _ran(rows: Collection[FinishedJobRow]) -> dict[int, _Ran]:
    """Key of a row -> where the attempt ran that made its steps."""
    jobs = {row.job_id for row in rows if row.job_id}
    uses: dict[str, dict[int, set[tuple[str, int]]]] = {}
    held = DeviceUse.objects.filter(job__in=jobs).values_list("job_id", "token", "node_name", "device_index")
    for job_id, token, node, index in held:
        uses.setdefault(job_id, {}).setdefault(token, set()).add((node, index))
    plans = JobAttempt.objects.filter(job__in=jobs).values_list(
        "job_id", "number", "plan__network", "plan__network_port"
    )
    networks = {(job_id, number): (network or 0, port or 0) for job_id, number, network, port in plans}
    found = {}
    for row in rows:
        by_token = uses.get(row.job_id or "", {})
        token = row.token or max(by_token, default=0)
        on_node = Counter(node for node, _ in by_token.get(token, ()))
        found[row.pk] = _Ran(on_node, *networks.get((row.job_id or "", token), ()))
    return found


def _finished(row: FinishedJobRow, ran: _Ran, links: LinksKnown, hosts: frozenset[str]) -> Finished | None:
    """None where nothing can be learnt: what ranks on several nodes waited for each other must be known, and of stages
    on several that cannot be told from how well they were cut."""
    try:
        workload = Workload.from_dict(row.workload)
        between = [link_model(link) for link in links.among_named(ran.nodes) if ran.talked_over(link)]
        if len(ran.nodes) > 1 and (not between or row.mode in STAGED):
            return None
        size_bytes, messages = sent_bytes(workload, 2), workload.step_messages
        way = _allocation(row.allocation)
        return Finished(
            workload=workload,
            # not as many together as were foretold at most, but as there were
            allocation=replace(way, most_on_node=max(ran.on_node.values(), default=way.most_on_node)),
            step_s=row.step_s or 0.0,
            # of several nodes without a start some may have waited, for what no model foretells
            run_s=row.run_s if row.run_comparable and (row.start_s or len(ran.nodes) < 2) else None,
            start_s=row.start_s,
            load_s=row.load_s,
            peak_bytes=row.peak_bytes,
            nodes=tuple(sorted(ran.nodes)),
            author=f"person {row.author_id}" if row.own_code else "",
            by_host=row.kind == DeviceKind.CUDA and not hosts.isdisjoint(ran.nodes),
            nodes_link=max(between, key=lambda link: step_sums_s(link, size_bytes, 2, messages), default=None),
        )
    except (KeyError, TypeError, ValueError) as error:
        _log.warning("nothing can be learnt from finished job %s: %s", row.pk, error)
        return None


def ran_out_of(kind: str, model_name: str) -> list[RanOut]:
    """Jobs that ran out of memory and that a model can learn from, oldest first."""
    return [job for row in reversed(ran_out_teaching(kind, model_name)) if (job := _ran_out(row))]


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
