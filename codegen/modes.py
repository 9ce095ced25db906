"""The ways in which devices work on one model, and which one a run takes where the spec leaves it open."""

from __future__ import annotations

from collections.abc import Iterator

from codegen.catalog.base import Cost, Facts
from codegen.catalog.training import BYTES_PER_PARAMETER, MEMORY_SHARE
from codegen.spec import TaskSpec
from worker.words import size_words

ONE_PROCESS = frozenset({"single", "replicated"})
"""One process drives all devices."""
AVERAGED = frozenset({"sync", "async"})
"""One rank per device, each with the whole model and a share of the rows."""
STAGED = frozenset({"pipeline", "pipeline+sync"})
"""One rank per device, each with a stage of the model."""
MODES = ONE_PROCESS | AVERAGED | STAGED
SEVERAL = MODES - {"single"}
"""Modes that mean nothing on one device."""
FEWEST_DEVICES = 2
STALENESS_PER_RANK = 4
"""Bound on the age of gradients in mode async where the spec names none: with like ranks they are one update per
neighbour old, and a rank four times as slow does not hold up the others yet."""


def pick_mode(count: int, facts: Facts, cost: Cost) -> tuple[str, str]:
    """(mode, why) for so many devices. Never one that changes the result where one that does not will do."""
    if count == 1:
        return "single", "one device needs one process"
    state_bytes = cost.parameters * BYTES_PER_PARAMETER
    if facts.device == "cuda" and facts.memory_bytes and state_bytes > MEMORY_SHARE * facts.memory_bytes:
        state, memory = size_words(state_bytes), size_words(facts.memory_bytes)
        words = f"the model with its optimizer takes {state}, and a device has {memory}"
        return "pipeline", f"{words}: each of {count} holds a stage of it"
    return "sync", f"{count} devices: one process each, gradients averaged; the result is that of one device"


def staleness(count: int) -> tuple[int, str]:
    """(most updates between a pull and its push, why) for so many ranks."""
    return STALENESS_PER_RANK * count, f"{STALENESS_PER_RANK} per rank: a slow rank may lag, but not without end"


def can_lose_ranks(device: str, mode: str) -> bool:
    """Whether a run on such devices may go on without some of its ranks (`resources.least`)."""
    return (device, mode) == ("cpu", "sync")


def needs_whole(spec: TaskSpec) -> bool:
    """Whether it asks for what a rank with a stage of the model cannot do, so that a choice of mode must not be one."""
    is_elastic = spec.resources.least != "auto"
    return is_elastic or any(True for mode in STAGED for _ in without_effect(spec, mode))


def without_effect(spec: TaskSpec, mode: str) -> Iterator[tuple[str, str]]:
    """(field, what to do) for each wish that would do nothing in this mode: better refused than quietly dropped."""
    training = spec.training
    if mode != "async":
        for name in ("staleness", "backup"):
            if getattr(training, name) != "auto":
                yield f"training.{name}", f"does nothing in mode {mode}; choose mode async, or use auto"
    elif "auto" not in (training.staleness, training.backup):
        words = "bounds nothing beside training.backup, which drops late gradients; use auto here to drop them, or for "
        yield "training.staleness", f"{words}training.backup to take them up to this age"
    if mode in STAGED and training.accumulate not in ("auto", 1):
        yield "training.accumulate", "stages have micro-batches of their own: set pipeline.micro_batches, and auto here"
    if mode in STAGED | {"async"} and training.compression not in ("auto", "none"):
        yield "training.compression", f"messages are not rounded in mode {mode}; choose mode sync, or use auto"
    if mode not in ("single", "sync") and training.batch_norm == "synced":
        yield "training.batch_norm", f"ranks share no statistics in mode {mode}; choose mode sync, or use auto"
    if mode not in ("single", "sync") and spec.resources.split == "measured":
        yield "resources.split", f"shares of rows follow no measurements in mode {mode}; choose mode sync, or use auto"
