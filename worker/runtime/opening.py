"""What the log and the job page say about a run when it begins: its rate, what its mode and another split change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from worker.runtime.synced_norm import can_share
from worker.words import counted

if TYPE_CHECKING:
    from worker.runtime.data import Dataset
    from worker.runtime.run import Run

_RULES = ("linear", "sqrt")
_SHARED_OTHERWISE = (
    "The rows are shared out otherwise than before this run was resumed: it may have been trained on rows of its "
    "validation and test, and their figures are then too good. Start a new run for figures to rely on."
)


def opening_tell(run: Run, dataset: Dataset, parameters: int, notes: Sequence[str]) -> None:
    """Tell it: `notes` for the job page, and lines of the log. `parameters`: numbers that the whole model learns."""
    say = run.reporter.say
    if run.rank == 0:
        if dataset.split:
            say(dataset.split)
        for note in notes:
            run.reporter.note(note)
    ranks, threads = counted(run.world_size, "rank"), counted(torch.get_num_threads(), "thread")
    place = f"{ranks} on {run.device}, {threads} each, in {run.autocast.words}"
    say(f"{parameters:,} parameters, {len(dataset.train):,} training rows, {place}")
    if told := rate_line(run):
        say(told)


def rate_line(run: Run) -> str:
    """The peak learning rate of spec.yaml and how many rows make a step; empty where it names none."""
    training = run.spec.training
    rate, rule = training.get("learning_rate"), training.get("rate_rule")
    if not isinstance(rate, int | float):
        return ""
    how = f", by the rule {rule} from the usual batch" if rule in _RULES else ""
    return f"peak learning rate {rate:g}{how}, steps of {counted(run.batch_size, 'row')} over all ranks"


def opening_notes(run: Run, net: nn.Module) -> list[str]:
    """What a person should read on the job page; `net` is the whole model."""
    return statistics_notes(run, net) + backup_notes(run)


def split_notes(run: Run) -> list[str]:
    """That rows which are held out now were not before: other releases of the runtime may share rows out otherwise."""
    return [_SHARED_OTHERWISE] if len(run.position.held_out) > 1 else []


def backup_notes(run: Run) -> list[str]:
    """That a step has other rows than the rate is for, since mode async drops backup ranks out of another number."""
    backup, planned = getattr(run.mode, "backup", None), run.spec.get("resources", {}).get("count")
    if not backup or not isinstance(planned, int) or planned in (0, run.world_size):
        return []
    here, there = (round(run.batch_size * (1.0 - min(backup, n - 1) / n)) for n in (run.world_size, planned))
    if here == there:
        return []
    return [
        f"{counted(run.world_size, 'rank')} instead of {planned}: {here} of {run.batch_size} rows of a step count, not "
        f"{there}. The learning rate stays as it is for {there}."
    ]


def statistics_notes(run: Run, net: nn.Module) -> list[str]:
    """That batch normalisation sees other rows than one device would: none where it sees whole batches.

    `net` is the whole model. Layers that share their statistics among ranks, or by themselves, do not count.
    """
    who, shared = _who_normalises(run), getattr(run.mode, "shares_statistics", False)
    layers = [module for module in net.modules() if isinstance(module, _BatchNorm)]
    own = [layer for layer in layers if not (shared and can_share(layer)) and type(layer).__name__ != "SyncBatchNorm"]
    if not who or not own:
        return []
    told = (
        f"The model has batch normalisation: {who} takes mean and variance from its own rows of a step, not from all "
        f"{run.batch_size}. Results differ a little from those of one device, the more the fewer rows it has."
    )
    by_ranks = run.mode.name == "sync" and run.world_size > 1 and getattr(run.mode, "micro_batches", 1) == 1
    if by_ranks and not shared and any(map(can_share, own)):
        told += " With training.batch_norm: synced the ranks share mean and variance."
    return [told]


def _who_normalises(run: Run) -> str:
    parts = getattr(run.mode, "micro_batches", 1)
    if run.mode.name in ("pipeline", "pipeline+sync") or parts > 1:
        return "each micro-batch"
    if run.world_size > 1:
        return f"each of {run.world_size} ranks"
    replicas = getattr(run.mode, "replicas", 1)
    return f"each of {replicas} replicas" if replicas > 1 else ""
