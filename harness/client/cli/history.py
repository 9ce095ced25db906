"""`dlh pool history` and `dlh pool power`: what has run, and what devices draw, for `dlh simulate`."""

from __future__ import annotations

import csv
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer

from harness.client.cli.common import open_client
from harness.client.cli.output import JsonFlag, console, json_print, number, table_print
from harness.client.cli.use import SpanOption
from harness.client.client import Client, Json
from harness.client.download import download
from harness.client.errors import BadInput

_FIGURES = frozenset({"submitted_s", "deadline_s", "count", "run_s", "power_w", "priority", "ways"})
"""Columns that are no text."""
_CELL_LETTERS_MAX = 1 << 30
"""The ways of a job, hundreds of them, are one cell."""


def commands_add(pool: typer.Typer) -> None:
    """Put the commands of this module below `dlh pool`."""
    pool.command("history")(history)
    pool.command("power")(power)


def history(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File to write: CSV, or JSON where it ends in .json.")],
    span: SpanOption = "year",
    as_json: JsonFlag = False,
) -> None:
    """Write the jobs that ended, as a trace: `dlh simulate FILE --pool 1x2:cpu` replays it by any policy.

    JSON holds the quotas and the watts of devices as well, which then count in the replay.
    """
    with open_client(context) as client:
        if file.suffix.lower() == ".json":
            _json_write(client, file, span)
        else:
            download(client.transport, "/pool/history.csv", file, params={"span": span})
    json_print({"out": str(file)}) if as_json else console().print(f"Written: {file}", markup=False, soft_wrap=True)


def _json_write(client: Client, file: Path, span: str) -> None:
    """Jobs, quotas and watts as one object. Raises `BadInput`."""
    with tempfile.TemporaryDirectory() as folder:
        jobs = Path(folder) / "history.csv"
        download(client.transport, "/pool/history.csv", jobs, params={"span": span})
        rest = {"quotas": _quotas(client), "power": client.get("/pool/power")["items"]}
        written = file.with_name(f".{file.name}.part")
        try:
            with jobs.open(newline="", encoding="utf-8") as rows, written.open("w", encoding="utf-8") as out:
                _jobs_write(csv.DictReader(rows), out)
                out.write("".join(f',\n"{name}": {json.dumps(value)}' for name, value in rest.items()) + "}\n")
            written.replace(file)
        except OSError as error:
            written.unlink(missing_ok=True)
            raise BadInput(f"{file} cannot be written: {error.strerror}.", hint="Check the folder.") from error


def _jobs_write(rows: Iterator[dict[str, str]], out: TextIO) -> None:
    """One job a line: a year of them is never in memory at once."""
    csv.field_size_limit(_CELL_LETTERS_MAX)
    out.write('{"jobs": [')
    for number_of, row in enumerate(rows):
        job = {name: json.loads(cell) if name in _FIGURES else cell for name, cell in row.items() if cell}
        out.write(f"{',' if number_of else ''}\n{json.dumps(job)}")
    out.write("]")


def _quotas(client: Client) -> list[Json]:
    fields = ("project", "device_kind", "devices", "may_borrow")
    return [{name: row[name] for name in fields} for row in client.get("/pool/quotas")["items"]]


def power(context: typer.Context, as_json: JsonFlag = False) -> None:
    """What one device of each model draws, as offers count it; `dlh simulate --power` takes the JSON of it."""
    with open_client(context) as client:
        items: list[Json] = client.get("/pool/power")["items"]
    if as_json:
        json_print(items)
        return
    table_print(("Kind", "Model", "Idle W", "Held W", "Basis", "Source"), map(_power_row, items))


def _power_row(row: Json) -> tuple[Any, ...]:
    basis = row["basis"] if row["idle_basis"] == row["basis"] else f"{row['basis']}, idle {row['idle_basis']}"
    return row["kind"], row["model"], number(row["idle_w"]), number(row["busy_w"]), basis, row["source"]
