"""What a spec says about pipelines: how many devices they take, and into how many stages a model is cut."""

from __future__ import annotations

from typing import Any

from codegen.notes import Notes
from codegen.spec import TaskSpec

PIPELINE, PIPELINES = "pipeline", "pipeline+sync"
FEWEST_STAGES = 2
FEWEST_PIPELINES = 2
"""Side by side, in mode pipeline+sync."""
AT_THE_START = "chosen when the run starts, from the pieces of the model as they are timed there"


def fewest_devices(spec: TaskSpec) -> int:
    """Devices that the spec's stages take at least: one each, in mode pipeline+sync for two pipelines."""
    wish = spec.pipeline.stages
    stages = FEWEST_STAGES if wish == "auto" else wish
    return stages if spec.mode == PIPELINE else FEWEST_PIPELINES * stages


def staged_devices(spec: TaskSpec, most: int, notes: Notes) -> int:
    """Devices for the spec's stages, of `most` that there are. Notes that there are too few."""
    fewest = fewest_devices(spec)
    stages = fewest if spec.mode == PIPELINE else fewest // FEWEST_PIPELINES
    if fewest > most:
        notes.problem("resources.count", f"mode {spec.mode} needs {fewest} devices, and there are {most}")
    return stages if spec.mode == PIPELINE else max(fewest, most - most % stages)


def resolve_pipeline(spec: TaskSpec, mode: str, count: int, batch_size: int, notes: Notes) -> dict[str, Any]:
    """The part `pipeline` for `count` devices in `mode`. Notes numbers that do not fit."""
    wish = spec.pipeline
    guess = count if mode == PIPELINE else FEWEST_STAGES
    reason = "one per device" if mode == PIPELINE else "the fewest hand-overs; more pipelines instead"
    stages: int = notes.choose("pipeline.stages", wish.stages, guess, reason)
    if stages < FEWEST_STAGES:
        notes.problem("pipeline.stages", "one stage is not a pipeline; use 2 or more, or mode single or sync")
    elif mode == PIPELINE and stages != count:
        notes.problem("pipeline.stages", f"{count} devices make one pipeline of {count} stages; use auto or {count}")
    elif mode == PIPELINES and (count % stages or count == stages):
        fewest = f"mode {mode} takes {FEWEST_PIPELINES * stages} devices or more, a multiple of {stages}"
        field = "resources.count" if wish.stages == "auto" else "pipeline.stages"
        notes.problem(field, f"{count} devices do not make several pipelines of {stages} stages; {fewest}")
    if wish.micro_batches != "auto" and wish.micro_batches > batch_size:
        notes.problem("pipeline.micro_batches", f"a batch of {batch_size} rows makes at most {batch_size}")
    for name in ("micro_batches", "schedule", "recompute"):
        if getattr(wish, name) == "auto":
            notes.note(f"pipeline.{name}", "auto", AT_THE_START)
    return wish.model_dump(mode="json") | {"stages": stages}
