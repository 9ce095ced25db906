"""`dlh predict`, and `dlh predictions`: those made with a job, and which of them go."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Annotated

import typer

from harness.client.cli.common import JobArgument, open_client
from harness.client.cli.output import (
    ExitCode,
    JsonFlag,
    code_of,
    console,
    error_print,
    json_print,
    notes,
    table_print,
    when,
)
from harness.client.client import Client, Json
from harness.client.download import AGAIN, GO_ON, download
from harness.client.errors import ApiError, BadInput, ClientError, WaitTimeout
from harness.client.transport import Transport, segment

_COLUMNS = ("Prediction", "Input", "Checkpoint", "Made", "State", "Rows")
_NO_CSV = frozenset(
    {".tsv", ".json", ".jsonl", ".ndjson", ".parquet", ".xlsx", ".ods", ".zip"}
    | {".png", ".jpg", ".jpeg", ".jpe", ".jfif", ".webp", ".bmp", ".gif"}
)
"""What else an input may end in: who reads a file by its ending must not find a CSV there."""
_SHEETS = frozenset({".xlsx", ".ods"})
"""Read, but not written."""


def predict(
    context: typer.Context,
    job: JobArgument,
    file: Annotated[
        Path | None,
        typer.Argument(
            help="csv, tsv, json, jsonl, parquet, xlsx, ods, a picture, or a zip of pictures; none: forecast from the "
            "end of the data."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="File to write all rows to: FILE with the answer added where it ends as FILE, else CSV."
        ),
    ] = None,
    checkpoint: Annotated[str, typer.Option(help="Name of a checkpoint; else the final weights.")] = "",
    threshold: Annotated[
        str,
        typer.Option(metavar="CLASS=P", help="Call by CLASS what is of it with a probability of P or more."),
    ] = "",
    as_json: JsonFlag = False,
) -> None:
    """Predict with a job's weights."""
    if file and not file.is_file():
        raise BadInput(f"{file} is not a file.", hint="Check the path.")
    if out:
        answer_name_check(out, file)
    with open_client(context) as client:
        asked = client.prediction_ask(job, file, checkpoint=checkpoint, threshold=threshold)
        with _named(job, asked["id"]):
            found = client.prediction_wait(job, asked["id"])
            _answer_bring(client, job, found, out, file, as_json=as_json)
    _answer_end(found, out, as_json=as_json)


@contextmanager
def _named(job: str, prediction: str) -> Iterator[None]:
    """Ctrl-C, a portal that is gone or fails, or a full disk ends the waiting alone: the same command once more would
    make a second prediction, so it is told how this one is seen. Raises the `ClientError` that it was, saying so."""
    kept = f"The prediction is kept: `dlh predictions {job} {prediction}` has its answer once it is made."
    try:
        yield
    except KeyboardInterrupt:
        notes().print(f"Interrupted. {kept}", markup=False, soft_wrap=True)
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    except ClientError as error:
        is_gone = isinstance(error, ApiError) and error.status == HTTPStatus.NOT_FOUND
        if not is_gone and not isinstance(error, WaitTimeout):  # which names it
            # The same command would not bring the rest, but make a second one.
            error.hint = kept if error.hint in (AGAIN, GO_ON) else f"{error.hint} {kept}".strip()
        error.details = {"prediction": prediction}
        raise


def _answer_bring(client: Client, job: str, found: Json, out: Path | None, file: Path | None, *, as_json: bool) -> None:
    """All rows of a prediction that is done, to the file that is named or to the output."""
    answer = f"/jobs/{segment(job)}/predictions/{segment(found['id'])}"
    if found["state"] == "done" and out:
        answer_download(client.transport, answer, out, file)
    elif found["state"] == "done" and not as_json:
        # Not from `found`, which holds the first rows only.
        with client.transport.stream(f"{answer}.csv", params={}) as response:
            sys.stdout.writelines(response.iter_text())


def _answer_end(found: Json, out: Path | None, *, as_json: bool) -> None:
    """What is to be said of a prediction besides its rows."""
    if found["state"] == "failed":
        error = _prediction_error(found["problem"] or {})
        error_print(error, as_json=as_json)
        raise typer.Exit(code_of(error))
    _remarks_print(found.get("output") or {})
    if as_json:
        json_print({**found, "out": str(out) if out else None})
    elif out:
        console().print(f"{found['rows']} rows in {out}", markup=False, soft_wrap=True)


