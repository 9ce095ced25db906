"""What a supervisor that returns what a run made leaves behind, so that another process can go on with it.

It is there from the moment that the run's devices are free until the record of its end: a node that is stopped within
that time, or whose machine is started anew, returns the rest when it is back (`worker.transfer.again`).
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from worker import registry
from worker.events import Outcome
from worker.plan import RunPaths


@dataclass(frozen=True, kw_only=True)
class Interrupted:
    """How the ranks ended, and what the store did not have then."""

    outcome: Outcome
    failure: dict[str, Any] | None = None
    leftover: str = ""
    """As `Carrier.leftover`."""
    checkpoints: list[dict[str, Any]] = field(default_factory=list)
    """Data of CHECKPOINT events."""


def interrupted_write(paths: RunPaths, token: int, told: Interrupted) -> None:
    """Leave it. Raises `OSError`."""
    registry.write_json(paths.returning_file(token), json.dumps(asdict(told)))


def interrupted_read(paths: RunPaths, token: int) -> Interrupted:
    """What was left. Raises `OSError`, `ValueError`."""
    try:
        body = json.loads(paths.returning_file(token).read_text())
        return Interrupted(**{**body, "outcome": Outcome(body["outcome"])})
    except (KeyError, TypeError) as error:
        raise ValueError(f"not what a supervisor left: {error}") from error
