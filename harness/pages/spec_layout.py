"""Where each field of a spec stands in its form, and what it is called there."""

from __future__ import annotations

_LABELS = {
    "data.exclude": "Columns to leave out",
    "data.split.validation": "Validation share",
    "data.split.test": "Test share",
    "data.split.by": "Split by",
    "data.split.column": "Column of groups or time",
    "data.time": "Column of time (forecast)",
    "data.series": "Column of series (forecast)",
    "data.horizon": "Steps ahead (forecast)",
    "data.history": "Last values shown (forecast)",
    "data.known": "Columns known ahead (forecast)",
    "budget.deadline": "Done by (your time)",
    "budget.time_s": "Time limit (s)",
    "resources.memory_gib": "Memory (GiB)",
    "resources.device_model": "Model of device",
    "resources.count": "Number of devices",
    "resources.split": "Rows of a step",
    "resources.least": "Ranks it can continue with",
    "model.weights": "Weights to start from",
    "model.weights_match": "Tensors that must fit",
    "training.ema": "Weight averaging",
    "training.rate_rule": "Rate for another batch",
    "training.accumulate": "Micro-batches per step",
    "training.precision": "Computes in",
    "training.compression": "Gradient messages",
    "training.batch_norm": "Batch normalisation (sync)",
    "training.staleness": "Age of gradients (async)",
    "training.backup": "Backup ranks (async)",
    "pipeline.stages": "Stages of the model",
    "pipeline.micro_batches": "Micro-batches of the stages",
    "pipeline.recompute": "Compute activations again",
    "checkpoints.every_epochs": "Every … epochs",
    "checkpoints.every_minutes": "Every … minutes",
    "checkpoints.keep": "Newest kept",
    "checkpoints.commit_steps": "Steps a lost rank costs",
}
WHOLE_NUMBERS = {
    "epochs", "batch_size", "seed", "patience", "count", "every_epochs", "keep", "accumulate", "staleness", "backup",
    "stages", "micro_batches", "least", "commit_steps", "horizon", "history",
}  # fmt: skip
OF_FORECASTS = ("data.time", "data.series", "data.horizon", "data.history", "data.known")
GROUPS: tuple[tuple[str, bool, tuple[str, ...]], ...] = (
    ("What to learn, and by when", True, ("name", "task", "data.target", "objective.metric", "budget.deadline")),
    (
        "Data",
        False,
        (
            "data.features", "data.exclude", "data.split.validation", "data.split.test", "data.split.by",
            "data.split.column", *OF_FORECASTS,
        ),
    ),
    (
        "Training",
        False,
        (
            "training.epochs", "training.batch_size", "training.learning_rate", "training.rate_rule",
            "training.optimizer",
            "training.weight_decay", "training.schedule", "training.warmup", "training.label_smoothing",
            "training.class_weights",
            "training.ema", "training.clip_norm", "training.augment", "training.patience", "training.seed",
            "training.precision", "training.accumulate", "training.compression", "training.batch_norm",
            "training.staleness", "training.backup",
        ),
    ),
    ("Weights that were trained before", False, ("model.weights", "model.weights_match")),
    (
        "Devices and budget",
        False,
        (
            "mode", "resources.device", "resources.device_model", "resources.count", "resources.memory_gib",
            "resources.split", "resources.least", "budget.time_s",
        ),
    ),
    (
        "Stages (modes pipeline and pipeline+sync)",
        False,
        ("pipeline.stages", "pipeline.micro_batches", "pipeline.schedule", "pipeline.recompute"),
    ),
    (
        "Checkpoints",
        False,
        (
            "checkpoints.every_epochs", "checkpoints.every_minutes", "checkpoints.keep", "checkpoints.commit_steps",
        ),
    ),
)  # fmt: skip


def spec_label(path: str) -> str:
    """A field in words."""
    return _LABELS.get(path, path.rsplit(".", 1)[-1].replace("_", " ").capitalize())
