"""The program of a job: files, edits, trial runs."""

from __future__ import annotations

from typing import Any

from ninja import Schema
from pydantic import Field

from harness.api.schemas.base import Strict


class CheckAsked(Schema):
    """A trial run was asked for; the answer comes as a `program` event with this id."""

    check_id: str


class CheckOut(Schema):
    """A node's answer to a trial run."""

    check_id: str
    waiting: bool = Field(description="The node has not answered yet.")
    ok: bool | None = Field(
        None,
        description="null while it waits, and where the program names a GPU and its job runs on GPUs alone: it cannot "
        "be tried on a CPU (problem `not_tried_here`).",
    )
    problem: dict[str, Any] | None = Field(None, description="code, message, hint, file, line.")
    parameters: int | None = None
    output_shape: list[int] | None = None
    notes: list[str] = Field([], description="What a person should know of the model's outputs, in sentences.")
    program_sha256: str = Field(
        "",
        description="Of the program that was tried, as `program_sha256` of the job; empty where that is not known.",
    )


class FileIn(Strict):
    """The new text of a file."""

    text: str = Field(max_length=1_048_576)
    expected_sha256: str = Field(
        "",
        max_length=64,
        description="Refuse (409 `changed`) unless the file is still the one of this hash; empty: do not ask.",
    )


class FileOut(Schema):
    """One file of a program."""

    name: str = Field(examples=["model.py"])
    text: str
    sha256: str
    edited: bool = Field(description="Differs from what was generated.")


class FileFaultOut(Schema):
    """What keeps a file from being parsed."""

    message: str = Field(examples=["model.py, line 3: invalid syntax"])
    line: int | None


class FileWrittenOut(FileOut):
    """A file as it was written."""

    fault: FileFaultOut | None = Field(description="It is saved, but would be refused when the job is submitted.")


class ProgramOut(Schema):
    """All files of a program."""

    sha256: str
    edited: bool
    own: bool
    files: list[FileOut]


class ResetIn(Strict):
    """What to put back as generated."""

    name: str | None = Field(None, max_length=64, description="One file; null: all.")


class DiffOut(Schema):
    """What was edited."""

    files: list[str] = Field(description="Names of the edited files.")
    text: str = Field(description="One unified diff over all files; empty where nothing was edited.")
