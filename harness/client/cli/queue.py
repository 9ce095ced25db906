"""`dlh queue`: show, move, priority."""

from __future__ import annotations

from typing import Annotated

import typer

from harness.client.cli.changes import LookFlag, change_look, change_send
from harness.client.cli.common import open_client
from harness.client.cli.output import JsonFlag, duration, idle_words, json_print, local_words, section_print, when
from harness.client.client import Json
from harness.client.errors import ApiError
from harness.client.transport import segment

app = typer.Typer(
    help="The queue, in the order it is served, and what runs. Admins move jobs and set priorities: 0 is normal, and "
    "higher goes first.",
    invoke_without_command=True,
)
JobArgument = Annotated[str, typer.Argument(metavar="JOB", help="Id of a waiting job.")]


@app.callback()
def queue_show(
    context: typer.Context,
    mine: Annotated[bool, typer.Option("--mine", help="Your own jobs alone, with their places among all.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """What waits, in the order it is served, and what runs, with the finish to expect."""
    if context.invoked_subcommand:
        return
    with open_client(context) as client:
        queue: Json = client.get("/queue", mine=mine or None)
    if as_json:
        json_print(queue)
        return
    times = ("Start", "Its range", "Finish", "Range", "Promised")
    columns = ("Place", "Job", "Project", "Wants", "Priority", *times, "Why it waits")
    section_print("Waiting", columns, map(_waiting, queue["waiting"]), "Nothing is waiting.")
    held = ("Job", "Project", "State", "Holds", "Finish", "Range", "Promised", "Slack")
    section_print("Running", held, map(_running, queue["running"]), "Nothing is running.")


def _name(row: Json) -> tuple[str, str]:
    job = row["job"]
    return (f"{job['id']} {job['name']}", job["project"]) if job else ("of another project", "")


def _range(row: Json) -> str:
    return f"{when(row['expected_low_at'])} to {when(row['expected_high_at'])}" if row["expected_low_at"] else ""


def _start_range(row: Json) -> str:
    low, high = row.get("expected_start_low_at"), row.get("expected_start_high_at")
    return f"{when(low)} to {when(high)}" if low else ""


def _waiting(row: Json) -> tuple[object, ...]:
    until = row.get("reserved_until")
    unknown = f"not known, reserved until about {when(until)}" if until else "not known"
    times = (when(row["expected_start_at"]), _start_range(row), when(row["expected_finish_at"]) or unknown, _range(row))
    place = (row["position"], *_name(row), row["devices"], row["priority"])
    return (*place, *times, when(row["promised_at"]), local_words(row["waiting_text"]))


def _running(row: Json) -> tuple[object, ...]:
    late = row["slack_s"] is not None and row["slack_s"] < 0
    slack = "" if row["slack_s"] is None else ("-" if late else "") + duration(abs(row["slack_s"]))
    finish = idle_words(row) or when(row["expected_finish_at"]) or "not known"
    finish += ", on borrowed devices" if row.get("borrows") and row["expected_finish_at"] else ""
    return (*_name(row), row["state"], row["devices"], finish, _range(row), when(row["promised_at"]), slack)


@app.command("move")
def queue_move(
    context: typer.Context,
    job: JobArgument,
    to: Annotated[str, typer.Argument(metavar="TO", help="up, down, first, last, or the id of a waiting job.")],
    look: LookFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Move a waiting job: up, down, first, last, or just before another one."""
    path, body = f"/queue/{segment(job)}/move", {"to": to} if to in {"up", "down", "first", "last"} else {"before": to}
    try:
        if look:
            change_look(context, path, body, as_json)
        else:
            change_send(context, "POST", path, body, f"{job} was moved.", as_json)
    except ApiError as error:
        if error.status == 404 and error.field == "before":
            error.message = f"There is no job {to!r}, which is none of up, down, first and last."
        raise


@app.command("priority", context_settings={"ignore_unknown_options": True})  # -5 is a priority, no option
def queue_priority(
    context: typer.Context,
    job: Annotated[str, typer.Argument(metavar="JOB", help="Id of a job that waits, runs or pauses.")],
    priority: Annotated[int, typer.Argument(metavar="PRIORITY", help="Whole number from -100 to 100; 0 is normal.")],
    look: LookFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Set the priority of a job that waits, runs or pauses: higher goes first. For admins.

    Jobs start with 0. Waiting ones are served by priority, then in the order
    of `dlh queue move`, then as they came. Before a higher priority go promised
    finishes, deadlines that can still be kept, and jobs that waited for a day.

    A running job of lower priority may be paused to make room, or go on with
    fewer devices. It continues by itself from where it was, in its old place.

    Example, which changes nothing: dlh queue priority JOB 50 --look
    """
    path, body = f"/queue/{segment(job)}", {"priority": priority}
    if look:
        change_look(context, path, body, as_json)
    else:
        change_send(context, "PATCH", path, body, f"{job} has priority {priority}.", as_json)
