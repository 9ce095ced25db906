"""`dlh pool calibrate` and `dlh pool calibration`: measure devices, watch it, exchange what was measured."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, Progress, TextColumn

from harness.client.cli.common import open_client, text_read
from harness.client.cli.moments import budget_read
from harness.client.cli.output import (
    CutColumn,
    ExitCode,
    JsonFlag,
    console,
    draws_bars,
    duration,
    json_print,
    notes,
    table_print,
    when,
)
from harness.client.client import Client, Json
from harness.client.download import download
from harness.client.errors import BadInput
from harness.client.transport import segment
from worker.words import counted

app = typer.Typer(help="Measured devices: show, stop, export, import.", invoke_without_command=True)
OPEN = {"waiting", "running"}
_POLL_S = 1.0
_RUN_HEAD = ("Id", "Node", "Device", "State", "Points", "Refused", "Used", "Left", "Started")
_MODEL_HEAD = (
    *("Device", "Points", "Jobs", "Mean error", "90th percentile", "Linear regression", "Curve fit", "Noise"),
    *("Peak memory", "Power"),
)
_RIVALS = ("linear regression on knobs", "curve fit (power law)")
_FORMATS = ("csv", "json")


def commands_add(pool: typer.Typer) -> None:
    """Add both commands to `dlh pool`."""
    pool.command("calibrate")(calibrate)
    pool.add_typer(app, name="calibration")


def calibrate(
    context: typer.Context,
    node: Annotated[
        str, typer.Option("--node", help="Name of the node; else the only one that has such devices.")
    ] = "",
    kind: Annotated[str, typer.Option("--kind", help="cpu or cuda.")] = "cpu",
    model: Annotated[
        str, typer.Option("--model", help="Device as its maker names it; else the only one of its kind there.")
    ] = "",
    every: Annotated[
        bool, typer.Option("--all", help="Every model of the kind in the pool, each on the node that has most of it.")
    ] = False,
    budget: Annotated[str, typer.Option("--budget", help="Time to spend measuring, like 90s, 10m, 2h.")] = "10m",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Stay and show how far it is.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Measure what the devices of a node do, so that estimates are no guesses. They take no jobs meanwhile."""
    if every and (node or model):
        raise BadInput("--all is of the whole pool.", hint="Leave out --node and --model.")
    body = {"kind": kind, "budget_s": budget_read(budget)}
    with open_client(context) as client:
        if every:
            runs: list[Json] = client.send("POST", "/pool/calibration/all", body)["items"]
        else:
            runs = [client.send("POST", "/pool/calibration", {**body, "node": node, "model_name": model})]
        if follow:
            runs = [_follow(client, run, quiet=as_json) for run in runs]
    if as_json:
        json_print({"items": runs} if every else runs[0])
    else:
        for run in runs:
            told = _ended(run) if follow else f"{_named(run)} begins; `dlh pool calibration` shows it. {run['reach']}"
            console().print(told.strip(), markup=False)
    if any(run["state"] == "failed" for run in runs):
        raise typer.Exit(ExitCode.JOB_FAILED)


def _named(run: Json) -> str:
    return f"Calibration {run['id']} of {run['model_name'] or run['kind']} on {run['node']}"


def _follow(client: Client, run: Json, *, quiet: bool) -> Json:
    """How far it is, on standard error, until the sweep has ended: a bar, or lines where that is no terminal.

    Ctrl-C leaves it running.
    """
    out = notes()
    if not quiet:
        out.print(f"{_named(run)}. {run['reach']}".strip(), markup=False)
    columns = (
        CutColumn("{task.description}", out, others=55),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %  {task.fields[left]}"),
    )
    said = ""
    with Progress(*columns, console=out, disable=quiet or not draws_bars(out), transient=True) as bar:
        task = bar.add_task("Waiting", total=1.0, left="")
        while run["state"] in OPEN:
            bar.update(task, completed=run["progress"], description=_doing(run), left=_left(run))
            if not quiet and not draws_bars(out) and said != _doing(run):
                said = _doing(run)
                out.print(f"{said.rstrip('.')}; {_left(run)}", markup=False)
            time.sleep(_POLL_S)
            run = client.get_waiting(f"/pool/calibration/{segment(run['id'])}")
    return run


def _left(run: Json) -> str:
    """Time left: by its own pace, before its first point what the budget gives."""
    if run["eta_s"] is not None:
        return f"about {duration(run['eta_s'])} left"
    return f"at most {duration(run['budget_s'] - run['used_s'])} of measuring"


