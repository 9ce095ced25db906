"""Of `dlh pool`: reserve, release, reservations, quota, quotas, and what a drain would do."""

from __future__ import annotations

from typing import Annotated

import typer

from harness.client.cli.changes import (
    RUNNING_COLUMNS,
    LookFlag,
    change_look,
    change_send,
    delayed_print,
    running_rows,
)
from harness.client.cli.common import open_client
from harness.client.cli.moments import moment_read
from harness.client.cli.output import JsonFlag, device_names, json_print, section_print, table_print, when
from harness.client.client import Json
from harness.client.errors import BadInput
from harness.client.transport import segment
from worker.words import counted

ProjectArgument = Annotated[str, typer.Argument(metavar="PROJECT", help="Slug of a project.")]
KindArgument = Annotated[str, typer.Argument(metavar="KIND", help="Kind of device: cpu or cuda.")]


def commands_add(pool: typer.Typer) -> None:
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
        bool,
        typer.Option(
            "--look",
            help="Show who would wait longer or finish sooner, and which running jobs would be there; reserve nothing.",
        ),
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Keep a node or a device for a purpose; who waits longer for it is told, and which running jobs will be there
    still when it begins: they are not stopped."""
    body: Json = {"node": node, "device": device, "purpose": purpose, "project": project}
    body["ends_at"] = moment_read(until, "--until", field="ends_at")
    if start:
        body["starts_at"] = moment_read(start, "--from", field="starts_at", begins=True)
    if look:
        change_look(context, "/pool/reservations", body, as_json)
        return
    kept = f"{node} {device}".strip()

    def said(made: Json) -> str:
        return f"{made['id']}: {kept} is reserved until {when(made['ends_at'])}."

    change_send(context, "POST", "/pool/reservations", body, said, as_json)


def release(
    context: typer.Context,
    reservation: Annotated[str, typer.Argument(metavar="ID", help="Id of a reservation.")],
    as_json: JsonFlag = False,
) -> None:
    """Cancel a reservation: its devices take jobs again."""
    change_send(context, "DELETE", f"/pool/reservations/{segment(reservation)}", None, "Cancelled.", as_json)


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
        change_look(context, path, body, as_json)
    elif devices == "none":
        ended = f"{project} no longer has a quota of {device_names(kind)[1]}."
        change_send(context, "DELETE", path, None, ended, as_json)
    else:
        may = f"{project} may hold {counted(int(devices), *device_names(kind))}"
        change_send(context, "PUT", path, body, lambda answer: f"{may}{_LENDS[answer.get('may_borrow')]}.", as_json)


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
    section_print("Running until it ends", RUNNING_COLUMNS, running_rows(found["running"]), "Nothing is running there.")
    delayed_print(found["delayed"])
