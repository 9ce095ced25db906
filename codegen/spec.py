"""`TaskSpec`: what a person wants. One schema behind YAML, form, API and CLI; every field may be `auto`.

`TaskSpec.model_json_schema()` is the published JSON Schema; `codegen.resolve` replaces each `auto` by a
value with its reason.
"""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, FiniteFloat, model_validator

from codegen.moments import day_as_its_end

Auto = Literal["auto"]
MOST = 10_000_000
"""Largest count that is taken for meant: beyond it no run would end and no column could hold it."""
RATE_MOST = 100.0
"""Largest peak learning rate: far beyond what any run trains with."""


def _no_flag(value: object) -> object:
    """`yes` and `true` are no numbers, though Python counts them as 1."""
    if isinstance(value, bool):
        raise ValueError(f"must be a number, not {str(value).lower()}")
    return value


def _in_a_zone(moment: datetime) -> datetime:
    """One without a zone is taken for UTC, so that whoever reads it need not guess."""
    known = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    try:
        known.astimezone(UTC)
    except OverflowError as error:
        raise ValueError("must lie in the years 1 to 9999, in UTC as well") from error
    return known


Number = BeforeValidator(_no_flag)
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False), Number]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False), Number]
Rate = Annotated[float, Field(gt=0, le=RATE_MOST, allow_inf_nan=False), Number]
Count = Annotated[int, Field(ge=1, le=MOST), Number]
Fraction = Annotated[float, Field(ge=0, lt=1)]
Moment = Annotated[datetime, BeforeValidator(day_as_its_end), AfterValidator(_in_a_zone)]


class Task(StrEnum):
    """Problem types."""

    TABULAR_CLASSIFICATION = "tabular_classification"
    TABULAR_REGRESSION = "tabular_regression"
    FORECAST = "forecast"
    IMAGE_CLASSIFICATION = "image_classification"


NUMBER_TASKS = frozenset({Task.TABULAR_REGRESSION, Task.FORECAST})
"""Those whose answer is a number."""


class Metric(StrEnum):
    """What the best checkpoint is chosen by."""

    ACCURACY = "accuracy"
    BALANCED_ACCURACY = "balanced_accuracy"
    MACRO_F1 = "macro_f1"
    ROC_AUC = "roc_auc"
    LOG_LOSS = "log_loss"
    R2 = "r2"
    RMSE = "rmse"
    MAE = "mae"


