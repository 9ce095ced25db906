"""Whether a run may go on without a lost rank: wishes checked, and written only where they are meant."""

from __future__ import annotations

from typing import Any

from codegen.notes import Notes
from codegen.spec import TaskSpec
from codegen.types import Hardware
from codegen.words import counted

COMMIT_STEPS = 10
"""Steps between two copies in memory: a copy costs little, and so does a loss."""


def resolve_elastic(spec: TaskSpec, body: dict[str, Any], hardware: Hardware, notes: Notes) -> None:
    """Write `resources.least` and `checkpoints.commit_steps` into `body`, or neither; mistakes go to `notes`."""
    least, commit_steps = spec.resources.least, spec.checkpoints.commit_steps
    if least == "auto":
        if commit_steps != "auto":
            notes.problem("checkpoints.commit_steps", "means nothing without resources.least; set that too or use auto")
        return
    for words in _problems(least, body, hardware):
        notes.problem("resources.least", words)
    body["resources"]["least"] = least
    body["checkpoints"]["commit_steps"] = notes.choose(
        "checkpoints.commit_steps", commit_steps, COMMIT_STEPS, "a copy in memory costs less than a step"
    )


def _problems(least: int, body: dict[str, Any], hardware: Hardware) -> list[str]:
    mode, count, device = body["mode"], body["resources"]["count"], body["resources"]["device"]
    found = []
    if mode != "sync":
        why = "one rank has nobody to go on without it; raise resources.count" if count == 1 else "choose mode sync"
        found.append(f"only mode sync goes on without a lost rank, not {mode}: {why}, or use auto")
    elif least >= count:
        found.append(f"of {count} ranks none could be lost; use at most {count - 1}, or auto")
    if device != "cpu":
        found.append("only ranks on CPU cores come back after a loss; choose resources.device cpu, or auto here")
    elif count > hardware.cpu_cores > 0:
        found.append(
            f"such a run stays on one node, and the largest has {counted(hardware.cpu_cores, 'core')}; ask for fewer"
        )
    return found
