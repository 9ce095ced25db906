"""What travels between the store and a node that does not see its folder."""

from __future__ import annotations

from ninja import Schema
from pydantic import Field

from harness.api.schemas.base import Strict


class TreeFileOut(Schema):
    """A file and what it must hash to."""

    name: str
    bytes: int
    sha256: str
    url: str = Field(
        "", description="Where the object store has it too, for some hours; empty: it comes by the portal."
    )


class TreeOut(Schema):
    """A flat folder."""

    files: list[TreeFileOut]


class CheckpointTreeOut(TreeOut):
    """A whole checkpoint."""

    name: str


class CheckpointsOut(Schema):
    """Those that a run may go on from."""

    checkpoints: list[CheckpointTreeOut]
    course_from: int = Field(
        0,
        description="Number of an attempt: what it and later ones saved on the node, beyond the checkpoint that the "
        "run was to go on from, is of the same course.",
    )
    damaged: dict[str, int] = Field(
        {}, description="Checkpoints that did not load, and the number of the attempt that found it."
    )


class TreeFileIn(Strict):
    """A file that was sent, and what it must hash to."""

    name: str = Field(max_length=100)
    bytes: int = Field(ge=0)
    sha256: str = Field(max_length=64)


class CommitIn(Strict):
    """A checkpoint, or files of the results, all of whose pieces were sent."""

    kind: str = Field(max_length=20, description="`checkpoint` or `results`.")
    name: str = Field(max_length=40, description="Of the checkpoint; `results` for results.")
    files: list[TreeFileIn] = Field(max_length=500)
    removed: list[str] = Field([], max_length=1000, description="Checkpoints that the run has removed.")


class UploadsIn(Strict):
    """Files that a run is about to return."""

    kind: str = Field(max_length=20, description="`checkpoint` or `results`.")
    name: str = Field(max_length=40, description="Of the checkpoint; `results` for results.")
    files: list[TreeFileIn] = Field(max_length=500)


class PutOut(Schema):
    """Where one of them may be put, by PUT with exactly its bytes."""

    name: str
    url: str


class UploadsOut(Schema):
    """Those for which there is a way past the portal."""

    uploads: list[PutOut]


class HeldIn(Strict):
    """An attempt that has ended on the node, and left there what the store does not have."""

    job_id: str = Field(max_length=40)
    token: int = Field(ge=0)


class HeldRunsIn(Strict):
    """Those of a node, one of each job."""

    runs: list[HeldIn] = Field(max_length=1000)


class AwaitedJobsOut(Schema):
    """Jobs that may go on from it yet."""

    awaited: list[str]


class OffsetOut(Schema):
    """Where to go on."""

    offset: int
