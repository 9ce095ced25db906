"""`dlh offer`, `dlh jobs offer`: what a run would cost on every kind of device, before it runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from harness.client.cli import asking, taking
from harness.client.cli.asking import CountOption, DeadlineOption, DeviceModelOption, DeviceOption, ModeOption
from harness.client.cli.common import (
    DataOption,
    JobArgument,
    ModelOption,
    PromiseOption,
    SpecArgument,
    job_body,
    open_client,
    spec_named,
    text_read,
)
from harness.client.cli.output import (
    ExitCode,
    JsonFlag,
    console,
    duration,
    json_print,
    local_words,
    notes,
    size,
    table_print,
    when,
)
from harness.client.client import Client, Json
from harness.client.download import download
from harness.client.errors import BadInput
from harness.client.transport import segment

CsvOption = Annotated[Path | None, typer.Option("--csv", help="Write all lines with all figures to this file.")]
TakeOption = Annotated[
    str, typer.Option(help="Take a line: its number in the table that was shown here last, or `recommended`.")
]
OfferOption = Annotated[
    str, typer.Option(help="Show or take from this offer again, by the id below its table; nothing is priced anew.")
]
ALL_LINES = 12
_STYLES = {"recommended": "green", "fastest": "cyan", "cheapest": "cyan"}


def commands_add(app: typer.Typer) -> None:
    """Put the commands of this module on the top level."""
    app.command("offer")(offer)


def offer(  # noqa: PLR0913  (typer: one parameter per option)
    context: typer.Context,
    spec: SpecArgument = None,
    data: DataOption = "",
    model: ModelOption = None,
    workload: Annotated[
        Path | None,
        typer.Option(help="JSON of `python -m worker.runtime.inspection.trace` instead of a spec and data."),
    ] = None,
    deadline: DeadlineOption = "",
    device: DeviceOption = "",
    device_model: DeviceModelOption = "",
    count: CountOption = None,
    mode: ModeOption = "",
    csv: CsvOption = None,
    as_json: JsonFlag = False,
) -> None:
    """What a spec would cost on every kind of device, without making a job."""
    body = asking.wishes(deadline, device, device_model, count, mode)
    _spec_check(spec)
    with open_client(context) as client, spec_named(spec):
        if workload is not None:
            body |= {"workload": _workload(workload), "project": client.project}
        else:
            body |= job_body(client, spec, data, model, quiet=as_json)
        found = asking.priced(client, "/offers", body, deadline=deadline)
        _csv_write(client, found, csv)
    _end(found, as_json=as_json)


def job_offer(  # noqa: PLR0913
    context: typer.Context,
    job: JobArgument,
    deadline: DeadlineOption = "",
    device: DeviceOption = "",
    device_model: DeviceModelOption = "",
    count: CountOption = None,
    mode: ModeOption = "",
    take: TakeOption = "",
    offer: OfferOption = "",
    submit: Annotated[bool, typer.Option("--submit", help="Queue the job with the line that is taken.")] = False,
    promise: PromiseOption = True,
    probe: Annotated[
        bool,
        typer.Option(
            "--probe", help="Try a few real steps on one idle device first; of several devices, those of one rank."
        ),
    ] = False,
    csv: CsvOption = None,
    as_json: JsonFlag = False,
) -> None:
    """What a draft, or a job that waits or is paused, would cost on every kind of device; with --take it gets these.

    A number is of the table that was shown here last, or of that of the offer that --offer names: where it was priced
    anew since, nothing is taken.
    """
    wishes = asking.wishes(deadline, device, device_model, count, mode)
    taking.check(take, is_old=bool(offer), asks_anew=bool(wishes) or probe)
    place = f"/jobs/{segment(job)}/offers"
    with open_client(context) as client:
        if take.isdecimal():
            found = taking.shown_before(client, job, offer)
        elif offer:
            found = taking.named(client, job, offer)
        else:
            found = asking.priced(client, place, wishes, deadline=deadline)
        if probe:
            client.send("POST", f"/offers/{segment(found['id'])}/probe", _probe_on(found["wish"]))
            found = asking.ready(client, found)
            if asking.moves(deadline):  # by what the steps took, or by the time that they took
                found = asking.priced(client, place, wishes, deadline=deadline)
        is_taken = bool(take or submit) and found.get("state") != "failed"  # else what failed is told
        if is_taken:
            found = taking.accept(client, job, found, take, submit=submit, promise=promise)
        if not take.isdecimal():
            taking.remember(client, found)
        _csv_write(client, found, csv)
    _end(found, as_json=as_json, is_taken=is_taken, is_seen=take.isdecimal())


def _spec_check(spec: Path | None) -> None:
    """Pass for what may be a file of a spec. Raises `BadInput` where a job seems to be meant."""
    if spec is not None and not spec.suffix and not spec.exists():
        raise BadInput(
            f"There is no file {spec}; a task spec in YAML belongs here.",
            hint=f"If it is a job: `dlh jobs offer {spec}`; if it is data: --data {spec}.",
        )


def _probe_on(wish: Json) -> Json:
    return {"device": wish.get("kind"), "device_model": wish.get("model_name")}


def _workload(path: Path) -> Json:
    """The workload of a file: bare, or as the tracer prints it."""
    try:
        body = json.loads(text_read(path).strip().splitlines()[-1])
    except (ValueError, IndexError) as error:
        raise BadInput(
            f"{path} does not contain JSON.", hint="Create it with `python -m worker.runtime.inspection.trace`."
        ) from error
    found = body.get("workload", body) if isinstance(body, dict) else None
    if not isinstance(found, dict):
        problem = (body.get("problem") if isinstance(body, dict) else None) or {}
        said = f" The program could not be traced: {problem['message']}" if problem.get("message") else ""
        hint = str(problem.get("hint") or "Check whether the program could be traced.")
        raise BadInput(f"{path} does not contain a workload.{said}", hint=hint)
    return found


def _csv_write(client: Client, found: Json, path: Path | None) -> None:
    if path is not None and found["lines"]:
        download(client.transport, f"/offers/{segment(found['id'])}/lines.csv", path)
        notes().print(f"Wrote {path}.", markup=False)


def _end(found: Json, *, as_json: bool, is_taken: bool = False, is_seen: bool = False) -> None:
    """`is_seen`: the table has been shown before."""
    if as_json:
        json_print(found)
    elif not is_seen:
        _print(found)
    if found["recommended"] is None and not is_taken:
        raise typer.Exit(ExitCode.BAD_INPUT)


def _print(found: Json) -> None:
    out = console()
    if found["state"] == "failed":
        problem = found["problem"] or {}
        at_fault = problem.get("at_fault", False)
        is_unread = not at_fault and problem.get("code") != "not_priced"
        title = "The program does not run: " if at_fault else "Cannot be read without running it: " if is_unread else ""
        more = f" `dlh jobs offer {found.get('job') or 'JOB'} --probe` tries a few real steps." if is_unread else ""
        out.print(Text.assemble((title, "bold"), local_words(str(problem.get("message", "")))))
        out.print(Text(local_words(f"{problem.get('hint', '')}{more}").strip()))
        return
    out.print(Text(local_words(found["text"]), style="bold"))
    if found["deadline"]:
        out.print(Text(f"Deadline: {when(found['deadline'])} (this machine's time)"))
    changes = [local_words(change) for change in found["changes"]]
    if len(changes) == 1:
        out.print(Text(f"This would help: {changes[0]}"))
    elif changes:
        out.print(Text("\n  - ".join(("Any one of these would help:", *changes))))
    if found["earliest_finish"] and found["recommended"] is None:
        out.print(Text(f"Earliest finish that can be promised, with time to set it: {when(found['earliest_finish'])}"))
    shown = [line for line in found["lines"] if line["place"] < ALL_LINES or line["marks"] or line["frontier"]]
    if shown:
        out.print()
        most_j = max(line["energy_j"]["high"] for line in found["lines"])
        head = ("#", "Devices", "Done by", "Runs for", "Memory/rank", "Energy", "Basis", "")
        table_print(head, (_row(line, most_j) for line in shown))
    if len(shown) < len(found["lines"]):
        notes().print(f"{len(shown)} of {len(found['lines'])} ways; --json or --csv shows all.")
    for note in found["notes"]:
        notes().print(local_words(note), markup=False)
    if found["job"] and shown:
        out.print(Text(f"Offer {found['id']}; `dlh jobs offer {found['job']} --take N` takes the line # N of it."))


def _row(line: Json, most_j: float) -> tuple[object, ...]:
    style = "" if line["offered"] else "dim"
    run = line["run_s"]
    cells = (
        str(line["place"]), line["words"], when(line["finish_high"]) if line["finish_high"] else "never",
        f"{duration(run['mid'])} ({duration(run['low'])} to {duration(run['high'])})",
        f"{size(line['peak_bytes']['mid'])} of {size(line['memory_limit_bytes'])}",
        taking.energy_words(line["energy_j"], most_j),
        _basis(line),
    )  # fmt: skip
    return (*(Text(cell, style=style) for cell in cells), _why(line, style))


def _why(line: Json, style: str) -> Text:
    """What speaks for a way, and against it: the cheapest may be too late."""
    said = [Text(mark, style=_STYLES.get(mark, "")) for mark in line["marks"]]
    if line["why"]:
        said.append(Text(line["why"], style=style))
    elif line["frontier"] and not said:
        said.append(Text("frontier", style=style))
    if line["data_words"]:
        said.append(Text(line["data_words"], style=style))
    return Text(", ").join(said)


def _basis(line: Json) -> str:
    """What the figures rest on: in one word, or of each where they do not rest on the same."""
    bases = {figure: str(line[f"{figure}_basis"]) for figure in ("time", "memory", "energy")}
    if len(set(bases.values())) == 1:
        return bases["time"]
    return ", ".join(f"{figure} {basis}" for figure, basis in bases.items())
