"""`dlh queue`: show, move, priority; and of `dlh pool`: reserve, release, quota, what a drain would do."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated

import typer

from harness.client.cli.common import open_client
from harness.client.cli.moments import moment_read
from harness.client.cli.output import (
    JsonFlag,
    console,
    device_names,
    duration,
    idle_words,
    json_print,
    local_words,
    table_print,
    when,
)
from harness.client.client import Json
from harness.client.errors import ApiError, BadInput
from harness.client.transport import segment
from worker.words import counted

app = typer.Typer(
    help="The queue, in the order it is served, and what runs. Admins move jobs and set priorities: 0 is normal, and "
    "higher goes first.",
    invoke_without_command=True,
)
JobArgument = Annotated[str, typer.Argument(metavar="JOB", help="Id of a waiting job.")]
ProjectArgument = Annotated[str, typer.Argument(metavar="PROJECT", help="Slug of a project.")]
KindArgument = Annotated[str, typer.Argument(metavar="KIND", help="Kind of device: cpu or cuda.")]
LookFlag = Annotated[
    bool, typer.Option("--look", help="Show who would wait longer or could not start; change nothing.")
]


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
    _section("Waiting", columns, map(_waiting, queue["waiting"]), "Nothing is waiting.")
    held = ("Job", "Project", "State", "Holds", "Finish", "Range", "Promised", "Slack")
    _section("Running", held, map(_running, queue["running"]), "Nothing is running.")


def _section(title: str, columns: tuple[str, ...], rows: Iterable[tuple[object, ...]], empty: str) -> None:
    """A table under its title, or what to say instead of an empty one."""
    found = list(rows)
    if found:
        table_print(columns, found, title=title)
    else:
        console().print(empty, markup=False)


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


def _change(
    context: typer.Context,
    method: str,
    path: str,
    body: Json | None,
    said: str | Callable[[Json], str],
    as_json: bool,
) -> None:
    """Change something and say so; `said`: of the answer, where the words depend on that."""
    with open_client(context) as client:
        answer: Json = client.send(method, path, body)
    if as_json:
        json_print(answer)
        return
    console().print(said if isinstance(said, str) else said(answer), markup=False)
    if answer.get("delayed"):
        _delayed_print(answer["delayed"])


def _look(context: typer.Context, path: str, body: Json, as_json: bool) -> None:
    """What a change would do."""
    with open_client(context) as client:
        found: list[Json] = client.send("POST", f"{path}/consequences", body)["items"]
    json_print(found) if as_json else _delayed_print(found)


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
            _look(context, path, body, as_json)
        else:
            _change(context, "POST", path, body, f"{job} was moved.", as_json)
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
        _look(context, path, body, as_json)
    else:
        _change(context, "PATCH", path, body, f"{job} has priority {priority}.", as_json)


def pool_commands_add(pool: typer.Typer) -> None:
    """Add the commands on reservations, quotas and drains to `dlh pool`."""
    for name, command in (
        ("reserve", reserve), ("release", release), ("reservations", reservations), ("quota", quota),
        ("quotas", quotas), ("consequences", consequences),
    ):  # fmt: skip
        pool.command(name)(command)


def reserve(  # noqa: PLR0913 - one parameter per option
    context: typer.Context,
    node: Annotated[str, typer.Argument(metavar="NODE", help="Name of a node.")],
    until: Annotated[str, typer.Option("--until", help="A time, a day (its end), or a span from now like 90m, 2d4h.")],
    purpose: Annotated[str, typer.Option("--purpose", help="What it is for.")],
    device: Annotated[str, typer.Option("--device", help="One device, like cuda:0; default: the whole node.")] = "",
    start: Annotated[str, typer.Option("--from", help="A time, or a span from now; default: now.")] = "",
    project: Annotated[str, typer.Option("--for", help="Slug of the project whose jobs may use it.")] = "",
    look: Annotated[
        bool, typer.Option("--look", help="Show who would wait longer or finish sooner; reserve nothing.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Keep a node or a device for a purpose; running jobs are not stopped, and who waits longer for it is told."""
    body: Json = {"node": node, "device": device, "purpose": purpose, "project": project}
    body["ends_at"] = moment_read(until, "--until", field="ends_at")
    if start:
        body["starts_at"] = moment_read(start, "--from", field="starts_at", begins=True)
    with open_client(context) as client:
        made: Json = client.send("POST", f"/pool/reservations{'/consequences' if look else ''}", body)
    if as_json:
        json_print(made["items"] if look else made)
    elif look:
        _delayed_print(made["items"])
    else:
        kept = f"{node} {device}".strip()
        console().print(f"{made['id']}: {kept} is reserved until {when(made['ends_at'])}.", markup=False)
        if made.get("delayed"):
            _delayed_print(made["delayed"])