def _remarks_print(output: Json) -> None:
    """What a person should know of an answer, beside it."""
    for note in output.get("notes") or ():
        notes().print(str(note), style="yellow", markup=False, soft_wrap=True)
    if output.get("ranges"):
        notes().print(str(output["ranges"]), markup=False, soft_wrap=True)


def _prediction_error(problem: Json) -> ClientError:
    """Why a prediction failed: the input or an option was at fault, or something else."""
    of_input = problem.get("code") == BadInput.code  # as the node tells it, too
    return (BadInput if of_input else ClientError)(
        str(problem.get("message") or "The prediction failed."),
        hint=str(problem.get("hint") or ""),
        code="prediction_failed",
    )


def predictions(
    context: typer.Context,
    job: Annotated[str, typer.Argument(metavar="JOB", help="Id of a job.")],
    prediction: Annotated[
        str, typer.Argument(metavar="[PREDICTION]", help="Id of one: print all rows of its answer.")
    ] = "",
    out: Annotated[Path | None, typer.Option("--out", "-o", help="File to write them to, as of `dlh predict`.")] = None,
    delete: Annotated[
        list[str] | None, typer.Option("--delete", metavar="PREDICTION", help="Delete it for good; may be repeated.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Predictions made with a job, newest first; the answer of one; or delete some, with their inputs and answers."""
    place = f"/jobs/{segment(job)}/predictions"
    if delete and (prediction or out):
        raise BadInput("--delete brings no answer.", hint="Leave out the prediction and --out, or --delete.")
    if out and not prediction:
        raise BadInput("Which prediction is to be written?", hint=f"`dlh predictions {job}` lists them.")
    with open_client(context) as client:
        if prediction:
            _earlier(client, job, prediction, out, as_json=as_json)
            return
        if delete:
            for prediction in delete:
                client.send("DELETE", f"{place}/{segment(prediction)}")
            told = {"deleted": delete}
            json_print(told) if as_json else console().print(f"Deleted: {' '.join(delete)}", markup=False)
            return
        items = list(client.items(place))
    if as_json:
        json_print(items)
    else:
        table_print(_COLUMNS, map(_row, items))


def _earlier(client: Client, job: str, prediction: str, out: Path | None, *, as_json: bool) -> None:
    """The answer of one that was made before. Raises `BadInput` for one that is not ready."""
    found: Json = client.get(f"/jobs/{segment(job)}/predictions/{segment(prediction)}")
    named = Path(found["input_name"])
    file = named if named.suffix else None  # a forecast from the end of the data has none
    if found["state"] == "waiting":
        raise BadInput(f"Prediction {prediction} is not ready.", hint=f"`dlh predictions {job}` shows when it is.")
    if out and found["state"] == "done":
        answer_name_check(out, file)
    _answer_bring(client, job, found, out, file, as_json=as_json)
    _answer_end(found, out, as_json=as_json)


def _row(item: Json) -> tuple[object, ...]:
    used = item["checkpoint"] or "final weights"
    return item["id"], item["input_name"], used, when(item["created_at"]), item["state"], item["rows"]


def answer_name_check(out: Path, file: Path | None) -> None:
    """Pass where the answer for a `file`, or a forecast without one, may be written by this name. Raises `BadInput`."""
    if out.suffix.lower() in _NO_CSV and not _is_own(out, file):
        own = "" if out.suffix.lower() in _SHEETS else ", or the file itself with the answer added"
        raise _no_csv(out, f"The answer for {file.name} is a CSV{own}." if file else "A forecast is a CSV.")


def answer_download(transport: Transport, answer: str, out: Path, file: Path | None) -> None:
    """The person's own file with the answer added, where `out` ends as it does and there is one; else a CSV.

    Raises `BadInput` where the name is of another kind.
    """
    if _is_own(out, file):
        try:
            download(transport, f"{answer}/file", out)
            return
        except ApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            if out.suffix.lower() in _NO_CSV:
                why = "The answer is a CSV: of pictures, and of jobs of an earlier release, there is nothing else."
                raise _no_csv(out, why) from error
    download(transport, f"{answer}.csv", out)


def _is_own(out: Path, file: Path | None) -> bool:
    """Whether the answer is the file itself with columns added; no spreadsheet is written."""
    return file is not None and out.suffix.lower() == file.suffix.lower() and out.suffix.lower() not in _SHEETS


def _no_csv(out: Path, why: str) -> BadInput:
    return BadInput(f"{out.name} is not written. {why}", hint=f"Name a CSV: --out {out.with_suffix('.csv').name}")
