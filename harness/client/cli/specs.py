"""`dlh spec`: init, check, schema."""

from __future__ import annotations

import sys
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

import typer

from harness.client.cli.common import DataOption, ModelOption, dataset_resolve, model_read, open_client, spec_read
from harness.client.cli.output import ExitCode, JsonFlag, console, json_print, notes, table_print
from harness.client.cli.schema import schema_rows
from harness.client.client import Json
from harness.client.errors import BadInput

app = typer.Typer(help="Task specs: init, check, schema.", no_args_is_help=True)


@app.command("init")
def spec_init(
    context: typer.Context,
    data: DataOption = "",
    out: Annotated[Path | None, typer.Option("--out", "-o", help="File to write; default: standard output.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """A commented spec to start from, every field at auto; with --data its task and target are filled in."""
    if out and out.exists() and not force:
        raise BadInput(f"{out} already exists.", hint="Use --force, or another name.")
    with open_client(context) as client:
        dataset = dataset_resolve(client, data, quiet=as_json)["id"] if data else None
        params = {"dataset": dataset} if dataset else {}
        text = client.transport.request("GET", "/spec/template", params=params).text
    if out:
        out.write_text(text, encoding="utf-8")
        notes().print(f"Wrote {out}.", markup=False)
    if as_json:
        json_print({"yaml": text, "dataset": dataset, "out": str(out) if out else None})
    elif not out:
        sys.stdout.write(text)


@app.command("schema")
def spec_schema(
    context: typer.Context,
    field: Annotated[str, typer.Argument(metavar="[FIELD]", help="Only this field or section, e.g. training.")] = "",
    as_json: JsonFlag = False,
) -> None:
    """Every field of a spec: what it takes, its default, what it means. With --json the JSON Schema itself."""
    with open_client(context) as client:
        schema: Json = client.get("/spec/schema")
    rows = schema_rows(schema)
    found = [row for row in rows if not field or row[0] == field or row[0].startswith(f"{field}.")]
    if not found:
        names = [row[0] for row in rows]
        close = get_close_matches(field, names, n=3, cutoff=0.8) or [
            name for name in names if name.endswith(f".{field}")
        ]
        hint = f"Did you mean {' or '.join(close)}?" if close else "`dlh spec schema` lists all."
        raise BadInput(f"A spec has no field {field}.", hint=hint, field=field)
    if as_json:
        json_print(schema)
        return
    table_print(("Field", "Takes", "Default", "Meaning"), found)


@app.command("check")
def spec_check(
    context: typer.Context,
    spec: Annotated[Path, typer.Argument(metavar="SPEC", help="Task spec in YAML.")],
    data: DataOption = "",
    model: ModelOption = None,
    as_json: JsonFlag = False,
) -> None:
    """What is wrong with a spec, or with data what each auto becomes and why. Exit code 2 if it cannot be used."""
    text = spec_read(spec)
    body: Json = {"yaml": text}
    if model is not None:
        model_read(model)
        body["own_model"] = True
    with open_client(context) as client:
        if data:
            body["dataset"] = dataset_resolve(client, data, quiet=as_json)["id"]
        found: Json = client.send("POST", "/spec/check", body)
    if as_json:
        json_print(found)
    elif found["ok"]:
        console().print("The spec is valid.", style="green")
        guesses = (found["resolved"] or {}).get("guesses") or []
        if guesses:
            table_print(("Field", "Value", "Why"), ((g["field"], str(g["value"]), g["reason"]) for g in guesses))
    else:
        table_print(("Field", "What is wrong"), ((p["field"], p["message"]) for p in found["problems"]))
    if not found["ok"]:
        raise typer.Exit(ExitCode.BAD_INPUT)
