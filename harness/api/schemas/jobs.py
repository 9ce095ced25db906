"""Jobs: spec, program, run, results."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from ninja import Schema
from pydantic import Field, field_validator, model_validator

from harness.api.schemas.base import Strict
from harness.api.schemas.datasets import DatasetRef
from harness.api.schemas.weights import WeightsRef
from harness.jobs.promises import PromiseState
from worker.states import JobState

_SPEC = {"task": "image_classification", "training": {"epochs": 12}}
_CHANGES = {"training.epochs": 3}


class SpecIn(Strict):
    """A task spec, as values or as YAML text; every field may be left out or be `auto`."""

    spec: dict[str, Any] | None = Field(None, description="See /spec/schema.", examples=[_SPEC])
    yaml: str | None = Field(None, max_length=200_000, description="The same as YAML text, instead of `spec`.")

    @field_validator("spec", mode="before")
    @classmethod
    def _no_text(cls, value: object) -> object:
        """Who sends a file as it is learns where it goes."""
        if isinstance(value, str):
            raise ValueError("must be an object; YAML text goes into the field yaml")
        return value

    @model_validator(mode="after")
    def _one_of_both(self) -> SpecIn:
        if self.spec is not None and self.yaml is not None:
            raise ValueError("give spec or yaml, not both")
        return self

    @property
    def wish(self) -> str | dict[str, Any]:
        """What to hand to a service."""
        if self.yaml is not None:
            return self.yaml
        return self.spec or {}


class SpecCheckIn(SpecIn):
    """A spec to check, alone or against a dataset."""

    dataset: str | None = Field(None, description="Id of a dataset; without it only the schema is checked.")
    own_model: bool | None = Field(
        None, description="Whether a model.py of your own goes with it: what is left at `auto` is then chosen for that."
    )


class SpecForDatasetIn(SpecIn):
    """A spec for a dataset."""

    dataset: str = Field(description="Id of a dataset that has been read.", examples=["k3v8q2m7h4tz"])


class Problem(Schema):
    """One thing that is wrong with a spec."""

    field: str = Field(examples=["training.epochs"])
    message: str


class SpecCheckOut(Schema):
    """What would become of a spec."""

    ok: bool
    spec: dict[str, Any] | None = Field(description="The spec with every field, `auto` included.")
    resolved: dict[str, Any] | None = Field(description="`spec` without `auto`, and `guesses` with reasons.")
    yaml: str | None = Field(description="The spec as commented YAML.")
    problems: list[Problem]


class SuggestionsOut(Schema):
    """Models for the data, best first; see `codegen.types.Suggestion`."""

    items: list[dict[str, Any]]


class JobIn(SpecForDatasetIn):
    """A new job, as a draft."""

    project: str = Field("", description="Slug; empty: the dataset's project.")
    name: str = Field("", max_length=120, description="Empty: made from dataset and model.")
    model: str | None = Field(None, max_length=1_048_576, description="Text of your own model.py with build(spec).")
    files: dict[str, str] | None = Field(None, description="Texts that replace generated files, by name.")
    changes: dict[str, Any] = Field(
        {}, description="Value by dotted name of a field, over what the spec says.", examples=[_CHANGES]
    )
    submit: bool = Field(False, description="Queue it at once.")
    promise: bool = Field(True, description="false: queue it although its deadline cannot be promised.")


class SubmitIn(Strict):
    """How it is queued."""

    promise: bool = Field(True, description="false: queue it although its deadline cannot be promised.")


class JobPatch(SpecIn):
    """What to change; the spec only while the job is a draft."""

    name: str | None = Field(None, max_length=120)
    notes: str | None = Field(None, max_length=20_000)
    tags: list[str] | None = Field(None, max_length=20)
    expected_spec_sha256: str = Field(
        "",
        max_length=64,
        description="Refuse the spec (409 `changed`) unless the job's `spec_sha256` is still this; empty: do not ask.",
    )


class CloneIn(Strict):
    """How the clone is called, and what is otherwise."""

    name: str = Field("", max_length=120)
    changes: dict[str, Any] = Field({}, description="Value by dotted name of a field of the spec.", examples=[_CHANGES])


class ResumeIn(Strict):
    """Where to go on from."""

    checkpoint: str = Field("", max_length=40, description="Empty: the newest good one.", examples=["step-00000240"])


class JobOut(Schema):
    """A job as lists show it."""

    id: str = Field(examples=["m4x7d2p9c5ra"])
    name: str
    project: str = Field(description="Slug of its project.")
    owner: str
    dataset: DatasetRef
    parent: str | None = Field(description="Id of the job it was cloned from.")
    state: JobState
    waiting_code: str
    waiting_text: str = Field(description="Why it waits, in words.")
    failure: dict[str, Any] | None = Field(description="code, message, hint, step, traceback.")
    task: str
    family: str
    tags: list[str]
    program_edited: bool
    program_own: bool
    step: int
    steps_total: int
    epoch: float
    epochs: int
    progress: float = Field(description="0-1, from the steps; 1 of a job that has succeeded.")
    samples_per_s: float | None = Field(description="Rows or pictures per second over all ranks, while it has devices.")
    eta_s: float | None = Field(description="Seconds left of a job that has devices: until `expected_finish_at`.")
    idle_s: float | None = Field(
        description="Seconds without progress, once they are many times what a step takes. Null, too, while control "
        "stands still (`control` of /health): nobody knows it then."
    )
    phase: str
    metric_name: str
    metric_best: float | None = Field(description="Best value on the validation part.")
    metric_test: float | None
    last_values: dict[str, float | None] = Field(
        description="The newest value of each metric. `rankN/...` are of the ranks that are there; of a job without "
        "devices of those that were there when it last ran."
    )
    restarts: int
    sandbox_level: int | None
    created_at: datetime
    queued_at: datetime | None
    placed_at: datetime | None
    running_at: datetime | None
    finished_at: datetime | None
    deleted_at: datetime | None
    run_s: float
    deadline_at: datetime | None = Field(description="Requested finish.")
    promised_at: datetime | None = Field(description="Finish promised at admission.")
    expected_start_at: datetime | None = Field(description="Of a job that waits an estimate; else when it started.")
    expected_start_low_at: datetime | None = Field(
        description="With `expected_start_high_at`: range of the start while it waits; plans use the upper end."
    )
    expected_start_high_at: datetime | None
    expected_finish_at: datetime | None = Field(
        description="Null: nothing is known of it yet, it makes no progress (`idle_s`), or it runs while control "
        "stands still."
    )
    expected_low_at: datetime | None = Field(description="With `expected_high_at`: holds the finish 8 times out of 10.")
    expected_high_at: datetime | None
    slack_s: float | None = Field(
        description="Promised minus expected finish; negative: late. Once it has succeeded, promised (else requested) "
        "minus real finish."
    )
    warning: str = Field(description="What is said while the slack of its promise shrinks.")
    columns: dict[str, Any] = Field({}, description="Values by column, where columns or a view are asked for.")


class PromiseOut(Schema):
    """What admission said of the requested finish."""

    state: PromiseState = PromiseState.NONE
    text: str = Field("", description="The same in words.")
    finish_at: datetime | None = Field(None, description="Finish that was expected when it was promised.")
    admitted_at: datetime | None = Field(None, description="When it was promised.")


class AwaitedOut(Schema):
    """Results of a run that ended with success, which only a node that does not answer has."""

    node: str
    until: datetime = Field(description="Then it trains again from its newest checkpoint; *resume* has it do so now.")
    pauses: bool = Field(description="It is paused then instead, as a person had asked for.")


class JobDetail(JobOut):
    """A job with its spec."""

    notes: str
    spec: dict[str, Any]
    resolved: dict[str, Any]
    suggestions: list[dict[str, Any]]
    program_sha256: str
    spec_sha256: str = Field(description="Another one whenever its spec is; see `expected_spec_sha256` of its change.")
    priority: int
    token: int
    resume_from: str
    queue_position: int | None = Field(description="From 1 while it waits.")
    reserved_until: datetime | None = Field(
        description="Where it has no expected times and waits for devices that are reserved: until about then."
    )
    weights: WeightsRef | None = Field(description="The weights file that it starts from; null: fresh weights.")
    promise: PromiseOut
    options: list[dict[str, Any]] = Field(description="Ways to run it that the scheduler may choose from.")
    mode: str = Field(
        description="How its devices work together: of the newest attempt, or of the offer taken since; else "
        "of the spec."
    )
    mode_why: str = Field(description="Why it is that mode.")
    learning_rate: float | None = Field(description="Peak, as resolved; null: spec.yaml was edited by hand.")
    learning_rate_why: str = Field(description="Where it comes from: the family, a rule, a range test, the spec.")
    rate_test_first: bool = Field(description="A draft that was submitted and is queued by itself after a range test.")
    awaited: AwaitedOut | None = Field(description="What it waits for while it is `returning`; null: its node answers.")
    emulated: str = Field(description="Its devices that were declared slower than they are; empty: none.")


class JobChanged(JobDetail):
    """A job that was changed."""

    left_out: list[str] = Field(description="What of an edited spec.yaml gave way to the change, in sentences.")


class CloneOut(JobDetail):
    """A new draft that is a copy."""

    left_out: list[str] = Field(description="What was not taken over, and why, in sentences.")
