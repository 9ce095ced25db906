"""`dlh lr-find`: usable learning rates of a job's program, or of a program in a folder."""

from __future__ import annotations

import csv as csv_module
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer
from rich.progress import BarColumn, Progress, TextColumn

from harness.client.cli.common import open_client
from harness.client.cli.output import ExitCode, JsonFlag, console, duration, json_print, notes, number, table_print
from harness.client.client import Client, Json
from harness.client.errors import ApiError, BadInput, ClientError, WaitTimeout
from harness.client.transport import segment
from worker.rate_search import range_fault
from worker.words import percent_words

_WAIT_S = 330.0
_TRIALS_SPARE_S = 300.0
_TRIALS_MOST_S = {"auto": 60.0, "always": 900.0}
"""In a folder: what trials may take, as foretold."""
_POLL_S = 0.5
_ERRORS_BYTES = 4096
"""In a folder: so much of the end of a program's errors is looked at."""
_DEVICE = re.compile(r"cpu|cuda(:\d+)?")
"""What a program takes as a device."""
_GET_FOLDER = "`dlh code JOB --with-data --out FOLDER` writes a program with its data."
_CURVE = ("rate", "loss", "loss_fit", "score", "log_fit")
_TITLES = {
    "trials": "Trials",
    "valley": "Valley (as fastai)", "steepest": "Steepest (as fastai)", "minimum_tenth": "Minimum / 10",
    "linear": "Linear rule", "sqrt": "Square-root rule",
}  # fmt: skip


class RangeTestFailed(ClientError):
    """The range test gave no interval."""

    code = "range_test_failed"


def commands_add(app: typer.Typer) -> None:
    """Put the commands of this module on the top level."""
    app.command("lr-find")(lr_find)


