"""On which nodes ranks on GPUs add up through the memory of their hosts, and not from GPU to GPU. Reads only."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from harness.pool.models import Device, DeviceKind, NodeState, PoolSetting


def nodes_by_host(setting: PoolSetting) -> Mapping[str, tuple[str, ...]]:
    """Model of GPU -> names of such nodes that have it and are up: their Horovod has no NCCL, as their agents say.

    An agent of an earlier release does not say. By `torch.distributed`, whose NCCL comes with PyTorch, there are none.
    """
    if setting.backend != "horovod":
        return {}
    there = Device.objects.filter(kind=DeviceKind.CUDA, away_since=None, node__state=NodeState.UP)
    rows = there.filter(node__description__horovod_nccl=False).order_by("node__name")
    found: dict[str, list[str]] = defaultdict(list)
    for model_name, node in rows.values_list("model_name", "node__name").distinct():
        found[model_name].append(node)
    return {model_name: tuple(nodes) for model_name, nodes in found.items()}