def release(
    context: typer.Context,
    reservation: Annotated[str, typer.Argument(metavar="ID", help="Id of a reservation.")],
    as_json: JsonFlag = False,
) -> None:
    """Cancel a reservation: its devices take jobs again."""
    _change(context, "DELETE", f"/pool/reservations/{segment(reservation)}", None, "Cancelled.", as_json)


def reservations(context: typer.Context, as_json: JsonFlag = False) -> None:
    """Reservations that hold now or later."""
    with open_client(context) as client:
        items: list[Json] = client.get("/pool/reservations")["items"]
    if as_json:
        json_print(items)
        return
    rows = (
        (row["id"], row["node"], row["device"] or "all", when(row["starts_at"]), when(row["ends_at"]), row["purpose"],
         row["project"] or "", row["by"] or "")
        for row in items
    )  # fmt: skip
    table_print(("Id", "Node", "Device", "From", "Until", "Purpose", "Project", "By"), rows)


def quota(
    context: typer.Context,
    project: ProjectArgument,
    kind: KindArgument,
    devices: Annotated[str, typer.Argument(metavar="DEVICES", help="A number, or none for no limit.")],
    borrow: Annotated[bool | None, typer.Option(help="More while others leave it unused; default: as it is.")] = None,
    look: LookFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Set how many devices of a kind the jobs of a project may hold together; who waits longer for it is told."""
    path = f"/pool/quotas/{segment(project)}/{segment(kind)}"
    if devices != "none" and not (devices.isdecimal() and len(devices) < 10):
        raise BadInput(f"{devices!r} is not a number of devices.", hint="Give a number, or none for no limit.")
    lends = {} if borrow is None else {"may_borrow": borrow}
    body: Json = {"devices": None if devices == "none" else int(devices), **lends}
    if look:
        _look(context, path, body, as_json)
    elif devices == "none":
        _change(context, "DELETE", path, None, f"{project} no longer has a quota of {device_names(kind)[1]}.", as_json)
    else:
        may = f"{project} may hold {counted(int(devices), *device_names(kind))}"
        _change(context, "PUT", path, body, lambda answer: f"{may}{_LENDS[answer.get('may_borrow')]}.", as_json)


_LENDS = {True: ", and more while no other project wants them", False: ", and never more", None: ""}
"""By what the portal keeps; an older one does not say."""


def quotas(context: typer.Context, as_json: JsonFlag = False) -> None:
    """Quotas and what is used of them."""
    with open_client(context) as client:
        items: list[Json] = client.get("/pool/quotas")["items"]
    if as_json:
        json_print(items)
        return
    rows = (
        (row["project"], row["device_kind"], row["devices"], row["held"], "yes" if row["may_borrow"] else "no")
        for row in items
    )
    table_print(("Project", "Kind", "Quota", "Held now", "May borrow"), rows)


def consequences(
    context: typer.Context,
    node: Annotated[str, typer.Argument(metavar="NODE", help="Name of a node.")],
    as_json: JsonFlag = False,
) -> None:
    """What draining a node would do: its jobs and until when they run, and who would wait longer."""
    with open_client(context) as client:
        found: Json = client.get(f"/pool/nodes/{segment(node)}/consequences")
    if as_json:
        json_print(found)
        return
    running = ((row["job_id"], row["name"], row["devices"], when(row["finish_at"])) for row in found["running"])
    _section("Running until it ends", ("Job", "Name", "Devices", "Until"), running, "Nothing is running there.")
    _delayed_print(found["delayed"])


def _new_finish(row: Json) -> str:
    """When it would finish, and what is said of that."""
    return ": ".join(filter(None, (when(row["finish_after"]), local_words(row["why"]))))


def _delayed_print(delayed: list[Json]) -> None:
    rows = [
        (row["job_id"], row["name"], when(row["finish_before"]), _new_finish(row),
         "broken" if row["breaks_promise"] else "")
        for row in delayed if not row["gains"]
    ]  # fmt: skip
    columns = ("Job", "Name", "Current finish", "New finish", "Promise")
    _section("Waits longer", columns, rows, "Nobody waits longer.")
    sooner = [
        (row["job_id"], row["name"], when(row["finish_before"]), when(row["finish_after"]) or row["why"],
         "still late" if row["breaks_promise"] else "")
        for row in delayed if row["gains"]
    ]  # fmt: skip
    if sooner:
        _section("Finishes sooner", columns, sooner, "")
