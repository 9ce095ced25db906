"""The trained model as ONNX: how far it is, and what it takes and gives."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from ninja import Schema
from pydantic import Field


class ExportOut(Schema):
    """Whether there is an ONNX model of the final weights, or of a checkpoint."""

    state: str = Field(description="`none` (nobody has asked), `waiting`, `done` or `failed`.")
    problem: dict[str, Any] | None = Field(
        None,
        description="Why it could not be made: message, hint; with the code `no_answer` no node answered in time, and "
        "an answer that still comes counts.",
    )
    report: dict[str, Any] = Field(
        {},
        description="When done: inputs and outputs (name, dtype, shape), opset, check against PyTorch (rows, largest "
        "difference, tolerances), versions, whether predict_onnx.py goes with it, model_bytes.",
    )
    checkpoint: str = Field("", description="Whose weights; empty: the final ones.")
    weights_sha256: str = Field(
        "", description="When done: of the file that it was made of: the final weights, or state.pt of the checkpoint."
    )
    created_at: datetime | None = None
    finished_at: datetime | None = None
