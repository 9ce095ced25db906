"""`dlh data`: add, uploads, fetches, list, show, profile, rm."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from harness.client.cli.common import dataset_found, dataset_ready, dataset_upload, file_named, open_client
from harness.client.cli.fetches import data_fetches, dataset_fetch, each_do, is_address
from harness.client.cli.local_profile import profile_here
from harness.client.cli.output import JsonFlag, console, json_print, notes, number, pairs_print, size, table_print, when
from harness.client.cli.storage import ForeverFlag, remove
from harness.client.client import Json
from harness.client.errors import BadInput
from harness.client.transport import segment
from harness.client.upload import TUS_HEADERS
from worker.words import counted

app = typer.Typer(help="Datasets: add, uploads, fetches, list, show, profile, rm.", no_args_is_help=True)
DataArgument = Annotated[str, typer.Argument(metavar="DATASET", help="Id or name of a dataset.")]
TargetOption = Annotated[str, typer.Option(help="Column to predict.")]
DelimiterOption = Annotated[str, typer.Option(help="Delimiter of a CSV; else it is found out.")]
EncodingOption = Annotated[str, typer.Option(help="Encoding of a text file; else it is found out.")]
TypesOption = Annotated[list[str] | None, typer.Option("--type", help="COLUMN=TYPE, may be repeated.")]


@app.command("add")
def data_add(  # noqa: PLR0913  (typer: one parameter per option)
    context: typer.Context,
    source: Annotated[
        str,
        typer.Argument(
            metavar="FILE|URL",
            help="CSV, TSV, JSON lines, Parquet (plain or gz), a spreadsheet (.xlsx, .ods), or a zip/tar of pictures; "
            "here or at a web address.",
        ),
    ],
    name: Annotated[str, typer.Option(help="Name of the dataset; else the file's.")] = "",
    target: TargetOption = "",
    delimiter: DelimiterOption = "",
    encoding: EncodingOption = "",
    types: TypesOption = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until it has been read.")] = True,
    fresh: Annotated[bool, typer.Option("--fresh", help="Upload even if the project has this file.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Upload a file, which goes on where it was cut and is not sent where it is known; or have the portal fetch one."""
    options = _options(target, delimiter, encoding, types)
    with open_client(context) as client:
        if is_address(source):
            fetch = client.dataset_fetch(source, name=name, options=options)
            if not wait:
                _fetch_show(fetch, as_json=as_json)
                return
            dataset = dataset_fetch(client, fetch, quiet=as_json)
        else:
            fresh = fresh or bool(name)
            dataset = dataset_upload(client, Path(source), name=name, options=options, fresh=fresh, quiet=as_json)
        if wait:
            dataset = dataset_ready(client, dataset, quiet=as_json)
        warnings = client.dataset_profile(dataset["id"])["warnings"] if dataset["state"] == "ready" else []
        others = [] if as_json else [one for one in client.datasets(query=dataset["name"]) if _is_other(one, dataset)]
    if as_json:
        json_print({**dataset, "warnings": warnings})
    else:
        _sameness_print(dataset, others)
        _show(dataset)
        _warnings_print([item for item in warnings if item["severity"] != "info"])
        if notes_found := sum(item["severity"] == "info" for item in warnings):
            told = counted(notes_found, "note")
            console().print(f"\n{told} on the data: dlh data profile {dataset['id']}", markup=False)


def _is_other(one: Json, dataset: Json) -> bool:
    """Whether it is another dataset of the same name."""
    return bool(one["name"] == dataset["name"] and one["id"] != dataset["id"])


def _sameness_print(dataset: Json, others: list[Json]) -> None:
    """That the file is there already, or that its name now is of several datasets."""
    if not dataset["uploaded"]:
        told = f"The project has this file already, as {dataset['name']} ({dataset['id']}); --fresh adds it once more."
        notes().print(told, markup=False, soft_wrap=True)
    if others:
        ids = ", ".join(one["id"] for one in others)
        told = f"{dataset['name']} is the name of {ids}, too: --data takes an id, --name gives another name."
        notes().print(told, markup=False, soft_wrap=True)


def _fetch_show(fetch: Json, *, as_json: bool) -> None:
    if as_json:
        json_print(fetch)
    else:
        console().print(f"{fetch['filename']} is being fetched: dlh data fetches.", markup=False)


def _options(target: str, delimiter: str, encoding: str, types: list[str] | None) -> Json:
    given = {"target": target, "delimiter": delimiter, "encoding": encoding, "column_types": _types(types or [])}
    return {key: value for key, value in given.items() if value}


def _types(pairs: list[str]) -> dict[str, str]:
    found = {}
    for pair in pairs:
        column, equals, kind = pair.rpartition("=")
        if not equals or not column:
            raise BadInput(f"--type {pair}: this is not COLUMN=TYPE.", hint="For example --type zip=category.")
        found[column] = kind
    return found


@app.command("list")
def data_list(
    context: typer.Context,
    query: Annotated[str, typer.Option("--query", "-q", help="Part of a name.")] = "",
    as_json: JsonFlag = False,
) -> None:
    """Datasets, newest first."""
    with open_client(context) as client:
        items = client.datasets(query=query)
    if as_json:
        json_print(items)
        return
    table_print(
        ("Id", "Name", "Kind", "Rows", "Size", "State", "Project", "Created"),
        (
            (
                item["id"], item["name"], item["kind"], number(item["rows"]), size(item["source_bytes"]), item["state"],
                item["project"], when(item["created_at"]),
            )
            for item in items
        ),
    )  # fmt: skip


