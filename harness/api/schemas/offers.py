"""Offers: what a run would cost on every kind of device there is."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from ninja import Schema
from pydantic import BeforeValidator, Field, model_validator

from codegen.moments import day_as_its_end, no_number
from harness.api.schemas.base import Moment, Strict
from harness.api.schemas.jobs import SpecIn


class AskedIn(Strict):
    """What is wanted of an offer. Deadline, device, count and mode that are left out are those of the spec."""

    deadline: Annotated[datetime, BeforeValidator(no_number), BeforeValidator(day_as_its_end)] | None = Field(
        None,
        description="Requested finish; null: none. Without a zone: UTC; a day alone means its end. Of a job that was "
        "submitted it stays.",
    )
    earliest: bool = Field(
        False,
        description="Request the earliest finish that can be promised; the answer has it as its `deadline`. Of a "
        "program that is not read yet (`waiting`) ask once more when it is.",
    )
    device: Literal["cpu", "cuda"] | None = Field(None, description="Fix the kind of device; null: any.")
    device_model: str | None = Field(
        None, max_length=120, description="Fix the device as its maker names it; null: any."
    )
    count: int | None = Field(None, ge=1, le=100_000, description="Fix the number of devices; null: any.")
    mode: Literal["single", "replicated", "sync", "async", "pipeline", "pipeline+sync"] | None = Field(
        None,
        description="How the devices work together; null: as in the spec. Unasked are single and sync, and pipelines "
        "where they are surely better.",
    )

    @model_validator(mode="after")
    def _one_finish(self) -> AskedIn:
        if self.earliest and "deadline" in self.model_fields_set:
            raise ValueError("give deadline or earliest, not both")
        return self


class JobOfferIn(AskedIn):
    """An offer for a draft, or a job that waits or is paused."""

    again: bool = Field(False, description="Try again to read a program that could not be read.")


class SpecOfferIn(SpecIn, AskedIn):
    """An offer without a job: for a spec on a dataset, or for a workload of a program outside the portal."""

    dataset: str | None = Field(None, description="Id of a dataset that has been read; with `spec` or `yaml`.")
    model: str | None = Field(None, max_length=1_048_576, description="Text of your own model.py with build(spec).")
    workload: dict[str, Any] | None = Field(
        None,
        description="What one training step does, operator by operator, as `python -m worker.runtime.inspection.trace` "
        "prints it (`scheduler.workload.Workload`); instead of dataset and spec.",
    )
    project: str = Field("", description="Slug: whose quota counts for a workload; empty: none.")
    title: str = Field("", max_length=160)

    @model_validator(mode="after")
    def _one_source(self) -> SpecOfferIn:
        if (self.dataset is None) == (self.workload is None):
            raise ValueError("give dataset (with spec or yaml) or workload, one of both")
        return self


class AcceptIn(Strict):
    """Which line to take."""

    line: int | None = Field(None, ge=0, description="`place` of the line; null: the recommended one.")
    made_at: Moment | None = Field(
        None,
        description="`made_at` of the offer that you look at; it has to be given with `line`. Where the offer was "
        "priced anew since, nothing is taken. With a time zone.",
    )
    elastic: bool = Field(
        True,
        description="The scheduler may use other numbers of the same devices for promises; of a line that is not the "
        "recommended one only such that run no longer.",
    )
    submit: bool = Field(False, description="Queue the job at once.")
    promise: bool = Field(
        True,
        description="false: a line that may be late can be taken, too (null: the likeliest), and the job is queued "
        "although its deadline cannot be promised.",
    )

    @model_validator(mode="after")
    def _a_line_of_what_was_seen(self) -> AcceptIn:
        if self.line is not None and self.made_at is None:
            raise ValueError("with line give made_at of the offer that you look at: lines change places")
        return self


class ProbeIn(Strict):
    """On what to try a few real steps."""

    device: Literal["cpu", "cuda"] | None = Field(None, description="Kind of device; null: any idle one.")
    device_model: str | None = Field(None, max_length=120)


class ProbeOut(Schema):
    """A few real steps on a device."""

    id: str
    state: str = Field(description="`waiting`, `done` or `failed`.")
    device: str
    device_model: str
    node: str
    batch_size: int = Field(
        description="Rows of its steps: those of one rank of the devices that the offer recommends, or that are fixed; "
        "where ranks hold stages, those of a micro-batch."
    )
    step_s: list[float]
    peak_bytes: int | None
    power_w: float | None = Field(description="Of its device while it ran; null where no meter could be read.")
    problem: dict[str, Any] | None


class IntervalOut(Schema):
    """A figure and the range that holds it with probability `level`."""

    low: float
    mid: float
    high: float
    level: float = Field(
        examples=[0.8],
        description="0.8 for times and energies; 0.88 for memory, of which 0.98 lie below the upper end.",
    )


class LineOut(Schema):
    """One way to run it."""

    place: int = Field(description="In the offer, from 0.")
    words: str = Field(examples=["2 CPU cores, one rank each"])
    device: str
    device_model: str
    count: int
    mode: str
    batch_split: list[int] = Field(description="Rows per rank of a step.")
    stages: int | None = Field(description="Into which each pipeline cuts the model; null: none does.")
    start: datetime | None = Field(description="When so many devices are expected to be free; null: never.")
    finish_low: datetime | None
    finish: datetime | None = Field(description="The likely one.")
    finish_high: datetime | None = Field(
        description="A deadline is kept where this lies before it and a finish can be promised at all (`offered`)."
    )
    step_s: IntervalOut
    run_s: IntervalOut
    peak_bytes: IntervalOut = Field(description="Of one rank, above an idle process.")
    memory_limit_bytes: int = Field(description="What a rank gets there.")
    power_w: float = Field(description="All devices while it runs, their idle share included.")
    energy_j: IntervalOut = Field(
        description="Of the run, of the range test before it, and of devices that wait for the data."
    )
    test_s: float = Field(description="Of a range test that finds the learning rate before the run; 0: there is none.")
    data_s: float = Field(
        description="To bring the data to a node that does not have them, before the run: in the finish, not in the "
        "time of the run. 0: they are there."
    )
    data_high_s: float = Field(description="Upper end of that, which `finish_high` counts.")
    data_bytes: int = Field(description="So much is brought.")
    data_node: str = Field(description="To there; of several that it may be the one where it takes longest.")
    data_basis: str | None = Field(
        description="`measured` at former fetches of that node, or `assumed` (the pool's `data_mib_per_s`)."
    )
    data_words: str = Field(examples=["up to 3 min, likely 2 min, to bring 3.1 GiB to node b (measured)"])
    time_basis: str = Field(description="`measured`, `modelled` or `assumed`.")
    memory_basis: str
    energy_basis: str
    note: str = Field(description="What the figures rest on.")
    offered: bool
    hindrance: str | None = Field(description="memory, deadline, not_wished, quota, never_free; null: offered.")
    why: str = Field(description="The hindrance in words; offered: what else to know of it, or empty.")
    chance: float | None = Field(description="Probability that it ends by the deadline; null: there is none.")
    frontier: bool = Field(description="Nothing that could be taken is both surely cheaper and earlier.")
    marks: list[str] = Field(
        description="recommended; fastest: with the earliest `finish_high`; cheapest: with the least energy, where "
        "pipelines that nobody asked for count by its upper end."
    )


class OfferOut(Schema):
    """All options, and the one that is recommended."""

    id: str
    state: str = Field(description="`waiting` (a node reads the program), `ready`, `failed`, `accepted`.")
    title: str
    job: str | None
    project: str | None
    deadline: datetime | None
    wish: dict[str, Any]
    text: str = Field(description="What is offered, or why nothing is.")
    changes: list[str] = Field(description="What would have to change, where nothing is offered.")
    earliest_finish: datetime | None = Field(description="Earliest finish that could be promised.")
    recommended: int | None = Field(description="`place` of the recommended line.")
    lines: list[LineOut]
    notes: list[str] = Field(description="What the figures rest on.")
    problem: dict[str, Any] | None = Field(
        description="Why it failed: the program cannot be read (unless that is `at_fault` itself, ask for a probe), or "
        "pricing failed (code `not_priced`: ask again)."
    )
    probe: ProbeOut | None
    accepted: dict[str, Any] | None = Field(description="The allocation that was taken.")
    trace_s: float | None = Field(description="Seconds that reading the program took.")
    priced_s: float | None = Field(description="Seconds that pricing took.")
    created_at: datetime
    made_at: datetime | None = Field(description="When it was priced last; null: it is not.")


class EstimateOut(Schema):
    """What a job was expected to cost, and what it cost so far."""

    estimate: dict[str, Any] | None = Field(
        description="`scheduler.estimation.values.Estimate` of the whole run; null: none was made. Of one that stopped "
        "early the epochs that were not made take `epoch_s` each less."
    )
    actual: dict[str, float | None] = Field(description="step_s, run_s, peak_bytes, energy_j once it has succeeded.")
    actual_energy_basis: str | None = Field(
        description="Of the actual energy: `measured` by meters, `assumed` from a table of power; null: none is known."
    )
