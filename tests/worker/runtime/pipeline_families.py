"""One rank of a pipeline over every family of the catalog: prints how far its weights are from one process's.

`python -m tests.worker.runtime.pipeline_families`, joined by torch's own variables; the first rank prints JSON.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F

from codegen.catalog import families_for
from codegen.catalog.base import Facts
from codegen.spec import Task
from tests.codegen.programs import module, program_spec
from worker.runtime.collective import TorchGroup
from worker.runtime.pipeline.blocks import Chain
from worker.runtime.pipeline.costs import measured_blocks
from worker.runtime.pipeline.place import keep_only
from worker.runtime.pipeline.stage import Pipeline
from worker.runtime.pipeline.state import Shares
from worker.stages import Wanted, plan_stages

STEPS, ROWS = 4, 22
"""22 rows in 4 micro-batches: the last one is filled up."""
CASES = ((1, "gpipe", False), (4, "1f1b", True))
"""(micro-batches, schedule, recomputation)"""


def models() -> Iterator[tuple[str, nn.Module, list[tuple[tuple[Tensor, ...], Tensor]]]]:
    """(name, model without dropout, batches) of each family."""
    for task in (Task.TABULAR_CLASSIFICATION, Task.IMAGE_CLASSIFICATION):
        for family in families_for(task):
            pictures = task is Task.IMAGE_CLASSIFICATION
            facts = Facts(
                task=task, rows=600, train_rows=400, outputs=3, features=5, cardinalities=(3, 9),
                channels=1 if pictures else 0, native_size=12 if pictures else 0,
            )  # fmt: skip
            params = family.defaults(facts, "small") | {"dropout": 0.0}
            size = params.get("image_size", 0)
            shape = {
                "features": [f"x{number}" for number in range(5)], "cardinalities": [3, 9], "outputs": 3,
                "channels": 1, "height": size, "width": size, "channel_mean": [0.5], "channel_std": [0.2],
            }  # fmt: skip
            torch.manual_seed(1)
            net = module(f"models/{family.template}").build(program_spec({"model": {"params": params}, "shape": shape}))
            batches = []
            for _ in range(STEPS):
                inputs: tuple[Tensor, ...] = (torch.randn(ROWS, 5), torch.randint(0, 3, (ROWS, 2)))
                if pictures:
                    inputs = (torch.randint(0, 256, (ROWS, 1, size, size), dtype=torch.uint8),)
                batches.append((inputs, torch.randint(0, 3, (ROWS,))))
            yield family.name, net, batches


def alone(net: nn.Module, batches: Sequence[Any], parts: int) -> dict[str, Tensor]:
    """What one process learns from the batches, each in micro-batches as the pipeline makes them."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    rows = -(-ROWS // parts)
    for inputs, targets in batches:
        optimizer.zero_grad()
        for first in range(0, ROWS, rows):
            index = torch.arange(first, first + rows) % ROWS
            real = min(rows, ROWS - first)
            outputs = net(*(tensor[index] for tensor in inputs))
            (F.cross_entropy(outputs[:real], targets[first : first + real]) * real / ROWS).backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
    return net.state_dict()


def staged(net: nn.Module, batches: Sequence[Any], parts: int, way: tuple[str, bool], group: TorchGroup) -> Any:
    """The same by a pipeline: (weights of the whole model on the first rank, parameters here)."""
    rank, stages = dist.get_rank(), dist.get_world_size()
    chain = Chain(net, batches[0][0])
    wanted = Wanted(micro_batches=parts, schedule=way[0], recompute=way[1])
    plans = [plan_stages(measured_blocks(chain, batches[0][0], ROWS, torch.device("cpu")), stages, ROWS, wanted=wanted)]
    dist.broadcast_object_list(plans)
    plan = plans[0]
    first, end = plan.bounds[rank]
    names = [name for name, _ in net.named_parameters()]
    stage = chain.stage(first, end).train()
    keep_only(net, stage)
    before = chain.pieces[first - 1].boundary if first else None
    edges = (before, chain.pieces[end - 1].boundary)
    pipeline = Pipeline(plan, edges, rank, range(stages), None, torch.device("cpu"), nullcontext())
    optimizer = torch.optim.SGD(stage.parameters(), lr=0.05, momentum=0.9)
    for inputs, targets in batches:
        optimizer.zero_grad()
        pipeline.step(stage, inputs, targets, F.cross_entropy)
        square = torch.nn.utils.get_total_norm([weight.grad for weight in stage.parameters()]) ** 2
        dist.all_reduce(square)
        nn.utils.clip_grads_with_norm_(stage.parameters(), 1.0, square.sqrt())
        optimizer.step()
    shares = Shares(stage, names, group, torch.device("cpu"))
    whole = shares.state({"net": stage, "optimizer": optimizer}, range(stages))
    return whole, sum(weight.numel() for weight in stage.parameters())


def main() -> None:
    """Train each family both ways and compare."""
    torch.set_num_threads(1)
    group = TorchGroup(torch.device("cpu"))
    found = []
    for name, net, batches in models():
        for parts, *way in CASES:
            whole, own = staged(copy.deepcopy(net), batches, parts, tuple(way), group)
            counts = group.gather(torch.tensor([own]))
            if dist.get_rank() != 0:
                continue
            expected = alone(copy.deepcopy(net), batches, parts)
            apart = [
                float((whole["net"][key] - tensor).abs().max() / max(1.0, float(tensor.abs().max())))
                for key, tensor in expected.items()
            ]
            found.append(
                {
                    "family": name, "parts": parts, "way": way, "counts": counts.tolist(), "apart": max(apart),
                    "total": sum(weight.numel() for weight in net.parameters()),
                    "same_names": set(whole["net"]) == set(expected),
                    "moments": len(whole["optimizer"]["state"]), "weights": len(list(net.parameters())),
                }
            )  # fmt: skip
    if dist.get_rank() == 0:
        print(json.dumps(found))
    group.close()


if __name__ == "__main__":
    main()
