"""Training defaults of a family on given data: general rules of rows, task and cost, each with its reason."""

from __future__ import annotations

import math
from typing import Any

from codegen.catalog.base import Cost, Facts, Family
from codegen.spec import Metric
from worker.words import counted, share_words, size_words

Defaults = dict[str, tuple[Any, str]]
"""Field of `spec.training` -> (value, reason)."""

CPU_FLOPS_PER_S = 35e9
"""A careful figure for one core in small convolutions (45e9 to 60e9 seen); only bounds the default epochs."""
GPU_FLOPS_PER_S = 4e12
CPU_TIME_S = 400.0
GPU_TIME_S = 600.0
BACKWARD_FACTOR = 3.0
"""A training step costs about three forward passes."""
BYTES_PER_PARAMETER = 4 * 5
"""Weight, gradient, two moments of AdamW, average."""
MEMORY_SHARE = 0.8
"""Of the memory there is, that training may take."""
LEAST_MICRO_ROWS = 2
"""Batch normalisation cannot take a single row."""
RARE = 0.5
"""A class with less than this share of an even share of the rows is worth a word."""
WORKSPACE = 1.25
"""Temporary buffers on top of the activations."""
TABLE_STEPS = 2000
"""That nets on tables usually need; in so many passes at least and at most, whatever the rows:"""
TABLE_EPOCHS = (12, 100)


def training_defaults(family: Family, facts: Facts, cost: Cost) -> Defaults:
    """All fields of `spec.training` but the seed and what depends on the batch and the epochs that are taken."""
    batch, batch_reason = batch_size(facts, cost)
    defaults: Defaults = {
        "batch_size": (batch, batch_reason),
        "optimizer": ("adamw", "works for every family here without tuning"),
        "learning_rate": (family.learning_rate, f"usual peak for {family.title} with AdamW"),
        "schedule": ("cosine", "ends with small steps, which settles the weights"),
        "warmup": (0.1, "the first steps of AdamW are the roughest"),
        "clip_norm": (1.0, "one odd batch cannot throw the weights far"),
        "class_weights": class_weights(facts),
        "precision": ("auto", "16 bits only where the device is built for them"),
        "compression": ("none", "exact; 16 bits halve the messages where the network is the bottleneck"),
        "batch_norm": ("own", "no further messages; synced gives several ranks the result of one device"),
    }
    rules = _image_rules if facts.images else _table_rules
    defaults |= rules(facts, cost, batch)
    defaults |= {name: (value, f"better for {family.title}") for name, value in family.training_overrides.items()}
    return defaults


def epoch_steps(rows: int, batch: int) -> int:
    """Steps of one epoch, by the rule of a run (`worker.shares.epoch_steps`): a small last batch joins the others."""
    full, rest = divmod(rows, batch)
    return max(1, full + int(rest >= 2 and 2 * rest >= batch))


def weights_average(facts: Facts, batch: int, epochs: int) -> tuple[float, str]:
    """Decay of the running average of the weights: over the last tenth of the steps that the run will have."""
    total = epoch_steps(facts.train_rows, batch) * epochs
    decay = round(min(0.999, 1 - 10 / max(total, 20)), 4)
    return decay, f"averages the weights of about the last {1 / (1 - decay):,.0f} of {total:,} steps"


def class_weights(facts: Facts) -> tuple[str, str]:
    """Whether rare classes weigh more in the loss: only where the metric counts every class alike."""
    if facts.regression:
        return "none", "only for classes"
    if facts.metric is Metric.BALANCED_ACCURACY:
        return "balanced", "a balanced accuracy counts every class alike, and so does the loss then"
    if 0 < facts.rarest_share * facts.outputs < RARE:
        rare = f"the rarest class has {share_words(facts.rarest_share, 2)} of the rows"
        return (
            "none",
            f"{rare}: `balanced` finds more of them, with more false alarms; {facts.metric} may fall",
        )
    return "none", f"no class is rare, or {facts.metric} does not ask for weights"


def usual_batch(facts: Facts) -> int:
    """Rows per step that the data suggest, and that the usual rate of a family is for: more where there are more."""
    low, high, share = (32, 128, 64) if facts.images else (32, 1024, 64)
    batch = low
    while batch * 2 <= high and batch * 2 * share <= facts.train_rows:
        batch *= 2
    return batch


def batch_size(facts: Facts, cost: Cost) -> tuple[int, str]:
    """Rows per step: as usual, fewer where memory is short."""
    batch = usual_batch(facts)
    reason = f"about {epoch_steps(facts.train_rows, batch):,} steps per epoch of {facts.train_words}"
    while batch > 8 and facts.memory_bytes and memory_bytes(facts, cost, batch) > MEMORY_SHARE * facts.memory_bytes:
        batch //= 2
        reason = "fewer rows than usual, as memory is short"
    return batch, reason


