"""Whether a run may go on without a lost rank: wishes checked, and written only where they are meant."""

from __future__ import annotations

from typing import Any

from codegen.notes import Notes
from codegen.spec import TaskSpec

COMMIT_STEPS = 10
"""Steps between two copies in memory: a copy costs little, and so does a loss."""


def resolve_elastic(spec: TaskSpec, body: dict[str, Any], notes: Notes) -> None:
    """Write `resources.least` and `checkpoints.commit_steps` into `body`, or neither; mistakes go to `notes`."""
    least, commit_steps = spec.resources.least, spec.checkpoints.commit_steps
    if least == "auto":
        if commit_steps != "auto":
            notes.problem("checkpoints.commit_steps", "means nothing without resources.least; set that too or use auto")
        return
    for words in _problems(least, body):
        notes.problem("resources.least", words)
    body["resources"]["least"] = least
    body["checkpoints"]["commit_steps"] = notes.choose(
        "checkpoints.commit_steps", commit_steps, COMMIT_STEPS, "a copy in memory costs less than a step"
    )


def _problems(least: int, body: dict[str, Any]) -> list[str]:
    mode, count, device = body["mode"], body["resources"]["count"], body["resources"]["device"]
    found = []
    if count == 1:
        found.append("with one rank, none is left to continue; raise resources.count, or use auto")
    elif mode != "sync":
        found.append(f"only mode sync continues without a lost rank, not {mode}: choose mode sync, or use auto")
    elif least >= count:
        found.append(f"then none of the {count} ranks could be lost; use at most {count - 1}, or auto")
    if device != "cpu":
        found.append("only ranks on CPU cores come back after a loss; choose resources.device cpu, or auto here")
    return found
