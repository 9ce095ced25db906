"""`TaskSpec`: what a person wants. One schema behind YAML, form, API and CLI; every field may be `auto`.

`TaskSpec.model_json_schema()` is the published JSON Schema; `codegen.resolve` replaces each `auto` by a
value with its reason. Its parts on training are in `codegen.spec_training`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import Field, FiniteFloat, model_validator

from codegen.spec_training import Checkpoints, Pipeline, Training
from codegen.spec_values import Auto, Count, Fraction, Moment, Part, Positive


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
    device_model: str = Field(
        default="auto",
        max_length=200,
        description="Model of device as the pool names it, e.g. NVIDIA A100; auto: any of its kind.",
    )
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