def lr_find(  # noqa: PLR0913  (typer: one parameter per option)
    context: typer.Context,
    target: Annotated[str, typer.Argument(metavar="JOB|FOLDER", help="Id of a job, or a folder with train.py.")],
    data: Annotated[Path | None, typer.Option("--data", "-d", help="Packed data of a folder's program.")] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda; for a folder also cuda:N.")] = "",
    low: Annotated[float | None, typer.Option(help="First learning rate; usual 1e-6.")] = None,
    high: Annotated[float | None, typer.Option(help="Last learning rate; usual 10, at most 100.")] = None,
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
    folder = Path(target).expanduser()
    if not folder.is_dir() and (os.sep in target or data is not None):
        raise BadInput(f"There is no folder {target}.", hint="Name one with train.py, or the id of a job.")
    if fault := range_fault(low, high, prefix="--"):
        raise BadInput(fault.message, hint=fault.hint, field=fault.field)
    if folder.is_dir():
        _folder_check(folder, data, device, use)
        found = _folder(folder, data, device, low, high, quiet=as_json)
        if trials != "never" and found["state"] == "done":
            _folder_trials(folder, data, device, found, trials, quiet=as_json)
    else:
        with open_client(context) as client:
            body = {"device": device or None, "low": low, "high": high, "trials": trials}
            found = _job(client, target, body, quiet=as_json)
            if use and found["state"] == "done":
                _use(client, target, found, use)
    if csv is not None:
        _csv_write(csv, found)
    _end(found, as_json=as_json)


def _job(client: Client, job: str, body: Json, *, quiet: bool) -> Json:
    """Start a test, or join one that goes on, and wait for its end. Raises `WaitTimeout`."""
    place = f"/jobs/{segment(job)}/rates"
    try:
        found = client.send("POST", place, body)
    except ApiError as error:
        if error.status == 404:
            error.hint = f"There is no folder {job} here, either. {error.hint}".strip()
        raise
    end_s, trying = time.monotonic() + _WAIT_S, False
    with _bar(quiet=quiet) as bar:
        task = bar.add_task("Range test", total=1.0)
        while found["state"] == "waiting":
            if time.monotonic() > end_s:
                raise WaitTimeout("No answer in time.", hint="Check on the pool page that a node is up.")
            time.sleep(_POLL_S)
            found = client.get(f"{place}/{segment(found['id'])}")
            if (found["trials"] or {}).get("state") == "waiting" and not trying:
                trying = True
                end_s = time.monotonic() + 2 * found["trials"]["expected_s"] + _TRIALS_SPARE_S
                bar.update(task, description=_trying(found["trials"]))
            bar.update(task, completed=found["progress"])
    return dict(found)


def _trying(trials: Json) -> str:
    return f"Trials, up to {trials['most_share']:.1f} runs, about {duration(trials['expected_s'])}"


def _use(client: Client, job: str, found: Json, use: str) -> None:
    try:
        rate: str | float = float(use)
    except ValueError:
        rate = use
    place = f"/jobs/{segment(job)}/rates/{segment(found['id'])}"
    client.send("POST", f"{place}/use", {"rate": rate})
    found["used_rate"] = client.get(place)["used_rate"]
    notes().print(f"The spec now has learning_rate: {found['used_rate']:g}.")


def _folder_check(folder: Path, data: Path | None, device: str, use: str) -> None:
    """Pass if a program in a folder can be tested so. Raises `BadInput`."""
    if use:
        raise BadInput("--use is for jobs.", hint="Set training.learning_rate in spec.yaml to the rate.")
    if device and not _DEVICE.fullmatch(device):
        raise BadInput(f"There is no device {device!r} for --device.", hint="Use cpu, cuda, or cuda:1 for the second.")
    for name in ("train.py", "spec.yaml"):
        if not (folder / name).is_file():
            raise BadInput(f"{folder} does not contain a {name}.", hint=f"{_GET_FOLDER} Or give the id of a job.")
    packed = data or folder / "data"
    if not packed.is_dir():
        raise BadInput(
            f"A range test needs the program's data: there is no folder {packed}.",
            hint=f"Name it by --data. {_GET_FOLDER}", field="data",
        )  # fmt: skip


def _folder(
    folder: Path, data: Path | None, device: str, low: float | None, high: float | None, *, quiet: bool
) -> Json:
    """Make the test here, by the runtime's own command, and read the record."""
    command = [sys.executable, "-m", "worker.runtime.rates.range_test", "--program", str(folder)]
    command += ["--data", str(data or folder / "data")]
    for name, value in (("device", device), ("low", low), ("high", high)):
        command += [f"--{name}", str(value)] if value else []
    return _read(_answer(command, "Range test", quiet=quiet))


def _folder_trials(folder: Path, data: Path | None, device: str, found: Json, wish: str, *, quiet: bool) -> None:
    """Make trials here, and add them to what was found."""
    from scheduler.rates.trials import (  # slow to load, as below
        RateUnclear,
        TrialsRecord,
        most_share,
        trial_choice,
        trials_s,
        trials_scale,
    )  # fmt: skip

    run_s = float(found["run_s"] or 0.0)
    scale = trials_scale(run_s, _TRIALS_MOST_S[wish])
    most, expected_s = (scale or 1.0) * most_share(), trials_s(run_s, scale or 1.0)
    told: Json = {"state": "none", "most_share": most, "expected_s": expected_s, "done": []}
    found["trials"] = told
    if not scale:
        return
    command = [sys.executable, "-m", "worker.runtime.rates.trials", "--program", str(folder)]
    command += ["--data", str(data or folder / "data"), "--centre", str(found["centre"]), "--scale", str(scale)]
    command += ["--budget", str(2 * told["expected_s"] + 30.0), *(["--device", device] if device else [])]
    try:
        answer = _answer(command, _trying(told), quiet=quiet)
        choice = trial_choice(TrialsRecord.from_dict(answer["trials"]))
    except (RangeTestFailed, RateUnclear) as error:
        told |= {"state": "failed", "problem": {"message": str(error), "hint": error.hint}}
        return
    told |= {"state": "done", "rate": choice.rate, "share": choice.share, "notes": list(choice.notes)}
    told |= {"took_s": answer["took_s"], "complete": answer["complete"], "done": answer["trials"]["done"]}
    found["best"], found["alternatives"] = choice.rate, {"trials": choice.rate, **found["alternatives"]}


def _answer(command: list[str], what: str, *, quiet: bool) -> Json:
    """The last line that the command prints. Raises `RangeTestFailed`, with the command to be run by hand."""
    shown = " ".join(["python", *command[1:]])
    last: Any = None
    # the working folder is not searched for modules: a program's own files must not stand in for ours
    environment = {**os.environ, "PYTHONSAFEPATH": "1"}
    # errors go to a file: a program that fills a pipe, which nobody reads before it ends, would wait for ever
    with tempfile.TemporaryFile() as errors:
        with (
            _bar(quiet=quiet) as bar,
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment) as process,
        ):
            task = bar.add_task(what, total=1.0)
            for line in process.stdout or ():
                if line.startswith('{"mark"'):
                    bar.update(task, completed=float(json.loads(line).get("share", 0.0)))
                elif line.startswith("{"):
                    last = line
        words = _last_words(errors)
    try:
        body = json.loads(last or "")
    except ValueError:
        body = None
    if not isinstance(body, dict) or "ok" not in body:
        raise RangeTestFailed(f"The test did not run here: {words}", hint=f"It needs torch. By hand: {shown}")
    if problem := body.get("problem"):
        raise RangeTestFailed(str(problem.get("message")), hint=str(problem.get("hint") or ""))
    return body


