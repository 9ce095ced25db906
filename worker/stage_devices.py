"""What the stages of a model can count on where the ranks that run them have unlike devices.

Rank r runs stage r mod K. Every rank times the same piece of work; what the first rank timed of the model's blocks,
times how much longer a rank took for that piece, is what they take there. Several pipelines wait for each other at
every step: a stage is as slow as the slowest device that runs it, and may take what the smallest memory holds. Pure;
standard library only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from worker.words import size_words

ALIKE_TIMES = 1.25
"""Devices whose times are less apart count as the same: like cores of a busy machine are seen that far apart, and their
cut must not follow from chance. One that really is slower by less keeps the others waiting by no more than that."""
ALIKE_BYTES = 0.1
"""Memory that is apart by less, of the first rank's, counts as the same: what a process holds before it trains differs
a little. A stage may take nine tenths of what is free, so that it fits in the smaller one even then."""


@dataclass(frozen=True, kw_only=True)
class RankDevice:
    """What a rank tells of the device that it drives."""

    timed_s: float
    """Of the piece of work that every rank times."""
    slowdown: float = 1.0
    """The rank is made so many times as slow: declared, so known without chance."""
    memory_bytes: float = math.inf
    """For a stage."""


@dataclass(frozen=True, kw_only=True)
class StageDevice:
    """What a stage can count on."""

    factor: float = 1.0
    """Its blocks take so many times what the first rank timed."""
    memory_bytes: float = math.inf


def stage_devices(ranks: Sequence[RankDevice], stages: int) -> tuple[StageDevice, ...]:
    """What each of the stages can count on; the same for all where the devices are alike."""
    first = ranks[0]
    return tuple(
        StageDevice(
            factor=max(_times(first, rank) * rank.slowdown for rank in ranks[stage::stages]),
            memory_bytes=min(_room(first, rank) for rank in ranks[stage::stages]),
        )
        for stage in range(stages)
    )


def _times(first: RankDevice, rank: RankDevice) -> float:
    alike = first.timed_s <= ALIKE_TIMES * rank.timed_s and rank.timed_s <= ALIKE_TIMES * first.timed_s
    return 1.0 if alike or min(first.timed_s, rank.timed_s) <= 0.0 else rank.timed_s / first.timed_s


def _room(first: RankDevice, rank: RankDevice) -> float:
    least, most = (first.memory_bytes * share for share in (1.0 - ALIKE_BYTES, 1.0 + ALIKE_BYTES))
    return first.memory_bytes if least <= rank.memory_bytes <= most else rank.memory_bytes


def short_stage(
    needed: Sequence[float], before: Sequence[float], now: Sequence[StageDevice]
) -> tuple[int, float, float] | None:
    """(stage, bytes that it takes, bytes that it may take now) of the first stage for which there is less memory than
    it takes, and less than when it was cut so; None where there is none. `before`: what it could count on then."""
    for stage, (takes, had, device) in enumerate(zip(needed, before, now, strict=True)):
        if device.memory_bytes < min(takes, had * (1.0 - ALIKE_BYTES)):
            return stage, takes, device.memory_bytes
    return None


def unlike_words(devices: Sequence[StageDevice]) -> str:
    """What sets the stages apart, stage by stage; empty where nothing does."""
    factors, rooms = [device.factor for device in devices], [device.memory_bytes for device in devices]
    said = []
    if len(set(factors)) > 1:
        said.append(f"take {', '.join(f'{factor:.3g}' for factor in factors)} times as long as the first rank timed")
    if len(set(rooms)) > 1:
        said.append(f"have room for {', '.join(size_words(room) if math.isfinite(room) else 'any' for room in rooms)}")
    return f"stages on unlike devices {' and '.join(said)}" if said else ""