class Part(BaseModel):
    """Base of all parts: unknown fields are errors, values are frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Split(Part):
    """Shares of the rows, `train` is what is left; and which rows go together."""

    validation: Fraction = Field(default=0.15, description="Share of rows used to choose the best checkpoint.")
    test: Fraction = Field(default=0.15, description="Share of rows used only for the final figures.")
    stratify: bool | Auto = Field(default="auto", description="Keep the class balance in every part (classification).")
    by: Literal["auto", "random", "group", "time"] = Field(
        default="auto",
        description="group: all rows of one customer, patient or device in one part; time: the latest rows are the "
        "test; auto: random, unless a column is named.",
    )
    column: str | Auto = Field(default="auto", description="Column with the groups, or with the time (tables).")

    @model_validator(mode="after")
    def _leaves_training_rows(self) -> Split:
        if self.validation + self.test >= 1:
            raise ValueError(
                f"impossible split: validation {self.validation} + test {self.test} leaves no rows to train on"
            )
        return self


class Data(Part):
    """Which data, and how it is read."""

    dataset: str = Field(default="auto", description="Id or name of a dataset of the project.")
    target: str | Auto = Field(
        default="auto", description="Column to predict (tables); pictures use their class folders."
    )
    features: list[str] | Auto = Field(default="auto", description="Columns to learn from; auto: all useful ones.")
    exclude: list[str] = Field(default_factory=list, description="Columns to leave out.")
    split: Split | Auto = Field(
        default="auto",
        description="Shares of rows for validation and test, and which rows: random, group, time.",
    )
    time: str | Auto = Field(
        default="auto", description="Forecast: column of dates by which rows follow one another evenly."
    )
    series: str | Auto = Field(
        default="auto",
        description="Forecast: column that says which series a row belongs to, where a table holds several, e.g. shop.",
    )
    horizon: Count | Auto = Field(
        default="auto", description="Forecast: how many steps ahead, e.g. 14 for two weeks of daily rows."
    )
    history: Count | Auto = Field(
        default="auto",
        description="Forecast: how many of the last values the model is shown, beside those a season ago.",
    )
    known: list[str] | Auto = Field(
        default="auto",
        description="Forecast: columns whose values are known for the moments to come, e.g. prices, holidays, "
        "promotions; a forecast then takes rows with them. auto: none.",
    )


class Objective(Part):
    """What counts as good."""

    metric: Metric | Auto = Field(default="auto", description="The metric that picks the best checkpoint.")


class Budget(Part):
    """What the person is willing to spend."""

    deadline: Moment | Auto = Field(
        default="auto", description="Requested finish time, UTC unless it names a zone; a day alone means its end."
    )
    time_s: Positive | Auto = Field(
        default="auto", description="Training stops, with its best checkpoint, after this long."
    )


class Resources(Part):
    """Devices to run on."""

    device: Literal["auto", "cpu", "cuda"] = Field(default="auto", description="Kind of device.")
    count: Count | Auto = Field(default="auto", description="How many devices (CPU cores or GPUs).")
    memory_gib: Positive | Auto = Field(
        default="auto",
        description="Memory limit of the run, over all its ranks; auto: the share of its node's memory that goes with "
        "its devices.",
    )
    split: Literal["auto", "even", "by_speed", "measured"] = Field(
        default="auto",
        description="Rows of a step per device: even, by speed where devices are not alike, or always as measured.",
    )
    least: Count | Auto = Field(
        default="auto",
        description="Mode sync on CPU cores: ranks with which the run goes on when others are lost, or "
        "when their cores are needed by jobs that go before it; auto: all start again.",
    )


class Model(Part):
    """Which model."""

    family: str | Auto = Field(default="auto", description="Model family, `own` for a person's model.py.")
    size: Literal["auto", "small", "medium", "large"] = Field(default="auto", description="Size preset of the family.")
    params: dict[str, int | FiniteFloat | str | bool] = Field(
        default_factory=dict,
        description="Knobs of the family, e.g. conv_layers, filters, kernel, image_size.",
    )
    weights: str = Field(
        default="auto",
        max_length=120,
        description="Id or name of a weights file of the project that training starts from; auto: fresh weights.",
    )
    weights_match: Literal["auto", "fitting", "all"] = Field(
        default="auto",
        description="fitting: tensors of the weights file whose name and shape fit are taken, the others stay fresh; "
        "all: what does not fit is refused.",
    )

    @model_validator(mode="after")
    def _matches_something(self) -> Model:
        if self.weights_match != "auto" and self.weights == "auto":
            raise ValueError("weights_match says how a weights file is taken; name one in model.weights")
        return self


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
    seed: Annotated[int, Field(ge=0, lt=2**32)] | Auto = Field(
        default="auto", description="Seed of weights, order, split."
    )
    patience: Annotated[int, Field(ge=0, le=MOST)] | Auto = Field(
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
        description="Mode async: most updates of other ranks between a rank's reading of the weights and its own.",
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


MODE_WORDS = {
    "single": "one process on one device",
    "replicated": "one process with a replica of the model on each device",
    "sync": "one process per device, gradients averaged after every step",
    "async": "one process per device, gradients sent to parameter servers without waiting",
    "pipeline": "one process per device, each with a stage of the model",
    "pipeline+sync": "several pipelines side by side, gradients averaged stage by stage",
}
"""What each mode does, wherever one is chosen."""


class TaskSpec(Part):
    """The whole wish."""

    name: str = Field(default="", max_length=120, description="Name of the job; empty: made from dataset and model.")
    task: Task | Auto = Field(default="auto", description="Problem type.")
    data: Data = Field(default_factory=Data)
    objective: Objective = Field(default_factory=Objective)
    budget: Budget = Field(default_factory=Budget)
    resources: Resources = Field(default_factory=Resources)
    mode: Literal["auto", "single", "replicated", "sync", "async", "pipeline", "pipeline+sync"] = Field(
        default="auto",
        description="How the devices work together. "
        + "; ".join(f"{mode}: {words}" for mode, words in MODE_WORDS.items())
        + ".",
    )
    pipeline: Pipeline = Field(default_factory=Pipeline)
    model: Model = Field(default_factory=Model)
    training: Training = Field(default_factory=Training)
    checkpoints: Checkpoints = Field(default_factory=Checkpoints)
