"""`dlh lr-find`: usable learning rates of a job's program, or of a program in a folder."""

from __future__ import annotations

import csv as csv_module
import math
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from harness.client.cli.common import open_client, share_bar
from harness.client.cli.output import ExitCode, JsonFlag, console, json_print, notes, number, table_print
from harness.client.cli.paths import path_meant
from harness.client.cli.rates_here import (
    CURVE,
    RangeTestFailed,
    folder_check,
    folder_test,
    folder_trials,
    left_out_words,
    trying_words,
)
from harness.client.client import Client, Json
from harness.client.errors import ApiError, BadInput, ClientError, WaitTimeout
from harness.client.transport import segment
from worker.rate_search import HIGHEST, LOWEST, USUAL_HIGH, USUAL_LOW, range_fault
from worker.words import percent_words

_WAIT_S = 330.0
"""For the answer of the device that makes the test."""
_TRIALS_SPARE_S = 300.0
_POLL_S = 0.5
_TITLES = {
    "trials": "Trials",
    "valley": "Valley (as fastai)", "steepest": "Steepest (as fastai)", "minimum_tenth": "Minimum / 10",
    "linear": "Linear rule", "sqrt": "Square-root rule",
}  # fmt: skip
_NAMES = ("best", "low", "centre", "high", *_TITLES)


def commands_add(app: typer.Typer) -> None:
    """Put the commands of this module on the top level."""
    app.command("lr-find")(lr_find)


