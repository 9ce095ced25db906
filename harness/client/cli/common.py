"""What several commands do: open the client, find or upload a dataset, read files, pick words for a job."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from codegen import safe_yaml
from harness.client.cli.interrupts import interrupted
from harness.client.cli.output import CutColumn, ExitCode, draws_bars, duration, notes
from harness.client.cli.paths import path_meant
from harness.client.client import Client, Json
from harness.client.config import config_load
from harness.client.errors import ApiError, BadInput, ClientError, NotSignedIn
from harness.client.patience import AWAY_S

DataOption = Annotated[
    str,
    typer.Option("--data", "-d", help="A file to upload (known ones are not sent again), or a dataset's id or name."),
]
SpecArgument = Annotated[
    Path | None, typer.Argument(metavar="[SPEC]", help="Task spec in YAML; without it every field is auto.")
]
PromiseOption = Annotated[
    bool, typer.Option("--promise/--no-promise", help="Without: queue it although its deadline cannot be promised.")
]
ModelOption = Annotated[Path | None, typer.Option("--model", "-m", help="Your own model.py with build(spec).")]
JobArgument = Annotated[str, typer.Argument(metavar="JOB", help="Id of a job.")]


WEIGHTS_SUFFIX = ".safetensors"
_DATA_SUFFIXES = frozenset(
    {".csv", ".tsv", ".txt", ".json", ".jsonl", ".ndjson", ".parquet", ".gz", ".tgz", ".zip", ".tar"}
    | {".xlsx", ".xls", ".ods"}
)
_TEXT_SUFFIXES = frozenset({".txt", ".json"})
"""A spec may be written so, too."""


class DataFailed(ClientError):
    """The dataset cannot be used."""

    code = "dataset_failed"

    def __init__(self, problem: Json) -> None:
        super().__init__(
            str(problem.get("message") or "This dataset cannot be used."),
            hint=str(problem.get("hint") or ""),
            code=str(problem.get("code") or ""),
        )
        self.details = problem


def open_client(context: typer.Context) -> Client:
    """The client of this command line. Raises `NotSignedIn` where nobody is signed in."""
    config = config_load()
    if not config.token:
        raise NotSignedIn(
            f"There is no token for {config.url}.",
            hint="Run `dlh login URL --token TOKEN`, or set DLH_TOKEN; on the portal's own machine `dlh login --here`.",
        )
    return Client(config.url, config.token, project=project_of(context) or config.project, away=_away_tell)


def _away_tell(error: ClientError) -> None:
    until = f"The portal is asked again for {duration(AWAY_S)}; jobs and what else was begun do not depend on it."
    notes().print(f"{error.message} {until}", markup=False, soft_wrap=True)


def project_of(context: typer.Context) -> str:
    """What `--project` says."""
    return str((context.find_root().obj or {}).get("project", ""))


def transfer_bar(*, quiet: bool) -> Progress:
    """A bar for bytes on standard error."""
    out = notes()
    return Progress(
        CutColumn("{task.description}", out, others=50),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=out,
        disable=quiet or not draws_bars(out),  # elsewhere an empty line would be left of it
        transient=True,
    )


def share_bar(*, quiet: bool) -> Progress:
    """A bar of shares on standard error."""
    out = notes()
    columns = (CutColumn("{task.description}", out, others=20), BarColumn(), TextColumn("{task.percentage:>3.0f} %"))
    return Progress(*columns, console=out, disable=quiet or not draws_bars(out), transient=True)


def dataset_upload(
    client: Client, path: Path, *, name: str = "", options: Json | None = None, fresh: bool = False, quiet: bool = False
) -> Json:
    """Upload a file unless the project has it already. Raises `BadInput`, `ApiError`."""
    file_check(path)
    with transfer_bar(quiet=quiet) as bar:
        if not fresh:
            task = bar.add_task(f"Hashing {path.name}", total=path.stat().st_size)
            same = client.dataset_same(
                path, lambda done, total: bar.update(task, completed=done, total=total), options=options
            )
            bar.remove_task(task)
            if same:
                return {**same, "uploaded": False}
        task = bar.add_task(f"Uploading {path.name}", total=path.stat().st_size)
        made = client.dataset_add(
            path,
            name=name,
            options=json.dumps(options) if options else "",
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
    return {**made, "uploaded": True}


def dataset_ready(client: Client, dataset: Json, *, quiet: bool = False) -> Json:
    """Wait until a dataset has been read. Raises `DataFailed` with its problem."""
    if dataset["state"] == "profiling":
        with share_bar(quiet=quiet) as bar:
            task = bar.add_task(f"Reading {dataset['name']}", total=1.0)
            ready = client.dataset_wait(
                dataset["id"], progress=lambda body: bar.update(task, completed=body["progress"])
            )
        dataset = {**dataset, **ready}
    if dataset["state"] == "failed":
        raise DataFailed(dataset.get("problem") or {})
    return dataset


def file_named(text: str) -> Path | None:
    """The file that is meant, there or not; None where it is rather the name of a dataset."""
    path = path_meant(text)
    return path if path.is_file() or "/" in text or path.suffix.lower() in _DATA_SUFFIXES else None


def file_check(path: Path) -> None:
    """Pass if there is such a file. Raises `BadInput`."""
    if path.is_dir():
        raise BadInput(
            f"{path} is a folder.",
            hint="Give the table in it; or pack pictures in one folder per class into a zip: "
            f"`cd {shlex.quote(str(path))} && zip -r ../{shlex.quote(f'{path.resolve().name}.zip')} .`",
        )
    if not path.exists():
        raise BadInput(f"There is no file {path}.", hint="Check the path; `dlh data list` shows what is uploaded.")
    if not path.is_file():
        raise BadInput(f"{path} is not a regular file.", hint="Save it to a file first: it is read more than once.")
    if path.suffix.lower() == WEIGHTS_SUFFIX:
        raise BadInput(f"{path} holds weights, no data.", hint="Upload them by `dlh weights add`, or submit --weights.")


def dataset_found(client: Client, text: str) -> Json:
    """The dataset of this id or name. Raises `ApiError` 404, `BadInput` where it is a folder instead."""
    try:
        return client.dataset(text)
    except ApiError as error:
        if error.status == 404 and Path(text).is_dir():
            file_check(Path(text))
        raise


def dataset_resolve(client: Client, text: str, spec_text: str | None = None, *, quiet: bool = False) -> Json:
    """The dataset that `--data` or the spec names, uploaded if it is a file, and read."""
    text = text or _dataset_of_spec(spec_text)
    if not text:
        raise BadInput("Which data? Give --data PATH or --data ID.", hint="`dlh data list` shows what there is.")
    if path := file_named(text):
        return dataset_ready(client, dataset_upload(client, path, quiet=quiet), quiet=quiet)
    return dataset_ready(client, dataset_found(client, text), quiet=quiet)


def _dataset_of_spec(text: str | None) -> str:
    """Empty where it names none. Raises `BadInput` for a spec that cannot be read: it may name one."""
    try:
        body = safe_yaml.load(text or "")
    except safe_yaml.YamlFault as error:
        raise BadInput(f"The spec cannot be read: {error}.", hint="Correct it.", code="spec_invalid") from error
    data = body.get("data") if isinstance(body, dict) else None
    named = data.get("dataset") if isinstance(data, dict) else None
    return str(named) if named and named != "auto" else ""


def text_read(path: Path, *, hint: str = "Save it as UTF-8.") -> str:
    """A text file a person named; `hint`: what to do where it is none. Raises `BadInput`."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}.", hint="Check the path.") from error
    except UnicodeDecodeError as error:
        raise BadInput(f"{path} is not UTF-8 text.", hint=hint) from error
    if "\0" in text:
        line = text[: text.index("\0")].count("\n") + 1
        raise BadInput(
            f"{path}, line {line} holds a NUL character: the file is damaged or not a text file.", hint="Remove it."
        )
    return text


