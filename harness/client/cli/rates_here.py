"""A range test, and trials, of a program in a folder, on this machine: what `dlh lr-find FOLDER` does."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, BinaryIO

from harness.client.cli.common import share_bar
from harness.client.cli.output import duration
from harness.client.client import Json
from harness.client.errors import BadInput, ClientError

_ERRORS_BYTES = 4096
"""In a folder: so much of the end of a program's errors is looked at."""
_DEVICE = re.compile(r"cpu|cuda(:\d+)?")
"""What a program takes as a device."""
_GET_FOLDER = "`dlh code JOB --with-data --out FOLDER` writes a program with its data."
CURVE = ("rate", "loss", "loss_fit", "score", "log_fit")


class RangeTestFailed(ClientError):
    """The range test gave no interval."""

    code = "range_test_failed"


def folder_check(folder: Path, data: Path | None, device: str, use: str) -> None:
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


def folder_test(
    folder: Path, data: Path | None, device: str, low: float | None, high: float | None, *, quiet: bool
) -> Json:
    """Make the test here, by the runtime's own command, and read the record."""
    command = [sys.executable, "-P", "-m", "worker.runtime.rates.range_test", "--program", str(folder)]
    command += ["--data", str(data or folder / "data")]
    for name, value in (("device", device), ("low", low), ("high", high)):
        command += [f"--{name}", str(value)] if value else []
    return _read(_answer(command, "Range test", quiet=quiet))


def folder_trials(folder: Path, data: Path | None, device: str, found: Json, wish: str, *, quiet: bool) -> None:
    """Make trials here, and add them to what was found."""
    from scheduler.rates.trials import (  # slow to load, as below
        LIMITS_S,
        RateUnclear,
        TrialsRecord,
        most_share,
        trial_choice,
        trials_asked_s,
        trials_left_out,
        trials_s,
        trials_scale,
    )  # fmt: skip

    run_s = float(found["run_s"] or 0.0)
    scale = trials_scale(run_s, LIMITS_S[wish])
    most, expected_s = (scale or 1.0) * most_share(), trials_s(run_s, scale) if scale else trials_asked_s(run_s)
    told: Json = {"state": "none", "most_share": most, "expected_s": expected_s, "done": []}
    told["why"] = trials_left_out(wish, run_s)
    found["trials"] = told
    if not scale:
        return
    command = [sys.executable, "-P", "-m", "worker.runtime.rates.trials", "--program", str(folder)]
    command += ["--data", str(data or folder / "data"), "--centre", str(found["centre"]), "--scale", str(scale)]
    command += ["--budget", str(2 * told["expected_s"] + 30.0), *(["--device", device] if device else [])]
    try:
        answer = _answer(command, trying_words(told), quiet=quiet)
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
            share_bar(quiet=quiet) as bar,
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
        "curve": [dict(zip(CURVE, row, strict=True)) for row in found.curve()],
    }  # fmt: skip


def trying_words(trials: Json) -> str:
    """What trials take, before they begin."""
    return f"Trials, up to {trials['most_share']:.1f} runs, about {duration(trials['expected_s'])}"


def left_out_words(trials: Json) -> str:
    """Why no trials were made, and what makes them where anything does."""
    from scheduler.rates.trials import ASK  # slow to load

    expected = f" Expected: {duration(trials['expected_s'])}." if trials["expected_s"] else ""
    remedy = " --trials always makes them." if trials["why"] == ASK else ""
    return f"No trials were made. {trials['why']}{expected}{remedy}"
