"""The pool: nodes, devices, settings."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from ninja import Schema
from pydantic import Field

from harness.api.schemas.base import Strict


class DeviceOut(Schema):
    """One CPU core or one GPU. Jobs of projects that the caller does not see are named by nothing."""

    kind: str = Field(examples=["cpu"])
    index: int
    model_name: str
    memory_bytes: int
    busy: bool
    job_id: str | None = Field(description="Who holds it, where the caller may see that job.")
    job_name: str | None
    rank: int | None = Field(description="Of that job; null where no rank of it computes on the device.")
    slowdown: float = Field(description="Declared, not real: ranks on it are made so many times as slow. 1: as it is.")
    away_s: float | None = Field(description="For how long its node has not seen it. Null: it is there.")
    idle_w: float = Field(description="What it draws while nobody holds it.")
    idle_basis: str = Field(
        description="Where that comes from: `measured` by its own meter, `modelled` by those of devices like it, or "
        "`assumed` from a table."
    )


class PaceOut(Schema):
    """How a node's devices of one kind surely differ from those of the same name on other nodes, by finished jobs."""

    kind: str = Field(examples=["cpu"])
    model_name: str
    factor: float = Field(description="A step takes so many times as long here.")
    low: float = Field(description="Lower end of its range, which holds 99 times of 100.")
    high: float
    jobs: int = Field(description="The newest ones here that tell it.")
    words: str


class NodeOut(Schema):
    """One host."""

    name: str = Field(examples=["node-1"])
    state: str = Field(description="`up`, `drain` or `down`.", examples=["up"])
    drain_wanted: bool = Field(
        description="An admin drained it. Of a node that is down: it takes no jobs once it is back."
    )
    cpu_cores: int
    memory_bytes: int
    sandbox_level: int = Field(description="Strongest level that works there, 0-3.")
    sandbox_reason: str = Field(description="Why no higher level works there.")
    description: dict[str, Any]
    heartbeat_age_s: float | None
    address: str = Field(description="Where ranks on other nodes reach it.", examples=["10.0.0.12"])
    near: str = Field(description="Rack or switch, as an admin named it; may be empty.")
    check: dict[str, Any] = Field(description="What `dlh doctor` found there: `at_s`, `findings`. Empty: not run.")
    devices: list[DeviceOut]
    paces: list[PaceOut] = Field(description="Of its devices that surely differ from others of their name.")


class LinkOut(Schema):
    """The link between two nodes, as their agents timed it: medians of several repeats."""

    first: str = Field(examples=["node-1"])
    second: str = Field(examples=["node-2"])
    round_trip_s: float | None = Field(description="Of a few bytes, there and back. Null: never timed.")
    round_trip_noise: float = Field(description="Of the middle half of the repeats, to either side; 1 is 100 %.")
    bytes_per_s: float | None = Field(description="Each way, while as many come back. Null: never timed.")
    bytes_noise: float = Field(description="Of the middle half of the repeats, to either side; 1 is 100 %.")
    network: str = Field(
        description="What it was timed through: `hosts` (their networks, in clear), `vxlan` (one for the two alone, in "
        "clear), `wireguard_kernel`, `wireguard_process` (such a one, encrypted). Empty: never timed."
    )
    own_network: bool = Field(description="Timed in a network for the two alone, as ranks there have it.")
    measured_at: datetime | None
    current: bool = Field(description="Timed over what ranks would use now: estimates use it.")
    waits: bool = Field(description="It is to be timed as soon as both nodes are idle.")
    away: list[str] = Field(description="Which of the two take no work now (down, draining): it is not timed before.")
    problem: str = Field(description="Why it could not be timed the last time; empty: it could.")


class LinksIn(Strict):
    """Links to time anew."""

    node: str = Field("", max_length=60, description="Those of this node; empty: all.")


class LinksOut(Schema):
    """Links that are to be timed."""

    links: int


class PoolOut(Schema):
    """The pool at one moment."""

    nodes: list[NodeOut]
    links: list[LinkOut] = Field(description="Between nodes, the slowest first.")
    devices: int = Field(description="All: those that are busy, free, reserved or away.")
    busy: int = Field(description="Held by jobs.")
    free: int = Field(description="A job could get them now.")
    reserved: int = Field(description="Nobody holds them, but they are kept for something.")
    away: int = Field(description="Not held, on nodes that drain or are down, or not seen by their nodes.")
    queued: int = Field(description="Jobs that wait for devices.")


class ObjectStoreOut(Schema):
    """How the copy in the object store stands. Without one `used` is false, and nothing else is told."""

    used: bool = Field(description="Whether there is an object store (`DLH_S3_URL`).")
    url: str = Field(default="", examples=["s3://bucket/prefix"])
    endpoint: str = Field(default="", description="Where it is. Empty: Amazon's.")
    state: str = Field(default="", description="`whole`, `first` (being made), `behind`, `stopped` or `trouble`.")
    text: str = Field(default="", description="What is the matter; empty where all is well.")
    step: str = Field(default="", description="What to do about it.")
    complete_s: float | None = Field(
        default=None, description="When the last pass began that copied everything (Unix time)."
    )
    copying: bool = Field(default=False, description="Whether a pass is running now.")
    waiting: int = Field(default=0, description="Datasets and jobs that changed, or may have, and are not copied yet.")
    units: int = Field(default=0, description="Datasets and jobs that the copy lists.")
    files: int = Field(default=0, description="Files that it lists.")
    bytes: int = Field(default=0, description="Their size; what is there twice counts twice and is stored once.")