def spec_read(path: Path) -> str:
    """Text of a task spec. Raises `BadInput`, for data in its place as well."""
    if path.suffix.lower() in _DATA_SUFFIXES - _TEXT_SUFFIXES:
        raise BadInput(
            f"{path} is data by its name; a task spec in YAML belongs here.",
            hint=f"Name the data by --data {shlex.quote(str(path))}; a spec may be left out where every field is auto.",
        )
    return text_read(path)


def model_read(path: Path) -> str:
    """Text of a person's model.py. Raises `BadInput`, for data in its place as well."""
    if path.suffix.lower() in _DATA_SUFFIXES:
        raise BadInput(
            f"{path} is data by its name; --model takes your model.py with build(spec).",
            hint=f"Name the data by --data {shlex.quote(str(path))}.",
        )
    return text_read(path)


@contextmanager
def spec_named(spec: Path | None) -> Iterator[None]:
    """Put the name of the file before what the portal says of a line of it."""
    try:
        yield
    except ApiError as error:
        if spec is not None and error.code == "spec_invalid" and error.message.startswith("line "):
            error.message = f"{spec}, {error.message}"
        raise


@contextmanager
def draft_kept(draft: str) -> Iterator[None]:
    """Name the draft in what is refused of it, and on Ctrl-C: whoever made it has to find it."""
    try:
        yield
    except KeyboardInterrupt:
        interrupted(f"The draft is kept as {draft}.")
    except ClientError as error:
        error.hint = f"{error.hint} The draft is kept as {draft}.".strip()
        if error.details is None or isinstance(error.details, dict):
            error.details = {**(error.details or {}), "job": draft}
        raise


def job_body(client: Client, spec: Path | None, data: str, model: Path | None, *, quiet: bool) -> Json:
    """Body of POST /jobs from what the command line gave; uploads the data if need be."""
    text = spec_read(spec) if spec else None
    own = model_read(model) if model else None
    dataset = dataset_resolve(client, data, text, quiet=quiet)
    if not quiet and dataset.get("target") and _leaves_target_open(text):
        told = f"It learns to predict {dataset['target']}. Another column is named in the spec by data.target."
        notes().print(told, markup=False, soft_wrap=True)
    body: dict[str, Any] = {"dataset": dataset["id"]}
    if text is not None:
        body["yaml"] = text
    if own is not None:
        body["model"] = own
    return body


def _leaves_target_open(spec_text: str | None) -> bool:
    """Whether nothing in the spec says what is predicted, so that it is what the profile takes for the target. No other
    field changes that: one that excludes it, or takes it for the time, is refused."""
    try:
        body = safe_yaml.load(spec_text or "") or {}
    except safe_yaml.YamlFault:
        return False
    data = (body.get("data") or {}) if isinstance(body, dict) else None
    return isinstance(data, dict) and data.get("target", "auto") == "auto"


def finish(job: Json) -> None:
    """End the command with the code that the job's state asks for."""
    if job["state"] in {"failed", "cancelled"}:
        raise typer.Exit(ExitCode.JOB_FAILED)
    if job["state"] in {"paused", "draft"}:
        raise typer.Exit(ExitCode.AT_REST)