def _last_words(errors: BinaryIO) -> str:
    """The last line of what a program wrote to its stream of errors."""
    errors.seek(max(0, errors.seek(0, os.SEEK_END) - _ERRORS_BYTES))
    lines = errors.read().decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it printed nothing"


def _read(answer: Json) -> Json:
    """The same shape as the portal's answer, as far as it can be told without one."""
    from scheduler.rates.interval import RangeRecord, RateUnclear, rate_range  # slow to load: other commands do without

    told = {"batch_size": answer["batch_size"], "optimizer": answer["optimizer"], "rate": answer["rate"]}
    base: Json = {"state": "failed", **told, "curve": [], "alternatives": {}, "notes": [], "record": answer["record"]}
    base |= {"run_s": answer.get("run_s"), "trials": None, "best": None}
    try:
        found = rate_range(RangeRecord.from_dict(answer["record"]))
    except RateUnclear as unclear:
        return {**base, "problem": {"code": unclear.code, "message": unclear.message, "hint": unclear.hint}}
    return {
        **base, "state": "done", "problem": None, "low": found.low, "high": found.high, "centre": found.centre,
        "best": found.centre,
        "alternatives": {name: float(rate) for name, rate in found.marks.items()}, "notes": list(found.notes),
        "degree": found.loss_fit.degree, "log_fit_of": found.log_fit_of, "diverged_at": found.diverged_at,
        "curve": [dict(zip(_CURVE, row, strict=True)) for row in found.curve()],
    }  # fmt: skip


def _bar(*, quiet: bool) -> Progress:
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TextColumn("{task.percentage:>3.0f} %"))
    return Progress(*columns, console=notes(), disable=quiet, transient=True)


def _csv_write(path: Path, found: Json) -> None:
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv_module.DictWriter(stream, _CURVE)
        writer.writeheader()
        writer.writerows(found["curve"])
    notes().print(f"Wrote {path}.", markup=False)


def _end(found: Json, *, as_json: bool) -> None:
    if as_json:
        json_print(found)
    elif found["state"] == "done":
        _print(found)
    else:
        problem = found["problem"] or {}
        raise RangeTestFailed(str(problem.get("message")), hint=str(problem.get("hint") or ""))
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
    elif trials["state"] == "none" and trials["expected_s"]:
        notes().print(f"No trials: they would take about {duration(trials['expected_s'])}. --trials always makes them.")
    elif trials["state"] == "failed":
        notes().print(f"No trials: {trials['problem']['message']}", markup=False)
