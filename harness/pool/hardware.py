"""The pool as whoever fills in a spec sees it: the largest gangs that a job can get, of all devices and by model."""

from __future__ import annotations

from collections.abc import Sequence

from django.db.models import Prefetch

from codegen.types import Hardware
from harness.pool.gangs import gang_problem
from harness.pool.models import Device, DeviceKind, Node, NodeState, PoolSetting
from scheduler.kinds import declared_name

_DEFAULT_CORES = 2
_DEFAULT_MEMORY_BYTES = 4 << 30


def hardware() -> Hardware:
    """The largest gang a job can get on one node that is up; a small machine where no node has joined yet.

    With the setting `span_nodes` also how many devices of several nodes a job may ask for, or why none.
    """
    there = Prefetch("devices", Device.objects.filter(away_since=None))
    nodes = list(Node.objects.filter(state=NodeState.UP).prefetch_related(there))
    setting = PoolSetting.objects.filter(span_nodes=True).first() if len(nodes) > 1 else None
    apart = gang_problem(nodes, setting) if setting is not None else ""
    spans = setting is not None and not apart
    names = sorted({model_named(device) for node in nodes for device in node.devices.all()} - {""})
    models = {name: _largest(nodes, name, spans=spans, apart=apart) for name in names}
    found = _largest(nodes, None, spans=spans, apart=apart)
    return Hardware(
        most_cpu_cores=found.most_cpu_cores,
        most_gpus=found.most_gpus,
        cpu_cores=found.cpu_cores or _DEFAULT_CORES,
        cpu_memory_bytes=found.cpu_memory_bytes or _DEFAULT_MEMORY_BYTES,
        gpus=found.gpus,
        gpu_memory_bytes=found.gpu_memory_bytes,
        apart=apart,
        models=models,
    )


def model_named(device: Device) -> str:
    """As offers and plans name its model; a slowdown that was declared is part of the name."""
    return declared_name(device.model_name, device.slowdown) if device.model_name else ""


def _largest(nodes: Sequence[Node], name: str | None, *, spans: bool, apart: str) -> Hardware:
    """The same of the devices of one model, or of all."""
    cores, cpu_memory_bytes, gpus, gpu_memory_bytes = 0, 0, 0, 0
    all_kinds: list[str] = []
    for node in nodes:
        devices = [device for device in node.devices.all() if name in (None, model_named(device))]
        kinds = [device.kind for device in devices]
        gpu_memory = [device.memory_bytes for device in devices if device.kind == DeviceKind.CUDA]
        here = kinds.count(DeviceKind.CPU)
        if devices and (here, node.memory_bytes) > (cores, cpu_memory_bytes):
            cores, cpu_memory_bytes = here, node.memory_bytes
        if (len(gpu_memory), min(gpu_memory, default=0)) > (gpus, gpu_memory_bytes):
            gpus, gpu_memory_bytes = len(gpu_memory), min(gpu_memory)
        all_kinds += kinds if spans else []
    return Hardware(
        cpu_cores=cores,
        cpu_memory_bytes=cpu_memory_bytes,
        gpus=gpus,
        gpu_memory_bytes=gpu_memory_bytes,
        most_cpu_cores=all_kinds.count(DeviceKind.CPU),
        most_gpus=all_kinds.count(DeviceKind.CUDA),
        apart=apart,
    )
