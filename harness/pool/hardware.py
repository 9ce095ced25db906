"""The pool as whoever fills in a spec sees it: the largest gangs that a job can get, of all devices and by model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.db.models import Prefetch

from codegen.types import Hardware
from harness.pool.gangs import gang_problem
from harness.pool.models import Device, DeviceKind, Node, NodeState, PoolSetting
from scheduler.kinds import declared_name

_DEFAULT_CORES = 2
_DEFAULT_MEMORY_BYTES = 4 << 30


def hardware() -> Hardware:
    """The largest gang a job can get on one node that is up; a small machine where no node has joined yet.

    With the setting `span_nodes` also how many devices of several nodes a job may ask for; else, or where it cannot be
    so, why none.
    """
    there = Prefetch("devices", Device.objects.filter(away_since=None))
    nodes = list(Node.objects.filter(state=NodeState.UP).prefetch_related(there))
    apart = gang_problem(nodes, PoolSetting.objects.first() or PoolSetting()) if len(nodes) > 1 else ""
    spans = len(nodes) > 1 and not apart
    largest, by_model = _Largest(), defaultdict[str, _Largest](_Largest)
    for node in nodes:
        devices = list(node.devices.all())
        largest.add(node, devices)
        for name, alike in _by_model(devices).items():
            by_model[name].add(node, alike)
    models = {name: one.hardware(spans=spans, apart=apart) for name, one in sorted(by_model.items())}
    largest.cores, largest.host_bytes = largest.cores or _DEFAULT_CORES, largest.host_bytes or _DEFAULT_MEMORY_BYTES
    return largest.hardware(spans=spans, apart=apart, models=models)


def _by_model(devices: Iterable[Device]) -> dict[str, list[Device]]:
    """As offers and plans name them: a slowdown that was declared is part of the name. Those without a name are left
    out."""
    found = defaultdict[str, list[Device]](list)
    for device in devices:
        if device.model_name:
            found[declared_name(device.model_name, device.slowdown)].append(device)
    return found


@dataclass
class _Largest:
    """What one node has most of, and all nodes together."""

    cores: int = 0
    host_bytes: int = 0
    """Memory of the node with most cores, or with most memory where none has a core."""
    gpus: int = 0
    gpu_bytes: int = 0
    all_cores: int = 0
    all_gpus: int = 0

    def add(self, node: Node, devices: Sequence[Device]) -> None:
        """With these devices of one more node."""
        gpu_bytes = [device.memory_bytes for device in devices if device.kind == DeviceKind.CUDA]
        cores = sum(device.kind == DeviceKind.CPU for device in devices)
        self.cores, self.host_bytes = max((self.cores, self.host_bytes), (cores, node.memory_bytes))
        self.gpus, self.gpu_bytes = max((self.gpus, self.gpu_bytes), (len(gpu_bytes), min(gpu_bytes, default=0)))
        self.all_cores += cores
        self.all_gpus += len(gpu_bytes)

    def hardware(self, *, spans: bool, apart: str, models: dict[str, Hardware] | None = None) -> Hardware:
        """For the spec; `spans`: whether a job may have devices of several nodes, `apart`: why none can."""
        return Hardware(
            cpu_cores=self.cores,
            cpu_memory_bytes=self.host_bytes,
            gpus=self.gpus,
            gpu_memory_bytes=self.gpu_bytes,
            most_cpu_cores=self.all_cores if spans else 0,
            most_gpus=self.all_gpus if spans else 0,
            all_cpu_cores=self.all_cores,
            all_gpus=self.all_gpus,
            apart=apart,
            models=models or {},
        )
