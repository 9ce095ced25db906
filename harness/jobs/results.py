"""What a job leaves: results, charts, predictions, weights, program. Ranks wrote these files: read with care."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from functools import partial
from io import BufferedReader
from pathlib import Path, PurePath
from typing import Any, BinaryIO

from django.conf import settings

from codegen.render import runtime_files
from harness.bodies import Body
from harness.bucket.wanted import wanted_check
from harness.csv import csv_chunks
from harness.errors import Conflict, NotFound, Unavailable
from harness.jobs import programs
from harness.jobs.archive import Large, Members, zip_body
from harness.jobs.diffs import files_diff
from harness.jobs.inputs import input_suffix
from harness.jobs.models import Checkpoint, Job, Prediction
from harness.jobs.predictions import RESULTS_FILE, WEIGHTS_FILE, no_final_weights, prediction_output
from harness.store import JSON_BYTES_MAX, FileTooLarge, UnsafePath, json_beneath, open_beneath, read_beneath
from worker.plan import START_WEIGHTS, RunPaths
from worker.states import TERMINAL, JobState

PREPROCESS_FILE = "work/results/preprocess.json"
_CSV_LINE_LETTERS_MAX = 8 << 20
PREPROCESS_BYTES_MAX = 64 << 20
PACKED_FILES = ("table.parquet", "images.parquet")


def _paths(job: Job) -> RunPaths:
    paths: RunPaths = settings.STORE.job(job.pk)
    return paths


def job_results(job: Job) -> dict[str, Any]:
    """`results.json` of the run: task, metrics per part, charts, environment, timing.

    Raises `NotFound`, `Conflict`, `Unavailable` (lost, and comes back; or a disk does not give it).
    """
    try:
        body = json_beneath(_paths(job).root, RESULTS_FILE)
    except FileNotFoundError as error:
        wanted_check(f"jobs/{job.pk}", RESULTS_FILE)
        message, hint = _no_results(job)
        raise NotFound(message, hint=hint) from error
    except UnsafePath as error:
        raise Conflict(f"The program wrote results that cannot be read: {error}.", hint="See train.py.") from error
    except OSError as error:
        told = f"The results of this job could not be read: {error.strerror}."
        raise Unavailable(told, hint="Try again; if it lasts, tell an admin, who looks at the store's disk.") from error
    if not isinstance(body, dict) or not isinstance(body.get("charts", []), list):
        raise Conflict("The program wrote results in another form than expected.", hint="See train.py.")
    return body


def _no_results(job: Job) -> tuple[str, str]:
    """(why there are none, what to do instead)."""
    if job.state == JobState.DRAFT:
        return "There are no results yet.", "This job is a draft: submit it. They are written at the end of the run."
    if job.state not in TERMINAL:
        return "There are no results yet.", "They are written at the end of the run."
    if Checkpoint.objects.filter(job=job, removed_at=None).exists():
        hint = "Resume it from a checkpoint, or predict with one."
    else:
        hint = "It has no checkpoint: submit a clone of it."
    return f"This job ended ({job.state}) without results.", hint


def job_chart_csv(job: Job, chart_id: str) -> Iterator[bytes]:
    """The rows of one chart as CSV. Raises `NotFound`, `Conflict`."""
    for chart in _list_of(job_results(job).get("charts")):
        if isinstance(chart, dict) and chart.get("id") == chart_id:
            columns, rows = chart.get("columns", []), chart.get("rows", [])
            if not isinstance(columns, list) or not isinstance(rows, list):
                raise Conflict(
                    f"The program wrote chart {chart_id} in another form than expected.", hint="See train.py."
                )
            return csv_chunks([str(column) for column in columns], [row for row in rows if isinstance(row, list)])
    raise NotFound(f"There is no chart {chart_id}.")


def _list_of(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def weights_open(job: Job) -> BufferedReader:
    """The final weights (safetensors), opened without following links. Raises `NotFound`, `Conflict`."""
    try:
        return open_beneath(_paths(job).root, WEIGHTS_FILE)
    except FileNotFoundError as error:
        wanted_check(f"jobs/{job.pk}", WEIGHTS_FILE)
        message, hint = no_final_weights(job)
        raise NotFound(message, hint=hint) from error
    except UnsafePath as error:
        raise Conflict(f"The weights cannot be served: {error}.") from error


def checkpoint_need(job: Job, name: str) -> None:
    """Raise `NotFound` where no such checkpoint is kept."""
    if not Checkpoint.objects.filter(job=job, name=name, removed_at=None).exists():
        raise NotFound("There is no such checkpoint.", hint="Older ones are removed; see the list.")


def checkpoint_open(job: Job, name: str) -> BufferedReader:
    """The state of a checkpoint that is kept, as PyTorch wrote it, opened without following links. Raises `NotFound`,
    `Unavailable` (lost, and comes back)."""
    checkpoint_need(job, name)
    paths = _paths(job)
    try:
        return open_beneath(paths.root, paths.checkpoint_state(name).relative_to(paths.root))
    except (FileNotFoundError, UnsafePath) as error:
        wanted_check(f"jobs/{job.pk}", str((paths.checkpoints / name).relative_to(paths.root)))
        raise NotFound("The files of this checkpoint are gone.", hint="Choose another one.") from error


def weights_path(job: Job) -> Path:
    """Where the final weights lie, once they do; serve them by `weights_open`. Raises like it."""
    weights_open(job).close()
    return _paths(job).root / WEIGHTS_FILE


def _finished_check(prediction: Prediction) -> None:
    if prediction.state == "waiting":
        raise NotFound("This prediction is not finished yet.", hint="Wait a moment.")
    if prediction.state == "failed":
        problem = prediction.problem or {}
        raise Conflict(str(problem.get("message", "The prediction failed.")), hint=str(problem.get("hint", "")))


def prediction_output_get(prediction: Prediction, hint: str = "Download it as CSV.") -> dict[str, Any]:
    """`{columns, rows}` of a finished prediction. `hint`: where it is too large. Raises `NotFound`, `Conflict`."""
    _finished_check(prediction)
    try:
        return prediction_output(prediction)
    except FileTooLarge as error:
        raise Conflict(f"The output is too large to be shown: {error}.", hint=hint) from error
    except (OSError, UnsafePath, ValueError) as error:
        raise NotFound("The prediction's output is gone.", hint="Predict again.") from error


def prediction_csv(prediction: Prediction) -> Iterator[bytes]:
    """A finished prediction as CSV, the columns of a table behind the answer. Raises like `prediction_output_get`."""
    _finished_check(prediction)
    try:
        stream = open_beneath(_paths(prediction.job).prediction(prediction.pk), "output.csv")
    except (OSError, UnsafePath):  # an edited predict.py need not write it
        output = prediction_output_get(prediction, "Predict for fewer rows at once.")
        return csv_chunks([str(column) for column in output.get("columns", [])], output["rows"])
    return _csv_again(stream)


def prediction_own_open(prediction: Prediction) -> tuple[str, BufferedReader]:
    """(its name, a person's own file with the answer added), byte for byte as the program wrote it.

    Raises `NotFound` where there is none: of pictures, of an older program; and like `prediction_output_get`.
    """
    _finished_check(prediction)
    name = PurePath(prediction.input_name)
    own = f"output-answered.{input_suffix(prediction.input_name) or ''}"
    try:
        stream = open_beneath(_paths(prediction.job).prediction(prediction.pk), own)
    except (OSError, UnsafePath) as error:
        hint = "Download the answer as CSV. Files of rows have one, of jobs made from now on."
        raise NotFound("This prediction has no file of the same form as its input.", hint=hint) from error
    return f"{name.stem}-predicted{name.suffix}", stream


def prediction_has_own(prediction: Prediction) -> bool:
    """Whether there is such a file."""
    try:
        prediction_own_open(prediction)[1].close()
    except NotFound:
        return False
    return True


def _csv_again(stream: BinaryIO) -> Iterator[bytes]:
    """A CSV that a program wrote, made safe like all others."""
    csv.field_size_limit(_CSV_LINE_LETTERS_MAX)
    with io.TextIOWrapper(stream, encoding="utf-8", errors="replace", newline="") as text:
        lines = csv.reader(iter(partial(text.readline, _CSV_LINE_LETTERS_MAX), ""))  # it may be one line without end
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
    return files_diff(programs.files_read(paths.generated), programs.files_read(paths.program))


def program_zip(job: Job, *, with_data: bool = False) -> Body:
    """Program and the runtime it imports, ready to run alone, as a zip made while it is sent: the same each time.

    `with_data` adds the packed rows or pictures as `data/`, where train.py looks for them, and the weights that it
    starts from. Raises `NotFound`.
    """
    members = _program_members(job)
    if with_data:
        packed = data_file(job)
        members[f"data/{packed.name}"] = Large(packed.parent, packed.name)
        members |= _start_weights(job)
    return zip_body(f"program-{job.pk}", members)


def _start_weights(job: Job) -> Members:
    """The weights that the job starts from, where train.py looks for them. Raises `NotFound`."""
    if job.weights is None:
        return {}
    folder = Path(job.weights_dir)
    if not (folder / START_WEIGHTS).is_file():
        wanted_check(f"datasets/{job.weights.sha256}", folder.name)
        raise NotFound("The weights of this job are gone.", hint="Download the program without its data.")
    return {START_WEIGHTS: Large(folder, START_WEIGHTS)}


def _program_members(job: Job) -> Members:
    """Program and the runtime it imports."""
    files = programs.program_of(_paths(job)).files | runtime_files()
    return {name: text.encode() for name, text in files.items()}


def model_zip(job: Job) -> Body:
    """The final weights and the program that predicts with them, where its predict.py looks for them; a zip as above.

    Raises `NotFound`, `Conflict`.
    """
    weights_open(job).close()
    root = _paths(job).root
    members = _program_members(job)
    for name, limit_bytes in ((PREPROCESS_FILE, PREPROCESS_BYTES_MAX), (RESULTS_FILE, JSON_BYTES_MAX)):
        try:
            members[name] = read_beneath(root, name, limit_bytes)
        except FileNotFoundError:
            wanted_check(f"jobs/{job.pk}", name)  # a program of a person's own may write none
        except UnsafePath as error:
            if name == PREPROCESS_FILE:  # without results it predicts all the same
                raise Conflict(f"The model cannot be served: {error}.", hint="Take weights and program.") from error
    members[WEIGHTS_FILE] = Large(root, WEIGHTS_FILE)
    return zip_body(f"model-{job.pk}", members)


def data_file(job: Job) -> Path:
    """What the program trains on: the packed form of the job's dataset. Raises `NotFound`."""
    folder = settings.STORE.dataset(job.dataset_sha256).packed
    for name in PACKED_FILES:
        if (folder / name).is_file():
            return Path(folder / name)
    wanted_check(f"datasets/{job.dataset_sha256}", folder.name)
    raise NotFound("The data of this job is gone.", hint="Download the program without its data.")
