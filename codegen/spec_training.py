"""Parts of a `TaskSpec` on the training itself: how the model is trained, cut into stages, and saved."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from codegen.spec_values import MOST, Auto, Count, Fraction, NotNegative, Number, Part, Positive, Rate


class Training(Part):
    """How it is trained."""

    epochs: Count | Auto = Field(default="auto", description="Passes over the training rows.")
    batch_size: Count | Auto = Field(default="auto", description="Rows per optimizer step, over all ranks.")
    learning_rate: Rate | Auto = Field(
        default="auto", description="Peak learning rate, at most 100; usual are 0.00001 to 1."
    )
    rate_rule: Literal["auto", "none", "linear", "sqrt", "range", "trials"] = Field(
        default="auto",
        description="How a learning rate left to auto follows a batch other than the usual: in proportion, by its "
        "root, not at all, or by a range test before the run; trials: by short trainings before the run, whatever "
        "the batch.",
    )
    weight_decay: NotNegative | Auto = Field(default="auto", description="Decoupled weight decay.")
    optimizer: Literal["auto", "adamw", "sgd"] = Field(default="auto", description="Optimizer.")
    seed: Annotated[int, Field(ge=0, lt=2**32), Number] | Auto = Field(
        default="auto", description="Seed of weights, order, split."
    )
    patience: Annotated[int, Field(ge=0, le=MOST), Number] | Auto = Field(
        default="auto", description="Epochs without improvement before stopping early; 0: never."
    )
    schedule: Literal["auto", "cosine", "constant"] = Field(
        default="auto", description="Learning rate after the warm-up: cosine falls to zero by the last step."
    )
    warmup: Fraction | Auto = Field(
        default="auto", description="Share of all steps over which the learning rate rises."
    )
    label_smoothing: Fraction | Auto = Field(
        default="auto", description="Share of the target probability spread over all classes (classification)."
    )
    class_weights: Literal["auto", "none", "balanced"] = Field(
        default="auto",
        description="balanced: a row counts in the loss the more, the rarer its class is, so that all classes count "
        "alike (classification); finds more of the rare ones, at the cost of more false alarms.",
    )
    ema: Fraction | Auto = Field(
        default="auto",
        description="Decay per step of the moving average of the weights that is evaluated and kept; 0: off.",
    )
    clip_norm: NotNegative | Auto = Field(
        default="auto", description="Gradients with a larger norm are scaled down to it; 0: off."
    )
    augment: Literal["auto", "none", "shift", "shift_flip"] = Field(
        default="auto",
        description="Random changes of training pictures: shift by up to an eighth, mirror left and right.",
    )
    accumulate: Count | Auto = Field(
        default="auto",
        description="Micro-batches per optimizer step: a rank takes its rows in this many parts, to save memory.",
    )
    precision: Literal["auto", "float32", "bf16", "fp16"] = Field(
        default="auto",
        description="What layers compute in; weights stay in float32. auto: bf16 on GPUs that are built for it "
        "(compute capability 8.0 or more), fp16 on older ones that are fast in it (V100, T4), else float32. "
        "bf16, fp16: everywhere, even where it is slower. With fp16 the loss is scaled.",
    )
    compression: Literal["auto", "none", "fp16", "bf16"] = Field(
        default="auto", description="What gradients are rounded to on their way between ranks; the sum is rounded too."
    )
    batch_norm: Literal["auto", "own", "synced"] = Field(
        default="auto",
        description="Mode sync: each rank takes mean and variance of batch normalisation from its own rows of a step "
        "(own), or from those of all ranks as one device would (synced), for two small messages per layer and step.",
    )
    staleness: Annotated[int, Field(ge=0, le=MOST), Number] | Auto = Field(
        default="auto",
        description="Mode async: most updates of other ranks between a rank's reading of the weights and its own. "
        "Not beside backup.",
    )
    backup: Annotated[int, Field(ge=0, le=MOST), Number] | Auto = Field(
        default="auto",
        description="Mode async, but in step: a step is made without the gradients of this many of the last ranks. "
        "auto: each gradient is an update by itself.",
    )


class Pipeline(Part):
    """How the model is cut into stages (modes pipeline and pipeline+sync only)."""

    stages: Count | Auto = Field(
        default="auto", description="Stages of the model; auto: one per device, or two in several pipelines."
    )
    micro_batches: Count | Auto = Field(
        default="auto", description="Parts of a batch that follow one another through the stages; 1: no overlap."
    )
    schedule: Literal["auto", "gpipe", "1f1b"] = Field(
        default="auto", description="gpipe: all forward, then all backward; 1f1b: in turns, for less memory."
    )
    recompute: bool | Auto = Field(
        default="auto", description="Compute activations again for the backward pass instead of keeping them."
    )


class Checkpoints(Part):
    """When the run is saved, and what is kept besides the best."""

    every_epochs: Count | Auto = Field(default="auto", description="Save after this many epochs.")
    every_minutes: Positive | Auto = Field(default="auto", description="Save after this many minutes.")
    keep: Count | Auto = Field(default="auto", description="Newest checkpoints kept; the best is always kept.")
    commit_steps: Count | Auto = Field(
        default="auto", description="With resources.least: the most steps that a lost rank may cost."
    )
