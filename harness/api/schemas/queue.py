"""The queue, reservations, quotas, drains, use of devices."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, TypeVar

from ninja import Schema
from pydantic import Field

from harness.api.schemas.base import Done, Items, Moment, PageOf, Strict

Used = TypeVar("Used")
OUTLASTING = "Who is expected to be on the devices still when it begins: nothing stops them."
BORROWS = "More, while no other project wants them. Null: as it is, and true of a new quota."


class QueueJob(Schema):
    """A job of the queue that the caller may see."""

    id: str
    name: str
    project: str = Field(description="Slug.")
    owner: str


class QueueRowOut(Schema):
    """One job that waits or runs; of others' projects only place, devices and times are told."""

    job: QueueJob | None
    state: str
    position: int | None = Field(description="From 1 while it waits.")
    devices: str = Field(description="Wanted or held.", examples=["2 GPUs"])
    priority: int
    waiting_text: str = Field(description="Why it waits, and what would let it start now.")
    expected_start_at: datetime | None = Field(description="Of a job that waits an estimate; else when it started.")
    expected_start_low_at: datetime | None = Field(
        description="With `expected_start_high_at`: range of the start while it waits; plans use the upper end."
    )
    expected_start_high_at: datetime | None
    expected_finish_at: datetime | None
    expected_low_at: datetime | None = Field(description="With `expected_high_at`: holds the finish 8 times out of 10.")
    expected_high_at: datetime | None
    reserved_until: datetime | None = Field(
        description="Where it has no expected times and waits for devices that are reserved: until about then."
    )
    idle_s: float | None = Field(
        description="Seconds without progress, once they are many: no times then. While control stands still "
        "(`control` of /health) nobody knows it, nor when a run ends."
    )
    promised_at: datetime | None
    slack_s: float | None = Field(description="Promised minus expected finish; negative: late.")
    warning: str
    borrows: bool = Field(description="Above its project's quota: put back when the lender needs its devices.")
    can_go_up: bool = Field(description="An admin may move it before another waiting job.")
    can_go_down: bool = Field(description="An admin may move it behind another waiting job.")


class QueueOut(Schema):
    """Everything that waits, in the order it is served, and everything that holds devices."""

    waiting: list[QueueRowOut]
    running: list[QueueRowOut]


class QueuePatch(Strict):
    """A new priority."""

    priority: int = Field(ge=-100, le=100, description="Higher goes first.")


class QueueMove(Strict):
    """Where a waiting job goes: one of both."""

    to: Literal["up", "down", "first", "last"] | None = None
    before: str | None = Field(None, max_length=12, description="Id of the waiting job it goes just before.")


class ReservationIn(Strict):
    """What to keep, and until when."""

    node: str = Field(max_length=60, examples=["node-1"])
    device: str = Field("", max_length=20, description="One device of the node; empty: all.", examples=["cuda:0"])
    starts_at: Moment | None = Field(None, description="With a time zone; left out: from now on.")
    ends_at: Moment = Field(description="With a time zone.")
    purpose: str = Field(max_length=200, examples=["Maintenance"])
    project: str = Field("", max_length=60, description="Slug of the project whose jobs may use it; empty: no job.")


class ReservationOut(Schema):
    """A device or node that is kept."""

    id: str
    node: str
    device: str = Field(description="Such as `cuda:0`; empty: the whole node.")
    starts_at: datetime
    ends_at: datetime = Field(description="Of a calibration: when it is expected to be over.")
    purpose: str
    project: str | None = Field(description="Slug, where the caller may see that project.")
    by: str | None


class QuotaIn(Strict):
    """How many devices of the kind the project's jobs may hold together."""

    devices: int = Field(ge=0, le=1_000_000)
    may_borrow: bool | None = Field(None, description=BORROWS)


class QuotaLook(Strict):
    """What quota to look at."""

    devices: int | None = Field(ge=0, le=1_000_000, description="Null: the quota is taken away.")
    may_borrow: bool | None = Field(None, description=BORROWS)


class QuotaOut(Schema):
    """One quota and what is used of it."""

    project: str = Field(description="Slug.")
    device_kind: str
    devices: int
    may_borrow: bool
    held: int = Field(description="Devices of this kind that its jobs hold now.")


