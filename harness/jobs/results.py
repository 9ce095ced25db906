"""What a job leaves: results, charts, predictions, weights, program. Ranks wrote these files: read with care."""

from __future__ import annotations

import csv
import difflib
import hashlib
import io
import zipfile
from collections.abc import Callable, Iterator
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO

from django.conf import settings

from codegen.render import runtime_files
from harness.bodies import Body, made_body
from harness.bucket.wanted import wanted_check
from harness.csv import csv_chunks
from harness.errors import Conflict, NotFound
from harness.jobs import programs
from harness.jobs.models import Job, Prediction
from harness.jobs.predictions import WEIGHTS_FILE, prediction_output
from harness.store import CHUNK_BYTES, UnsafePath, json_beneath, open_beneath
from worker.plan import RunPaths

RESULTS_FILE = "work/results/results.json"
RESULTS_BYTES_MAX = 32 << 20
PACKED_FILES = ("table.parquet", "images.parquet")
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""Fixed time in archives: the same program gives the same bytes."""
_ENTRY_BYTES, _END_BYTES = 46, 22
"""Of the list at an archive's end: each entry without its name, and what follows the last one."""
_ZIP64_ENTRY_BYTES, _ZIP64_END_BYTES = 20, 76
"""What an archive has more where a file, or where its list begins, lies above 2 GiB."""
_Members = dict[str, bytes | Path]
"""Names with texts, or with the file that holds the bytes: one at most, and the last."""


def _paths(job: Job) -> RunPaths:
    paths: RunPaths = settings.STORE.job(job.pk)
    return paths


def job_results(job: Job) -> dict[str, Any]:
    """`results.json` of the run: task, metrics per part, charts, environment, timing. Raises `NotFound`, `Conflict`."""
    try:
        body = json_beneath(_paths(job).root, RESULTS_FILE, RESULTS_BYTES_MAX)
    except FileNotFoundError as error:
        wanted_check(f"jobs/{job.pk}", RESULTS_FILE)
        raise NotFound("There are no results yet.", hint="They are written at the end of the run.") from error
    except UnsafePath as error:
        raise Conflict(f"The program wrote results that cannot be read: {error}.", hint="See train.py.") from error
    if not isinstance(body, dict) or not isinstance(body.get("charts", []), list):
        raise Conflict("The program wrote results in another form than expected.", hint="See train.py.")
    return body


def job_chart_csv(job: Job, chart_id: str) -> Iterator[bytes]:
    """The rows of one chart as CSV. Raises `NotFound`, `Conflict`."""
    for chart in job_results(job).get("charts", []):
        if isinstance(chart, dict) and chart.get("id") == chart_id:
            rows = [row for row in chart.get("rows", []) if isinstance(row, list)]
            return csv_chunks([str(column) for column in chart.get("columns", [])], rows)
    raise NotFound(f"There is no chart {chart_id}.")


def weights_open(job: Job) -> BufferedReader:
    """The final weights (safetensors), opened without following links. Raises `NotFound`, `Conflict`."""
    try:
        return open_beneath(_paths(job).root, WEIGHTS_FILE)
    except FileNotFoundError as error:
        wanted_check(f"jobs/{job.pk}", WEIGHTS_FILE)
        raise NotFound("There are no final weights yet.", hint="They are written at the end of the run.") from error
    except UnsafePath as error:
        raise Conflict(f"The weights cannot be served: {error}.") from error


def weights_path(job: Job) -> Path:
    """Where the final weights lie, once they do; serve them by `weights_open`. Raises like it."""
    weights_open(job).close()
    return _paths(job).root / WEIGHTS_FILE


def prediction_output_get(prediction: Prediction) -> dict[str, Any]:
    """`{columns, rows}` of a finished prediction. Raises `NotFound`, `Conflict`."""
    if prediction.state == "waiting":
        raise NotFound("This prediction is not finished yet.", hint="Wait a moment.")
    if prediction.state == "failed":
        problem = prediction.problem or {}
        raise Conflict(str(problem.get("message", "The prediction failed.")), hint=str(problem.get("hint", "")))
    try:
        return prediction_output(prediction)
    except (OSError, UnsafePath, ValueError) as error:
        raise NotFound("The prediction's output is gone.", hint="Predict again.") from error


def prediction_csv(prediction: Prediction) -> Iterator[bytes]:
    """A finished prediction as CSV, the columns of a table behind the answer. Raises like `prediction_output_get`."""
    output = prediction_output_get(prediction)
    try:
        stream = open_beneath(_paths(prediction.job).prediction(prediction.pk), "output.csv")
    except (OSError, UnsafePath):  # an edited predict.py need not write it
        return csv_chunks([str(column) for column in output.get("columns", [])], output["rows"])
    return _csv_again(stream)


