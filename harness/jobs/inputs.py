"""What a person gives to predict for: how its file may be called, and what it is called on the node."""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import Any

from django.conf import settings

from codegen.spec import Task
from harness.errors import Invalid, TooLarge
from harness.jobs.models import Job
from worker.words import size_words

INPUT_SUFFIXES = {
    "csv": "csv", "tsv": "tsv", "json": "json", "jsonl": "jsonl", "ndjson": "jsonl", "parquet": "parquet",
    "xlsx": "xlsx", "ods": "ods",
    "png": "png", "jpg": "jpg", "jpeg": "jpg", "jpe": "jpg", "jfif": "jpg", "webp": "webp", "bmp": "bmp", "gif": "gif",
    "zip": "zip",
}  # fmt: skip
"""What a person's file may end in: what it ends in on the node."""
_OWN_NAME = re.compile(rf"(?<![\w./-])input\.(?:{'|'.join(sorted(set(INPUT_SUFFIXES.values())))})\b")
"""How an input is called on the node."""


def input_suffix(input_name: str) -> str | None:
    """What it ends in on the node; None where nothing can be predicted for such a file."""
    return INPUT_SUFFIXES.get(PurePath(input_name.lower()).suffix.lstrip("."))


def input_check(job: Job, input_name: str, data: bytes) -> None:
    """Pass what may be predicted for with the job. Raises `Invalid`, `TooLarge`."""
    if input_suffix(input_name) is None:
        raise Invalid(
            f"{input_name!r} cannot be used as input for a prediction.",
            field="input",
            hint=_suffix_hint(job, PurePath(input_name.lower()).suffix),
        )
    if not data:
        raise Invalid("The input is empty.", field="input", hint="Give at least one row or picture.")
    if len(data) > settings.PREDICTION_LIMIT_BYTES:
        raise TooLarge(f"An input has at most {size_words(settings.PREDICTION_LIMIT_BYTES)}.", hint="Split it.")


def _suffix_hint(job: Job, suffix: str) -> str:
    if job.task == Task.IMAGE_CLASSIFICATION:
        return "Give a picture (.png, .jpg, .webp, .bmp, .gif), or a .zip of pictures."
    before = {".gz": "Unpack it first. ", ".xls": "Save it as .xlsx, or the sheet as CSV. "}.get(suffix, "")
    return f"{before}Rows are taken as .csv, .tsv, .json, .jsonl, .parquet, .xlsx or .ods."


def problem_named(problem: dict[str, Any] | None, input_name: str) -> dict[str, Any] | None:
    """The problem in terms of the person's own file: the node knows it as input.csv or the like."""
    if problem is None:
        return None
    told = {key: value for key in ("message", "hint") if isinstance(value := problem.get(key), str)}
    return {**problem, **{key: _OWN_NAME.sub(lambda _: input_name, text) for key, text in told.items()}}
