"""`dlh watch` and `dlh logs`."""

from __future__ import annotations

from itertools import chain
from typing import Annotated

import typer
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

from harness.client.cli.common import JobArgument, finish, open_client
from harness.client.cli.output import (
    CutColumn,
    JsonFlag,
    console,
    draws_bars,
    duration,
    idle_words,
    json_line,
    line_print,
    local_words,
    notes,
    number,
    when,
)
from harness.client.client import Client, Json
from harness.client.errors import BadInput
from harness.client.watch import LEVELS, job_updates, log_follow, log_lines, rests, tested_first
from worker.words import percent_words

_MOVING = frozenset({"queued", "placed", "running", "pausing", "returning", "cancelling"})


def commands_add(app: typer.Typer) -> None:
    """Put the commands of this module on the top level."""
    app.command("watch")(watch)
    app.command("logs")(logs)


def watch(context: typer.Context, job: JobArgument, as_json: JsonFlag = False) -> None:
    """A live bar with ETA until the job has ended, or off a terminal a line for each state; with --json the job as one
    line per change.

    One that is paused is not waited for: the exit code is 5 then, and `dlh resume` continues it.
    """
    with open_client(context) as client:
        _submitted_check(client.job(job))
        last = watch_and_print(client, job, as_json=as_json)
    finish(last)


def _submitted_check(job: Json) -> None:
    """Raise `BadInput` for a draft that is not on its way: there is nothing to follow."""
    if job["state"] == "draft" and not tested_first(job):
        raise BadInput(
            f"{job['name']} is a draft and is not submitted.",
            hint=f"Submit it by `dlh submit {job['id']}`.",
        )


def watch_and_print(client: Client, job_id: str, *, as_json: bool, quiet: bool = False) -> Json:
    """Follow a job, show it, return it at rest."""
    job: Json = {}
    if as_json or quiet:
        for job in job_updates(client, job_id, away=client.away):
            if as_json:
                json_line(job)
        return job
    out = notes()
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        CutColumn("{task.fields[note]}", out, others=30),
    )
    updates = job_updates(client, job_id, away=client.away)
    first = next(updates)
    said = ("", False)
    with Progress(*columns, console=out, disable=not draws_bars(out)) as bar:
        task = bar.add_task("", total=1.0, note="")
        for job in chain([first], updates):
            bar.update(task, completed=job["progress"], description=job["state"], note=_note(job))
            stands = (job["state"], rests(job))
            if not draws_bars(out) and stands != said:  # a bar would be cut at some width
                said = stands
                line = filter(None, (job["state"], percent_words(job["progress"], 0), _note(job)))
                out.print(" · ".join(line), markup=False, soft_wrap=True)
    summary_print(job)
    _rest_tell(client, job)
    return job


def _rest_tell(client: Client, job: Json) -> None:
    """What a person has to do where a job has not ended and goes no further by itself."""
    out = notes()
    if job["state"] == "paused":
        out.print(f"It is paused until somebody resumes it: `dlh resume {job['id']}`.", markup=False, soft_wrap=True)
    elif job["state"] == "draft":
        history = client.job_part(job["id"], "events")["items"]
        why = local_words(history[-1]["message"]) if history else ""
        told = f"It is still a draft. {why.removesuffix('.')}. `dlh submit {job['id']}` submits it again."
        out.print(told, markup=False, soft_wrap=True)


def _note(job: Json) -> str:
    if tested_first(job):
        return "a range test finds its learning rate first"
    if job["state"] == "queued":
        place = f"place {job['queue_position']}" if job.get("queue_position") else ""
        until = f"reserved until about {when(job['reserved_until'])}" if job.get("reserved_until") else ""
        return " · ".join(filter(None, (place, local_words(job["waiting_text"]), until)))
    parts = []
    if job["epochs"]:
        parts.append(f"epoch {number(job['epoch'], 3)}/{job['epochs']}")
    if told := idle_words(job):  # before the figures, of which a narrow line cuts the last
        parts.append(told)
    elif job["state"] in _MOVING and job["eta_s"] is not None:
        parts.append(f"{duration(job['eta_s'])} left")
    for key in ("train/loss", "val/loss", f"val/{job['metric_name']}"):
        if (value := job["last_values"].get(key)) is not None:
            parts.append(f"{key} {number(value)}")
    if job["samples_per_s"] and job["state"] in _MOVING:
        parts.append(f"{number(job['samples_per_s'], 3)} samples/s")
    return " · ".join(parts)


def summary_print(job: Json) -> None:
    """One line on how a job stands, and what to do where it failed."""
    out = console()
    out.print(f"{job['name']}: {job['state']}", markup=False, soft_wrap=True)
    if job["metric_best"] is not None:
        test = f", test {number(job['metric_test'])}" if job["metric_test"] is not None else ""
        out.print(f"{job['metric_name']}: validation {number(job['metric_best'])}{test}", markup=False)
    failure = job["failure"] or {}
    for key in ("message", "hint"):
        if failure.get(key):
            out.print(str(failure[key]), markup=False, soft_wrap=True)


def logs(
    context: typer.Context,
    job: JobArgument,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Keep following until the job ends or is paused.")
    ] = False,
    rank: Annotated[int | None, typer.Option(help="One rank only.", min=0)] = None,
    query: Annotated[str, typer.Option("--grep", "-g", help="Only lines that contain this text.")] = "",
    level: Annotated[str, typer.Option(help="Minimum level: info, warning or error.")] = "",
    tail: Annotated[int, typer.Option("--tail", "-n", help="Only the last lines.", min=0, max=5000)] = 0,
    as_json: JsonFlag = False,
) -> None:
    """What the ranks printed; with --json one line of JSON per line."""
    if level not in LEVELS:
        raise BadInput(f"There is no level {level!r}.", hint=f"Use {', '.join(LEVELS[1:-1])} or {LEVELS[-1]}.")
    with open_client(context) as client:
        printed = client.job_part(job, "logs", limit=1)["ranks"]
        several = rank is None and len(printed) > 1
        if rank is not None and rank not in printed:
            _silent_rank_tell(client, job, rank, printed)
        if follow:
            lines = log_follow(client, job, rank=rank, query=query, level=level, away=client.away)
        else:
            lines = log_lines(client, job, rank=rank, query=query, level=level, tail=tail)
        out = console()
        for line in lines:
            if as_json:
                json_line(line)
            else:
                mark = f"[{line['rank']}] " if several else ""
                line_print(out, mark + line["text"])
        if follow and not as_json:
            _rest_tell(client, client.job(job))


def _silent_rank_tell(client: Client, job: str, rank: int, printed: list[int]) -> None:
    """Why there are no lines of a rank. Raises `BadInput` where the job has no such rank."""
    attempts = client.job_part(job, "attempts")["items"]
    widths = [max(one["world_size"], one["ranks"]) for one in attempts]
    ranks = max([*widths, *(number + 1 for number in printed)], default=0)
    if ranks and rank >= ranks:
        words = "rank 0 alone" if ranks == 1 else f"ranks 0 to {ranks - 1}"
        raise BadInput(f"There is no rank {rank}.", hint=f"The job has {words}; without --rank all are shown.")
    notes().print(f"Rank {rank} has printed nothing yet.", markup=False)