def _doing(run: Json) -> str:
    if run["fitting"]:
        return f"Fitting {counted(run['measured'], 'point')}"
    if run["message"]:
        return str(run["message"])
    refused = f", {len(run['refused'])} refused" if run["refused"] else ""
    return f"{counted(run['measured'], 'point')} measured{refused}"


def _ended(run: Json) -> str:
    refused = f", {len(run['refused'])} refused" if run["refused"] else ""
    words = f"{run['state'].capitalize()}: {counted(run['measured'], 'point')} measured{refused}. {run['message']}"
    return f"{words} {run['reach']}".strip()


@app.callback()
def calibration_show(context: typer.Context, as_json: JsonFlag = False) -> None:
    """Calibrations and the models fitted to them."""
    if context.invoked_subcommand:
        return
    with open_client(context) as client:
        body: Json = client.get("/pool/calibration")
    if as_json:
        json_print(body)
        return
    table_print(_RUN_HEAD, map(_run_row, body["runs"]))
    if body["models"]:
        table_print(_MODEL_HEAD, map(_model_row, body["models"]))
    for shipped in body["shipped"]:
        console().print(_shipped(shipped), markup=False)


def _run_row(run: Json) -> tuple[object, ...]:
    used = f"{duration(run['used_s'])} of {duration(run['budget_s'])}"
    device = f"{run['kind']} {run['model_name']}".strip()
    names = (run["id"], run["node"], device, run["state"], run["measured"], len(run["refused"]))
    return (*names, used, duration(run["eta_s"]), when(run["created_at"]))


def _model_row(row: Json) -> tuple[object, ...]:
    total, device = row["total"] or {}, f"{row['kind']} {row['model_name']}"
    rivals = (row["baselines"].get(name, {}).get("mape") for name in _RIVALS)
    errors = map(_share, (total.get("mape"), total.get("p90"), *rivals))
    others = (_fit(row[name]) for name in ("memory", "power"))
    return (device, row["n_points"], row["n_finished"], *errors, _share(row["noise"]), *others)


def _shipped(row: Json) -> str:
    """A calibration that ships with the harness, as a sentence."""
    uses = f"Stands in for {', '.join(row['stands_for'])}." if row["stands_for"] else "Not needed here."
    measured = f"{row['n_points']} points of {row['model_name']}, measured on {row['measured_on']}"
    return f"Ships with the harness: {measured}. {uses}"


def _fit(figure: Json) -> str:
    """Mean error of a fitted figure, or what it rests on where nothing was held out."""
    return _share(figure["total"]["mape"]) if figure["total"] else str(figure["basis"])


def _share(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f} %"


@app.command("stop")
def calibration_stop(
    context: typer.Context,
    run_id: Annotated[str, typer.Argument(metavar="ID", help="Id of a calibration.")],
    as_json: JsonFlag = False,
) -> None:
    """End a calibration; what it has measured is kept."""
    with open_client(context) as client:
        run = client.send("POST", f"/pool/calibration/{segment(run_id)}/stop")
    if as_json:
        json_print(run)
    else:
        console().print(_ended(run), markup=False)


@app.command("export")
def calibration_export(
    context: typer.Context,
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="Ends in .csv or .json; - writes CSV, or with --json JSON, to the output."),
    ],
    kind: Annotated[str, typer.Option("--kind", help="Only points of cpu or cuda.")] = "",
    as_json: JsonFlag = False,
) -> None:
    """Write every measured point to a file."""
    to_output = str(file) == "-"
    form = ("json" if as_json else "csv") if to_output else file.suffix.removeprefix(".").lower()
    if form not in _FORMATS:
        raise BadInput(f"{file.name} ends neither in .csv nor in .json.", hint="Name the file accordingly.")
    with open_client(context) as client:
        path, params = f"/pool/calibration/points.{form}", {"kind": kind} if kind else {}
        if to_output:
            sys.stdout.write(client.transport.request("GET", path, params=params).text)
            return
        download(client.transport, path, file, params=params)
    if as_json:
        json_print({"out": str(file)})
    else:
        notes().print(f"Written: {file}", markup=False)


@app.command("import")
def calibration_import(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file that an export wrote.")],
    as_json: JsonFlag = False,
) -> None:
    """Take in points that were measured elsewhere; all of the file or nothing."""
    with open_client(context) as client:
        text = text_read(file, hint="Give a file that an export wrote, as CSV or JSON.")
        told = client.send("POST", "/pool/calibration/points", {"text": text})
    if as_json:
        json_print(told)
    else:
        added = counted(told["added"], "point was", "points were")
        console().print(f"{added} added, {counted(told['known'], 'was', 'were')} known already.")
