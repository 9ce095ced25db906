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
_IDLE_COLUMNS = ("Idle hours", "Idle kWh", "Idle CO2 kg", "Basis of idle", "Together kWh", "Together CO2 kg")


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
    idle = _IDLE_COLUMNS if by == "device" else ()
    first = ("From", "Name", "Devices") if over_time else ("Name",)
    columns = (*first, "Device hours", "kWh", "CO2 kg", "Basis", *idle)
    table_print(columns, map(_point_row if over_time else _use_row, items))


def _used(client: Client, path: str, **query: str) -> list[Json]:
    """The rows of all pages, as of one moment."""
    body = client.get(path, page_size=_ROWS_AT_ONCE, **query)
    items: list[Json] = body["items"]
    for page in range(2, body["pages"] + 1):
        items += client.get(path, page=page, page_size=_ROWS_AT_ONCE, until=body["until"], **query)["items"]
    return items


def _point_row(row: Json) -> tuple[Any, ...]:
    return when(row["starts_at"]), row["name"], number(row["devices"]), *_used_cells(row)


def _use_row(row: Json) -> tuple[Any, ...]:
    return row["name"], *_used_cells(row)


def _used_cells(row: Json) -> tuple[Any, ...]:
    """At work and, of a device, idle and both together."""
    cells = (number(row["device_hours"]), *_energy_cells(row), row["basis"])
    if not (idle := row.get("idle")):
        return cells
    together = {name: row[name] + idle[name] for name in ("kwh", "co2_g")}
    return (*cells, number(idle["hours"]), *_energy_cells(idle), idle["basis"], *_energy_cells(together))


def _energy_cells(part: Json) -> tuple[str, str]:
    return number(part["kwh"]), number(part["co2_g"] / 1000)
