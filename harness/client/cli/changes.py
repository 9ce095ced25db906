"""A change of the pool, the queue or an account: sent or only looked at, and who waits longer or finishes sooner."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated

import typer

from harness.client.cli.common import open_client
from harness.client.cli.output import console, json_print, local_words, section_print, when
from harness.client.client import Json

LookFlag = Annotated[
    bool, typer.Option("--look", help="Show who would wait longer or could not start; change nothing.")
]
RUNNING_COLUMNS = ("Job", "Name", "Devices", "Until")


def change_send(
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
    _outlasting_print(answer)
    if answer.get("delayed"):
        delayed_print(answer["delayed"])


def change_look(context: typer.Context, path: str, body: Json, as_json: bool) -> None:
    """What a change would do; as JSON a list, and where running jobs are told as well, both as the portal answers."""
    with open_client(context) as client:
        found: Json = client.send("POST", f"{path}/consequences", body)
    if as_json:
        json_print(found if "running" in found else found["items"])
        return
    _outlasting_print(found)
    delayed_print(found["items"])


def running_rows(running: list[Json]) -> Iterator[tuple[object, ...]]:
    """Rows of `RUNNING_COLUMNS`."""
    return ((row["job_id"], row["name"], row["devices"], when(row["finish_at"]) or "not known") for row in running)


def _outlasting_print(answer: Json) -> None:
    """Whose runs outlast the beginning of a reservation; of other changes, and by an older portal, nothing is told."""
    if running := answer.get("running"):
        title = "Expected to be there still when it begins; nothing stops them"
        section_print(title, RUNNING_COLUMNS, running_rows(running), "")


def _new_finish(row: Json) -> str:
    """When it would finish, and what is said of that."""
    return ": ".join(filter(None, (when(row["finish_after"]), local_words(row["why"]))))


def delayed_print(delayed: list[Json]) -> None:
    """Who waits longer, and who finishes sooner."""
    rows = [
        (row["job_id"], row["name"], when(row["finish_before"]), _new_finish(row),
         "broken" if row["breaks_promise"] else "")
        for row in delayed if not row["gains"]
    ]  # fmt: skip
    columns = ("Job", "Name", "Current finish", "New finish", "Promise")
    section_print("Waits longer", columns, rows, "Nobody waits longer.")
    sooner = [
        (row["job_id"], row["name"], when(row["finish_before"]), when(row["finish_after"]) or row["why"],
         "still late" if row["breaks_promise"] else "")
        for row in delayed if row["gains"]
    ]  # fmt: skip
    if sooner:
        section_print("Finishes sooner", columns, sooner, "")
