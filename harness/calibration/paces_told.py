"""Which nodes have a pace of their own, for people to read. Reads only."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from harness.calibration.models import DeviceModelRow
from harness.pool.models import Device
from scheduler.estimation.device_parts import NodePace
from worker.words import counted


@dataclass(frozen=True, kw_only=True)
class PaceTold:
    """Of a node's devices of one kind and name."""

    node: str
    kind: str
    model_name: str
    factor: float
    """On a step, beside other nodes with such devices."""
    low: float
    high: float
    jobs: int
    """That tell it."""

    @property
    def words(self) -> str:
        """All of it in a sentence, without the node."""
        return (
            f"{self.model_name or self.kind}: the newest {counted(self.jobs, 'finished job')} took {self.factor:.2f} "
            f"times as long as on other nodes with such devices ({self.low:.2f} to {self.high:.2f}); "
            "the ranges of estimates allow for it."
        )


def paces_told() -> dict[str, list[PaceTold]]:
    """By node of the pool that has such devices; in two queries."""
    models = DeviceModelRow.objects.order_by("kind", "model_name").values_list("kind", "model_name", "model__paces")
    known = {(*key, node): NodePace(**told) for *key, paces in models for node, told in (paces or {}).items()}
    names = {node for *_, node in known}
    devices = Device.objects.filter(node__name__in=names).values_list("kind", "model_name", "node__name")
    there = set(devices) if known else set()
    found: dict[str, list[PaceTold]] = defaultdict(list)
    for key, pace in known.items():
        if key in there:
            kind, model_name, node = key
            told = PaceTold(
                node=node, kind=kind, model_name=model_name,
                factor=pace.factor, low=pace.low, high=pace.high, jobs=pace.n_jobs,
            )  # fmt: skip
            found[node].append(told)
    return dict(found)