def _csv_again(stream: BinaryIO) -> Iterator[bytes]:
    """A CSV that a program wrote, made safe like all others."""
    csv.field_size_limit(RESULTS_BYTES_MAX)
    with io.TextIOWrapper(stream, encoding="utf-8", errors="replace", newline="") as text:
        lines = csv.reader(text)
        yield from csv_chunks(next(lines, []), lines)


def program_files(job: Job) -> list[dict[str, Any]]:
    """`{name, text, sha256, edited, generated}` of each file, in reading order; `generated`: None for an added one."""
    paths = _paths(job)
    generated = programs.files_read(paths.generated)
    return [
        {
            "name": name,
            "text": text,
            "sha256": programs.text_sha256(text),
            "edited": generated.get(name) != text,
            "generated": generated.get(name),
        }
        for name, text in programs.files_read(paths.program).items()
    ]


def program_diff(job: Job) -> str:
    """Unified diff from the generated to the present program; empty where nothing was edited."""
    paths = _paths(job)
    before, after = programs.files_read(paths.generated), programs.files_read(paths.program)
    parts: list[str] = []
    for name in dict.fromkeys([*after, *before]):
        old, new = before.get(name, ""), after.get(name, "")
        parts += difflib.unified_diff(
            old.splitlines(keepends=True), new.splitlines(keepends=True), f"generated/{name}", f"program/{name}"
        )
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in parts)


class _Drain(io.RawIOBase):
    """A stream that keeps what was written until it is taken."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._parts.append(bytes(data))
        return len(data)

    def take(self) -> bytes:
        body = b"".join(self._parts)
        self._parts.clear()
        return body


def program_zip(job: Job, *, with_data: bool = False) -> Body:
    """Program and the runtime it imports, ready to run alone, as a zip made while it is sent: the same each time.

    `with_data` adds the packed rows or pictures as `data/`, where train.py looks for them. Raises `NotFound`.
    """
    files = programs.program_of(_paths(job)).files
    members: _Members = {name: text.encode() for name, text in files.items()}
    members |= {name: text.encode() for name, text in runtime_files().items()}
    if with_data:
        packed = data_file(job)
        members[f"data/{packed.name}"] = packed
    root = f"program-{job.pk}"
    return made_body(
        lambda: _zip(root, members, _chunks), size_bytes=_zip_bytes(root, members), version=_zip_version(members)
    )


def data_file(job: Job) -> Path:
    """What the program trains on: the packed form of the job's dataset. Raises `NotFound`."""
    folder = settings.STORE.dataset(job.dataset_sha256).packed
    for name in PACKED_FILES:
        if (folder / name).is_file():
            return Path(folder / name)
    wanted_check(f"datasets/{job.dataset_sha256}", folder.name)
    raise NotFound("The data of this job is not there any more.", hint="Download the program without its data.")


def _zip(root: str, members: _Members, read: Callable[[Path], Iterator[bytes]]) -> Iterator[bytes]:
    """Nothing is compressed: releases of the compressor differ, and a program is small."""
    drain = _Drain()
    with zipfile.ZipFile(drain, "w") as archive:
        for name, body in members.items():
            info = zipfile.ZipInfo(f"{root}/{name}", date_time=_EPOCH)
            info.external_attr = 0o644 << 16
            with archive.open(info, "w", force_zip64=isinstance(body, Path)) as member:
                for chunk in [body] if isinstance(body, bytes) else read(body):
                    member.write(chunk)
                    yield drain.take()
    yield drain.take()


def _zip_bytes(root: str, members: _Members) -> int:
    """Size of the archive, told without reading its one large file, which comes last."""
    size_bytes = sum(len(chunk) for chunk in _zip(root, members, lambda path: iter(())))
    for body in members.values():
        if isinstance(body, Path):
            large_bytes = body.stat().st_size
            directory_at = size_bytes + large_bytes - _directory_bytes(root, members)
            size_bytes += large_bytes + _ZIP64_ENTRY_BYTES * (large_bytes > zipfile.ZIP64_LIMIT)
            size_bytes += _ZIP64_END_BYTES * (directory_at > zipfile.ZIP64_LIMIT)
    return size_bytes


def _directory_bytes(root: str, members: _Members) -> int:
    """Of the list at the end of an archive without large files."""
    return sum(_ENTRY_BYTES + len(f"{root}/{name}") for name in members) + _END_BYTES


def _zip_version(members: _Members) -> str:
    digest = hashlib.sha256()
    for name, body in members.items():
        mark = body if isinstance(body, bytes) else _file_mark(body)
        digest.update(f"{name} {len(mark)} ".encode() + mark)
    return digest.hexdigest()[:32]


def _file_mark(path: Path) -> bytes:
    told = path.stat()
    return f"{told.st_ino} {told.st_mtime_ns} {told.st_size}".encode()


def _chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as stream:
        yield from iter(lambda: stream.read(CHUNK_BYTES), b"")
