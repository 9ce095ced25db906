"""Machines that join the pool, and what a joined node asks and tells."""

from __future__ import annotations

from typing import Literal

from ninja import Schema
from pydantic import Field

from harness.api.schemas.base import Strict


class JoinTokenIn(Strict):
    """A token to make."""

    valid_s: float = Field(24 * 3600.0, description="Seconds until it expires, 60 to 30 days.", allow_inf_nan=False)


class JoinTokenOut(Schema):
    """A token, shown once."""

    node: str
    token: str
    expires_at: str
    command: str = Field(description="What to type on the machine that is to join.")


class JoinIn(Strict):
    """A machine that wants in."""

    token: str = Field(max_length=200)
    version: str = Field(max_length=40, description="Its release; must be the portal's.")
    plan_version: int
    time_s: float = Field(description="Its clock (Unix time); agrees with the portal's to 5 s.", allow_inf_nan=False)


class JoinOut(Schema):
    """What the machine needs to run a node; the secret is shown once."""

    node: str
    secret: str
    redis_url: str
    store: str = Field(description="Folder of the store; the machine must see it under the same path.")
    store_id: str = Field(description="Content of `.dlh-store` in that folder.")


class PeerOut(Schema):
    """Another node."""

    name: str
    address: str
    state: str
    own_network: bool = Field(description="Whether ranks there share a network with those of other nodes alone.")
    encrypted: bool = Field(description="Whether WireGuard encrypts it between there and here (UDP 21820-21919).")
    encryption_required: bool = Field(description="Whether nothing goes in clear: no ranks talk by UDP 4789.")


class NodeSelfOut(Schema):
    """What a node may know."""

    name: str
    version: str
    time_s: float
    peers: list[PeerOut]


class ArrivedOut(Schema):
    """What arrived of a measurement."""

    bytes: int


class ReachIn(Strict):
    """Ports on which the node listens just now, and says a word to whoever connects."""

    address: str = Field(max_length=45, description="The node's own; tried only where the request comes from it.")
    ports: list[int] = Field(min_length=1, max_length=4, description="From 32768 to 60999.")
    word: str = Field(pattern=r"^[0-9a-f]{32}$", description="What it says there.")


class ReachOut(Schema):
    """What the portal heard."""

    open: list[int] = Field(description="The ports at which it heard the word.")
    not_tried: str = Field(description="Why it tried none; empty: it did.")


class FindingIn(Strict):
    """One line of a doctor's report."""

    name: str = Field(max_length=80)
    state: Literal["ok", "warn", "bad", "skip"]
    text: str = Field(max_length=600)
    meaning: str = Field("", max_length=600)
    step: str = Field("", max_length=600)


class CheckIn(Strict):
    """A doctor's report."""

    findings: list[FindingIn] = Field(max_length=60)