def lr_find(  # noqa: PLR0913  (typer: one parameter per option)
    context: typer.Context,
    target: Annotated[str, typer.Argument(metavar="JOB|FOLDER", help="Id of a job, or a folder with train.py.")],
    data: Annotated[Path | None, typer.Option("--data", "-d", help="Packed data of a folder's program.")] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda; for a folder also cuda:N.")] = "",
    low: Annotated[float | None, typer.Option(help=f"First learning rate; usual {USUAL_LOW:g}.")] = None,
    high: Annotated[float | None, typer.Option(help=f"Last rate; usual {USUAL_HIGH:g}, at most {HIGHEST:g}.")] = None,
    use: Annotated[str, typer.Option(help="Put a rate into a draft's spec: `best`, another name, or a number.")] = "",
    trials: Annotated[
        str, typer.Option(help="Short trainings around the centre: auto (where they cost little), always or never.")
    ] = "auto",
    csv: Annotated[Path | None, typer.Option("--csv", help="Write the curve with its fits to this file.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Find usable learning rates: some hundred steps while the rate rises, then short trainings around the centre.

    A job is tested on an idle device of the pool; a folder on this machine, where torch is needed.
    """
    if trials not in ("auto", "always", "never"):
        raise BadInput(f"There is no --trials {trials}.", hint="Use auto, always or never.")
    folder = path_meant(target)
    if not folder.is_dir() and (os.sep in target or data is not None):
        raise _no_target(target)
    if fault := range_fault(low, high, prefix="--"):
        raise BadInput(fault.message, hint=fault.hint, field=fault.field)
    if csv is not None:
        _csv_check(csv)
    refused: ClientError | None = None
    if folder.is_dir():
        folder_check(folder, data, device, use)
        found = folder_test(folder, data, device, low, high, quiet=as_json)
        if trials != "never" and found["state"] == "done":
            folder_trials(folder, data, device, found, trials, quiet=as_json)
    else:
        body = {"device": device or None, "low": low, "high": high, "trials": trials}
        found, refused = _job_tested(context, target, body, use, quiet=as_json)
    unwritten = _csv_write(csv, found) if csv is not None else None
    _end(found, [fault for fault in (refused, unwritten) if fault], as_json=as_json)


def _no_target(target: str) -> BadInput:
    """What to say of a name that is no folder, and cannot be the id of a job."""
    path, hint = path_meant(target), "Name a folder with train.py, or the id of a job."
    if path.exists():
        return BadInput(f"{target} is a file: a learning rate is tested with a job or a program.", hint=hint)
    return BadInput(f"There is no {'file' if path.suffix else 'folder'} {target}.", hint=hint)


def _job_tested(
    context: typer.Context, job: str, body: Json, use: str, *, quiet: bool
) -> tuple[Json, ClientError | None]:
    """(the test of a job, why its rate was not put into the job's spec though `use` asks for it)."""
    rate = _rate_read(use) if use else None
    with open_client(context) as client:
        with _named(job):
            if rate is not None:
                _draft_check(client, job)
            found = client.send("POST", f"/jobs/{segment(job)}/rates", body)
        found = _job(client, job, found, quiet=quiet)
        if rate is not None and found["state"] == "done":
            try:
                _use(client, job, found, rate)
            except ClientError as error:  # what was found took minutes: it is told first
                return found, error
    return found, None


@contextmanager
def _named(job: str) -> Iterator[None]:
    """Of a job that is none says what the name may have been meant for."""
    try:
        yield
    except ApiError as error:
        if error.status == 404:
            if Path(job).suffix:  # a name with an ending is that of a file, which no id has
                raise _no_target(job) from None
            error.hint = f"There is no folder {job} here, either. {error.hint}".strip()
        raise


def _job(client: Client, job: str, found: Json, *, quiet: bool) -> Json:
    """Wait for the end of a test that was started or joined. Raises `WaitTimeout`."""
    place = f"/jobs/{segment(job)}/rates"
    end_s, trying = math.inf, False
    with share_bar(quiet=quiet) as bar:
        task = bar.add_task("", total=1.0)

        def tell(stage: str) -> None:
            bar.update(task, description=stage)
            if bar.disable and not quiet:  # a log has no bar
                notes().print(f"{stage}…", markup=False, soft_wrap=True)

        if not found["node"] and found["state"] == "waiting":
            tell("Waiting for an idle device")
        while found["state"] == "waiting":
            if found["node"] and end_s == math.inf:  # before, the portal says when nobody waits any longer
                end_s = time.monotonic() + _WAIT_S
                tell(f"Range test on {found['node']}")
            if time.monotonic() > end_s:
                raise WaitTimeout("No answer in time.", hint="Check on the pool page that a node is up.")
            time.sleep(_POLL_S)
            found = client.get_waiting(f"{place}/{segment(found['id'])}")
            if (found["trials"] or {}).get("state") == "waiting" and not trying:
                trying = True
                end_s = time.monotonic() + 2 * found["trials"]["expected_s"] + _TRIALS_SPARE_S
                tell(trying_words(found["trials"]))
            bar.update(task, completed=found["progress"])
    return dict(found)


def _rate_read(use: str) -> str | float:
    """The name of a rate, or a number. Raises `BadInput`."""
    if use in _NAMES:
        return use
    try:
        rate = float(use)
    except ValueError:
        rate = math.nan
    if not LOWEST <= rate <= HIGHEST:
        hint = f"Give a number from {LOWEST:g} to {HIGHEST:g}, or one of {', '.join(_NAMES)}."
        raise BadInput(f"There is no rate {use!r} for --use.", hint=hint, field="use")
    return rate


def _draft_check(client: Client, job: str) -> None:
    """Pass where a rate can be put into the job's spec after a test, which takes a while. Raises `BadInput`."""
    found = client.job(job)
    if found["state"] != "draft":
        raise BadInput(
            f"--use is for drafts, and {found['name']} is none ({found['state']}).",
            hint="Clone it, and test the clone.",
        )


def _use(client: Client, job: str, found: Json, rate: str | float) -> None:
    place = f"/jobs/{segment(job)}/rates/{segment(found['id'])}"
    changed = client.send("POST", f"{place}/use", {"rate": rate})
    found["used_rate"] = client.get(place)["used_rate"]
    for words in (f"The spec now has learning_rate: {found['used_rate']:g}.", *changed.get("left_out", ())):
        notes().print(words, markup=False, soft_wrap=True)


def _csv_check(path: Path) -> None:
    """Pass for a file that can be written after the test, which may take a quarter of an hour. Raises `BadInput`."""
    if not path.parent.is_dir():
        hint = "Make it, or name another."
        raise BadInput(f"{path} cannot be written: there is no folder {path.parent}.", hint=hint, field="csv")
    if path.is_dir():
        raise BadInput(f"{path} cannot be written: it is a folder.", hint="Name a file in it.", field="csv")
    place = path if path.exists() else path.parent
    if not os.access(place, os.W_OK):
        hint = "Name a place where you may write."
        raise BadInput(f"{path} cannot be written: you may not write to {place}.", hint=hint, field="csv")


def _csv_write(path: Path, found: Json) -> ClientError | None:
    """Write the curve; returns why that failed, since what was found is told all the same."""
    try:
        with path.open("w", newline="", encoding="utf-8") as stream:
            writer = csv_module.DictWriter(stream, CURVE)
            writer.writeheader()
            writer.writerows(found["curve"])
    except OSError as error:
        hint = "Check the path and the disk."
        return BadInput(f"{path} was not written: {error.strerror or error}.", hint=hint, field="csv")
    notes().print(f"Wrote {path}.", markup=False)
    return None


def _end(found: Json, faults: list[ClientError], *, as_json: bool) -> None:
    """Tell what was found, then the first thing that went wrong; a program gets both in one document."""
    if not as_json and found["state"] == "done":
        _print(found)
    elif not as_json:
        problem = found["problem"] or {}
        faults.insert(0, RangeTestFailed(str(problem.get("message")), hint=str(problem.get("hint") or "")))
    elif not faults:
        json_print(found)
    for other in faults[1:]:
        notes().print(other.message, markup=False)
    if faults:
        if as_json:
            details = faults[0].details  # those of a refused spec are a list
            kept = details if isinstance(details, dict) else {"problems": details} if details else {}
            faults[0].details = {**kept, "found": found}
        raise faults[0]
    if found["state"] != "done":
        raise typer.Exit(ExitCode.JOB_FAILED)


def _print(found: Json) -> None:
    out = console()
    out.print(f"Usable peak learning rates: {found['low']:.2g} to {found['high']:.2g}; take {found['best']:.3g}.")
    _print_trials(found["trials"] or {"state": ""}, found["centre"])
    out.print(f"Batch {found['batch_size']}, {found['optimizer']}; the program names {number(found['rate'])}.")
    table_print(
        ("Other readings", "Rate", ""),
        (
            (_TITLES.get(name, name), f"{rate:.3g}", "" if found["low"] <= rate <= found["high"] else "outside")
            for name, rate in found["alternatives"].items()
        ),
    )
    for note in found["notes"]:
        notes().print(note, markup=False)


def _print_trials(trials: Json, centre: float) -> None:
    out = console()
    if trials["state"] == "done":
        share = percent_words(trials["share"], 0)
        out.print(f"Found by trials around {centre:.3g}, the centre: {share} of a run's steps.")
        table_print(
            ("Trial", "Rate", "Share of the run", "Validation loss"),
            (
                (str(one["round"]), f"{one['rate']:.3g}", percent_words(one["share"], 0), number(one["loss"]))
                for one in sorted(trials["done"], key=lambda one: (one["round"], one["rate"]))
            ),
        )
        for note in trials["notes"]:
            notes().print(note, markup=False)
    elif trials["state"] == "none":
        notes().print(left_out_words(trials), markup=False)
    elif trials["state"] == "failed":
        notes().print(f"No trials: {trials['problem']['message']}", markup=False)