class DrainRunning(Schema):
    """A job that runs on the node: it ends in peace."""

    job_id: str
    name: str
    devices: int
    finish_at: datetime | None = Field(description="Expected; null: not known.")


class DrainDelayed(Schema):
    """A job that would be held back, paused or run with fewer devices, or a waiting one that would end sooner."""

    job_id: str
    name: str
    finish_before: datetime | None
    finish_after: datetime | None = Field(description="Null with `why`: it would not start at all.")
    why: str = Field(description="Beside a finish: that it is paused, or goes on with fewer devices.")
    breaks_promise: bool = Field(description="It would end after what it was promised; with `gains`: even then.")
    gains: bool = Field(description="It would end sooner.")


class ChangeDone(Done):
    """The request was carried out, and this follows."""

    delayed: list[DrainDelayed] = Field(description="Who waits longer for it or cannot start, and who ends sooner.")


class ReservationLook(Items[DrainDelayed]):
    """What a reservation would do: who would wait longer, and who would end sooner."""

    running: list[DrainRunning] = Field(description=OUTLASTING)


class ReservationDone(ReservationOut):
    """The device or node is kept, and this follows."""

    delayed: list[DrainDelayed] = Field(description="Who waits longer for it or cannot start, and who ends sooner.")
    running: list[DrainRunning] = Field(description=OUTLASTING)


class QuotaDone(ChangeDone):
    """The quota is kept, and this follows."""

    may_borrow: bool = Field(description="As it is now: more, while no other project wants them.")


class DrainOut(Schema):
    """What draining the node would do."""

    node: str
    running: list[DrainRunning]
    idle_at: datetime | None = Field(description="When its last job is expected to be done.")
    delayed: list[DrainDelayed]


class UsePage(PageOf[Used]):
    """One page of what was used up to a moment."""

    until: datetime = Field(description="Ask for the next page with this `until`: rows move as jobs run.")


class IdleOut(Schema):
    """What a device did not do for anybody."""

    hours: float = Field(description="That it was there and nobody held it.")
    kwh: float = Field(description="That it drew meanwhile; of no job, person or project.")
    co2_g: float = Field(description="By the pool's setting `co2_g_per_kwh`.")
    basis: str = Field(
        description="Where the figure comes from: measured, by the device's meter; modelled, by those of others like "
        "it; assumed, by a table of watts. Empty where none is."
    )


class UseOut(Schema):
    """What one device, job, person or project used."""

    name: str
    job_id: str
    device_hours: float
    kwh: float
    co2_g: float = Field(description="By the pool's setting `co2_g_per_kwh`.")
    basis: str = Field(description="Where most of the energy's figure comes from: measured, modelled or assumed.")
    idle: IdleOut | None = Field(description="By device alone: beside what it used for jobs.")


class UsePointOut(Schema):
    """What one device, job, person or project used over one stretch of time."""

    starts_at: datetime
    name: str
    job_id: str
    devices: float = Field(description="At work, on average; of one device its utilisation, 0-1.")
    device_hours: float
    kwh: float
    co2_g: float = Field(description="By the pool's setting `co2_g_per_kwh`.")
    basis: str = Field(description="Where most of the energy's figure comes from: measured, modelled or assumed.")
    idle: IdleOut | None = Field(description="By device alone: beside what it used for jobs.")


class BucketOut(Schema):
    """The pool over one stretch of time, one kind of device."""

    starts_at: datetime
    device_kind: str
    devices: int = Field(description="That were there at some time of it.")
    present: float = Field(description="The same on average: nodes count while they are up.")
    busy: float = Field(description="Devices that worked for jobs, on average.")
    utilisation: float = Field(description="Share of the devices that were there, 0-1.")
    busy_w: float
    idle_w: float = Field(description="Of devices that did nothing.")
    basis: str = Field(description="Where most of the power's figure comes from: measured, modelled or assumed.")
    busy_basis: str = Field(description="The same of `busy_w` alone.")
    idle_basis: str = Field(description="The same of `idle_w` alone; empty where nothing stood idle.")
