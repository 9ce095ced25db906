"""`dlh pool use`: what devices did and drew."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from harness.client.cli.common import open_client
from harness.client.cli.output import JsonFlag, console, json_print, number, table_print, when
from harness.client.client import Client, Json
from harness.client.download import download

SpanOption = Annotated[str, typer.Option("--span", help="day, week, month or year.")]
_ROWS_AT_ONCE = 5000
"""As many as the portal gives: it adds up the whole span for each page."""
_SMALL_KWH = 0.1
"""Where no row has more, the table is in Wh and g, as the page has it."""


def commands_add(pool: typer.Typer) -> None:
    """Put the command of this module below `dlh pool`."""
    pool.command("use")(use)


def use(
    context: typer.Context,
    span: SpanOption = "week",
    by: Annotated[str, typer.Option("--by", help="device, job, person or project.")] = "project",
    over_time: Annotated[bool, typer.Option("--over-time", help="By period instead of in total.")] = False,
    csv: Annotated[Path | None, typer.Option("--csv", help="Write a CSV file instead.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Device hours, energy and CO2 by device, job, person or project; by device what they draw idle and together."""
    path = "/pool/use/timeline" if over_time else "/pool/use"
    with open_client(context) as client:
        if csv is not None:
            download(client.transport, f"{path}.csv", csv, params={"span": span, "by": by})
            json_print({"out": str(csv)}) if as_json else console().print(f"Written: {csv}", markup=False)
            return
        items = _used(client, path, span=span, by=by)
    if as_json:
        json_print(items)
        return
    _table_print(items, over_time=over_time, with_idle=by == "device")


def _table_print(items: list[Json], *, over_time: bool, with_idle: bool) -> None:
    most_kwh = max((row["kwh"] + (row.get("idle") or {"kwh": 0.0})["kwh"] for row in items), default=0.0)
    energy, mass, per_kwh = ("Wh", "CO2 g", 1000.0) if most_kwh < _SMALL_KWH else ("kWh", "CO2 kg", 1.0)
    idle = ("Idle hours", f"Idle {energy}", f"Idle {mass}", "Basis of idle", f"Together {energy}", f"Together {mass}")
    first = ("From", "Name", "Devices") if over_time else ("Name",)
    columns = (*first, "Device hours", energy, mass, "Basis", *(idle if with_idle else ()))
    row_of = _point_row if over_time else _use_row
    table_print(columns, (row_of(row, per_kwh) for row in items))


def _used(client: Client, path: str, **query: str) -> list[Json]:
    """The rows of all pages, as of one moment."""
    body = client.get(path, page_size=_ROWS_AT_ONCE, **query)
    items: list[Json] = body["items"]
    for page in range(2, body["pages"] + 1):
        items += client.get(path, page=page, page_size=_ROWS_AT_ONCE, until=body["until"], **query)["items"]
    return items


def _point_row(row: Json, per_kwh: float) -> tuple[Any, ...]:
    return when(row["starts_at"]), row["name"], number(row["devices"]), *_used_cells(row, per_kwh)


def _use_row(row: Json, per_kwh: float) -> tuple[Any, ...]:
    return row["name"], *_used_cells(row, per_kwh)


def _used_cells(row: Json, per_kwh: float) -> tuple[Any, ...]:
    """At work and, of a device, idle and both together."""
    cells = (number(row["device_hours"]), *_energy_cells(row, per_kwh), row["basis"])
    if not (idle := row.get("idle")):
        return cells
    together = {name: row[name] + idle[name] for name in ("kwh", "co2_g")}
    both = _energy_cells(together, per_kwh)
    return (*cells, number(idle["hours"]), *_energy_cells(idle, per_kwh), idle["basis"], *both)


def _energy_cells(part: Json, per_kwh: float) -> tuple[str, str]:
    return number(part["kwh"] * per_kwh), number(part["co2_g"] / 1000 * per_kwh)