@app.command("show")
def data_show(context: typer.Context, dataset: DataArgument, as_json: JsonFlag = False) -> None:
    """One dataset."""
    with open_client(context) as client:
        found = dataset_found(client, dataset)
    json_print(found) if as_json else _show(found)


@app.command("profile")
def data_profile(
    context: typer.Context,
    source: Annotated[
        str, typer.Argument(metavar="DATASET|FILE", help="Id or name of a dataset, or a file on this machine.")
    ],
    target: TargetOption = "",
    delimiter: DelimiterOption = "",
    encoding: EncodingOption = "",
    types: TypesOption = None,
    as_json: JsonFlag = False,
) -> None:
    """What is known of the data, and what it means for training. A file is read here: nothing is sent or kept."""
    options = _options(target, delimiter, encoding, types)
    if path := file_named(source):
        profile = profile_here(path, options, quiet=as_json)
    elif options:
        raise BadInput(
            f"{source} is not a file on this machine, and these options only apply to files.",
            hint="To change how a dataset is read, open its page.",
        )
    else:
        with open_client(context) as client:
            profile = client.dataset_profile(dataset_found(client, source)["id"])
    if as_json:
        json_print(profile)
        return
    rows = [(key.replace("_", " ").capitalize(), profile[key]) for key in ("kind", "rows", "source_format")]
    rows += [("Task", _guess(profile, "task")), ("Target", _guess(profile, "target"))]
    pairs_print([*rows, ("Duplicate rows", profile["duplicate_rows"] or None)])
    if profile["columns"]:
        console().print()
        table_print(("Column", "Type", "Missing", "Unique", "Examples"), map(_column, profile["columns"]))
    if profile["classes"]:
        console().print()
        table_print(("Class", "Rows"), profile["classes"][:20])
    _warnings_print(profile["warnings"])


def _warnings_print(warnings: list[Json]) -> None:
    for warning in warnings:
        told = not warning["rows"] or re.search(rf"\b(line|row) {warning['rows'][0]:,}\b", warning["message"])
        rows = "" if told else f" (rows {', '.join(map(str, warning['rows']))})"
        console().print(f"\n[{warning['severity']}] {warning['message']}{rows}", markup=False)
        console().print(f"  {warning['meaning']}", markup=False, style="dim")


def _guess(profile: Json, key: str) -> str:
    return f"{profile[key]} ({profile[f'{key}_reason']})" if profile[key] else ""


def _column(column: Json) -> tuple[object, ...]:
    missing = column.get("missing", 0)
    span = column.get("span")  # of dates, which their ends tell better
    ends = " to ".join(span[end].removesuffix(" 00:00:00") for end in ("first", "last")) if span else ""
    examples = ends or ", ".join(column["examples"][:3])
    return column["name"], column["type"], missing or "", column["unique"], examples


@app.command("uploads")
def data_uploads(
    context: typer.Context,
    give_up: Annotated[list[str] | None, typer.Option("--give-up", metavar="ID", help="May be repeated.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Your unfinished uploads; `dlh data add FILE` goes on with one. With --give-up it is forgotten with its bytes."""
    with open_client(context) as client:

        def forget(upload_id: str) -> None:
            client.transport.request("DELETE", _upload(upload_id), headers=TUS_HEADERS)

        each_do([(forget, one) for one in give_up or []])
        items: list[Json] = client.get("/uploads")["items"]
    if as_json:
        json_print(items)
        return
    table_print(
        ("Id", "File", "Sent", "Size", "Project", "Removed after"),
        (
            (one["id"], one["filename"], size(one["offset_bytes"]), size(one["size_bytes"]), one["project"],
             when(one["expires_at"]))
            for one in items
        ),
    )  # fmt: skip


def _upload(upload_id: str) -> str:
    return f"/uploads/{segment(upload_id)}"


app.command("fetches")(data_fetches)


@app.command("rm")
def data_rm(
    context: typer.Context, dataset: DataArgument, forever: ForeverFlag = False, as_json: JsonFlag = False
) -> None:
    """Move a dataset to the trash, from where it can be restored (two weeks, unless set otherwise)."""
    with open_client(context) as client:
        found = client.dataset(dataset)
        remove(client, "datasets", found["id"], forever=forever)
    if as_json:
        json_print({"ok": True, "id": found["id"]})
    else:
        where = "deleted for good" if forever else "in the trash"
        console().print(f"{found['name']} is {where}.", markup=False)


def _show(dataset: Json) -> None:
    names = ("id", "name", "project", "owner", "state", "kind", "rows", "task", "target", "source_name")
    rows = [(name.replace("_", " ").capitalize(), dataset[name]) for name in names]
    problem = dataset["problem"] or {}
    rows += [("Size", size(dataset["source_bytes"])), ("Created", when(dataset["created_at"]))]
    same = ", ".join(f"{one['name']} ({one['id']})" for one in dataset.get("same_as", ()))
    pairs_print(
        [
            *rows,
            ("Same bytes as", same or None),
            ("Problem", problem.get("message")),
            ("What to do", problem.get("hint")),
        ]
    )