class StreamOut(Schema):
    """One stream of runs' events."""

    number: int
    waiting: int = Field(description="Events that are not taken in yet.")
    behind_s: float = Field(description="Age of the oldest of them. 0: none.")
    reader: str = Field(description="Control process that reads it, or did last: host/process id.")
    read_at_s: float | None = Field(description="When that one last took something in (Unix time).")


class ReadingOut(Schema):
    """How far the reading of runs' events is."""

    waiting: int = Field(description="Events that are not taken in yet.")
    behind_s: float = Field(description="Of the stream that is farthest behind.")
    readers: list[str] = Field(description="Control processes that read a stream now, or did within the last minute.")
    decided_by: str = Field(description="Control process that scheduled last; empty: none since the broker started.")
    decided_at_s: float | None = Field(description="When that was (Unix time).")
    streams: list[StreamOut]


class SlowdownIn(Strict):
    """How much slower than it is a device is to act."""

    factor: float = Field(ge=1, le=100, allow_inf_nan=False, examples=[2.0])


class NearIn(Strict):
    """Where a node is."""

    near: str = Field(max_length=60, examples=["rack 2"], description="Rack or switch; empty: unknown.")


class NodeIn(Strict):
    """A node to expect."""

    name: str = Field(max_length=60, examples=["node-2"])


class PowerOut(Schema):
    """What one device of a model draws."""

    kind: str
    model: str = Field(description="As its maker names it.", examples=["NVIDIA A100-SXM4-80GB"])
    idle_w: float
    busy_w: float
    basis: str = Field(description="Of `busy_w`: `measured` by a calibration, or `assumed` from a table.")
    idle_basis: str = Field(description="Of `idle_w`: `measured` on idle devices here, or `assumed` from a table.")
    source: str = Field(description="Which table, or what was measured.")


class PoolSettingsOut(Schema):
    """Settings of the pool."""

    minimum_sandbox_level_own_code: int = Field(description="Least sandbox level for own or edited programs.")
    minimum_sandbox_level_generated: int = Field(description="Least sandbox level for generated programs.")
    backend: str = Field(description="`horovod` or its twin `torch`.")
    max_restarts: int = Field(
        description="Restarts of a job after faults of the platform, without a new checkpoint in between."
    )
    policy: str = Field(description="By what rule jobs get devices.", examples=["deadline_energy"])
    co2_g_per_kwh: float = Field(description="Grams of CO2 per kWh of the electricity used.")
    data_mib_per_s: float = Field(
        description="MiB/s by which data are taken to come to a node with its own cache that has fetched none yet."
    )
    power_table: dict[str, Any] = Field(description="Watts by device model or kind, over the shipped ones.")
    span_nodes: bool = Field(description="Whether the ranks of one job may lie on several nodes.")
    own_network: bool = Field(description="Whether such ranks have a network for themselves (UDP 4789 between nodes).")
    network_encryption: str = Field(
        description="When WireGuard encrypts it (UDP 21820-21919 between nodes): `off`, `kernel` (where the nodes' "
        "kernels can), `preferred` (where they can, by a process of their own if need be), `required`."
    )


class PoolSettingsIn(Strict):
    """Settings to change; those left out stay."""

    minimum_sandbox_level_own_code: int | None = Field(None, ge=0, le=3)
    minimum_sandbox_level_generated: int | None = Field(None, ge=0, le=3)
    backend: Literal["horovod", "torch"] | None = None
    max_restarts: int | None = Field(None, ge=0, le=100)
    policy: Literal["fifo", "edf", "fair_share", "deadline_energy"] | None = None
    co2_g_per_kwh: float | None = Field(None, ge=0, le=5000, allow_inf_nan=False)
    data_mib_per_s: float | None = Field(None, ge=0.01, le=1e6, allow_inf_nan=False)
    power_table: dict[str, Any] | None = Field(None, description="`{name: {idle_w, busy_w}}`.")
    span_nodes: bool | None = None
    own_network: bool | None = None
    network_encryption: Literal["off", "kernel", "preferred", "required"] | None = None


class HealthOut(Schema):
    """Whether the installation works."""

    ok: bool
    version: str
    time_s: float = Field(description="The portal's clock (Unix time).")
    database: bool
    broker: bool
    control: bool = Field(
        description="False: no control process has taken in what nodes report for a minute, or it cannot write it down "
        "(`full`), so that no job starts. `ok` does not count it: the portal itself works."
    )
    full: str = Field(
        "",
        description="Whose disk is full, so that control writes nothing down: `database`, `broker` or `installation` "
        "(`DLH_HOME`, `DLH_STORE`); empty: none that it noticed.",
    )
    nodes_up: int