def micro_batches(facts: Facts, cost: Cost, batch: int, ranks: int) -> tuple[int, str]:
    """Parts of a batch that are worked off one after another: as many as memory asks for."""
    most, parts = max(1, batch // (LEAST_MICRO_ROWS * ranks)), 1
    limit = MEMORY_SHARE * facts.memory_bytes
    while facts.memory_bytes and parts < most and memory_bytes(facts, cost, math.ceil(batch / parts)) > limit:
        parts = min(most, 2 * parts)
    if parts == 1:
        return 1, "a whole batch fits into memory"
    size = size_words(memory_bytes(facts, cost, batch))
    return parts, f"a batch of {batch} rows takes about {size} at once, more than there is"


def memory_bytes(facts: Facts, cost: Cost, batch: int) -> int:
    """Peak of training above the idle process: weights and their state, activations of a batch, the rows held."""
    per_row = cost.activation_bytes * WORKSPACE
    return int(cost.parameters * BYTES_PER_PARAMETER + batch * per_row + facts.rows * cost.input_bytes)


def train_flops(facts: Facts, cost: Cost) -> float:
    """FLOPs of one epoch."""
    return BACKWARD_FACTOR * cost.flops * facts.train_rows


def affordable_epochs(facts: Facts, cost: Cost) -> float:
    """Epochs that the default time, or the wished one, pays for on these devices."""
    speed = (GPU_FLOPS_PER_S if facts.device == "cuda" else CPU_FLOPS_PER_S) * facts.devices
    time_s = 0.8 * facts.time_s if facts.time_s else (GPU_TIME_S if facts.device == "cuda" else CPU_TIME_S)
    return speed * time_s / max(train_flops(facts, cost), 1.0)


def _bounded(wanted: int, least: int, facts: Facts, cost: Cost, reason: str) -> tuple[int, str]:
    affordable = affordable_epochs(facts, cost)  # infinite where the wished time is
    if affordable >= wanted:
        return wanted, reason
    device = counted(facts.devices, "GPU" if facts.device == "cuda" else "CPU core")
    return max(least, int(affordable)), f"{wanted} would suit the data; fewer to stay within minutes on {device}"


def _table_epochs(facts: Facts, batch: int) -> tuple[int, str]:
    steps, (least, most) = epoch_steps(facts.train_rows, batch), TABLE_EPOCHS
    wanted = max(least, min(most, round(TABLE_STEPS / steps)))
    total = f"about {wanted * steps:,} steps in all at {steps:,} per epoch, in the suggested batches of {batch:,} rows"
    if wanted == most:
        return wanted, f"{total}; more passes over so few rows rarely help"
    return wanted, total


def _table_rules(facts: Facts, cost: Cost, batch: int) -> Defaults:
    wanted, reason = _table_epochs(facts, batch)
    patience = max(8, wanted // 3) if facts.train_rows >= 1000 else 0
    small = facts.train_rows < 5000
    return {
        "epochs": _bounded(wanted, 5, facts, cost, reason),
        "patience": (
            (patience, f"{patience} epochs without a better validation figure rarely bring one")
            if patience
            else (0, "too few validation rows to stop by; the whole run takes seconds")
        ),
        "weight_decay": (
            (0.1, "few rows: weights are held small") if small else (0.05, "usual for nets on tables of this size")
        ),
        "label_smoothing": (
            (0.0, "only for classes")
            if facts.regression
            else (0.05, "few rows: the net should not grow too sure")
            if small
            else (0.0, "enough rows to trust the net's own certainty")
        ),
        "augment": ("none", "only for pictures"),
    }


def _image_rules(facts: Facts, cost: Cost, _batch: int) -> Defaults:
    wanted = max(15, min(60, round(2_000_000 / max(1, facts.train_rows))))
    epochs = _bounded(wanted, 5, facts, cost, f"what {facts.train_rows:,} pictures usually need from scratch")
    flips = "shift_flip" if facts.photos else "shift"
    why = (
        "colour pictures: moved and mirrored ones show the same thing (choose shift if left and right matter)"
        if facts.photos
        else "moved pictures show the same thing; mirrored ones may not (digits, letters, signs)"
    )
    return {
        "epochs": epochs,
        "patience": (0, "the last epochs, at small learning rates, are the best ones"),
        "weight_decay": (0.05, "usual for nets on pictures with AdamW"),
        "label_smoothing": (0.1, "keeps the net from growing too sure of its training pictures"),
        "augment": (flips, why),
    }
