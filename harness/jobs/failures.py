"""Known causes of failure: a plain sentence and the next step for each, and whose fault it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from worker.events import FailureCode
from worker.machine_faults import DISK_HINT, GPU_HINT


@dataclass(frozen=True, kw_only=True)
class Cause:
    """What a person reads where the failure itself says nothing better."""

    message: str
    hint: str
    retried: bool = False
    """The platform's fault: started again from the last checkpoint."""


@dataclass(frozen=True, kw_only=True)
class RunFailure:
    """Why a run failed, as the rows of its attempt and its job keep it."""

    code: str
    """A `FailureCode`, or what another release called so."""
    message: str
    hint: str
    step: int | None = None
    traceback: str | None = None

    @property
    def cause(self) -> Cause | None:
        """The words that we have for its code."""
        return CAUSES[FailureCode(self.code)] if self.code in list(FailureCode) else None

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


CAUSES: dict[FailureCode, Cause] = {
    FailureCode.NAN_LOSS: Cause(
        message="The loss became NaN or infinite, so training was stopped.",
        hint="At the first step, look for its cause in the model and in the data; later, lower the learning rate. "
        "Checkpoints made before are kept.",
    ),
    FailureCode.OUT_OF_MEMORY: Cause(
        message="The run used more memory than it was given.",
        hint="Lower the batch size or the model's size, or give the run more memory.",
    ),
    FailureCode.DISK_FULL: Cause(
        message="The disk was full.", hint="Delete old jobs or datasets for good, keep fewer checkpoints, then resume."
    ),
    FailureCode.NODE_DISK_FULL: Cause(
        message="The disk of the node was full.",
        hint="Free space there (DLH_HOME, and the cache if the node has one) or drain it; then resume.",
        retried=True,
    ),
    FailureCode.DISK_FAULT: Cause(message="A disk failed.", hint=DISK_HINT, retried=True),
    FailureCode.DEVICE_FAULT: Cause(message="A GPU, or its driver, failed.", hint=GPU_HINT, retried=True),
    FailureCode.PROGRAM_ERROR: Cause(
        message="The program stopped with an error.", hint="See the traceback; correct the program in a clone."
    ),
    FailureCode.PROGRAM_SYNTAX: Cause(
        message="A file of the program is not valid Python.", hint="Correct the line that is named, in a clone."
    ),
    FailureCode.MODEL_NO_BUILD: Cause(
        message="model.py has no function build(spec).",
        hint="Add `def build(spec) -> torch.nn.Module` to model.py, in a clone.",
    ),
    FailureCode.MODEL_WRONG_SHAPE: Cause(
        message="The model's output has the wrong shape.",
        hint="forward must give one row per sample and spec.shape.outputs columns.",
    ),
    FailureCode.DATA_ERROR: Cause(
        message="The program could not use the data.", hint="See the message; check the dataset's profile and types."
    ),
    FailureCode.CHECKPOINT_CORRUPT: Cause(
        message="The checkpoint to resume from is damaged.", hint="Resume from an older checkpoint."
    ),
    FailureCode.TIME_LIMIT: Cause(
        message="The run took longer than its time limit.", hint="Give it more time or fewer epochs."
    ),
    FailureCode.STALLED: Cause(
        message="The run made no progress for too long and was stopped.",
        hint="See the logs for where it stopped; resume from its last checkpoint.",
    ),
    FailureCode.SANDBOX_TOO_WEAK: Cause(
        message="The node cannot isolate this program as strongly as the pool requires.",
        hint="Run it on another node, or ask an admin to lower the minimum level.",
    ),
    FailureCode.START_FAILED: Cause(
        message="The node could not start the run.", hint="See the attempt's message, and tell an admin.", retried=True
    ),
    FailureCode.RANK_KILLED: Cause(
        message="A process of the run was killed by something outside it.",
        hint="Resume from its last checkpoint.",
        retried=True,
    ),
    FailureCode.NODE_LOST: Cause(
        message="The node was lost during the run.", hint="Resume from its last checkpoint.", retried=True
    ),
    FailureCode.NODE_STOPPED: Cause(
        message="The node was shut down during the run.", hint="Resume from its last checkpoint.", retried=True
    ),
}


def failure_of(body: dict[str, Any] | None, *, fallback: FailureCode) -> RunFailure:
    """A failure with nothing left empty that we know words for.

    `body` comes from a node or from the program itself, so every value is checked.
    """
    body = body if isinstance(body, dict) else {}
    code = str(body.get("code", ""))
    known = FailureCode(code) if code in list(FailureCode) else fallback
    cause = CAUSES[known]
    step = body.get("step")
    traceback = body.get("traceback")
    return RunFailure(
        code=str(known),
        message=str(body.get("message") or cause.message)[:4000],
        hint=str(body.get("hint") or cause.hint)[:4000],
        step=step if isinstance(step, int) else None,
        traceback=str(traceback)[:100_000] if traceback else None,
    )


def failure_read(body: Mapping[str, Any] | None) -> RunFailure | None:
    """Inverse of `RunFailure.to_dict`; None where nothing failed. What a row of another release lacks is empty."""
    if not body:
        return None
    code, message, hint = (str(body.get(name) or "") for name in ("code", "message", "hint"))
    return RunFailure(code=code, message=message, hint=hint, step=body.get("step"), traceback=body.get("traceback"))


def given_up(failure: RunFailure, restarts: int) -> RunFailure:
    """The failure of a run that was lost once too often without a new checkpoint in between."""
    message = f"{failure.message} It was restarted {restarts} times without a new checkpoint, then given up."
    return replace(failure, message=message, hint=failure.cause.hint if failure.cause else failure.hint)
