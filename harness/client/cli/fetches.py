"""Datasets from web addresses: `dlh data add URL` and `dlh data fetches`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Annotated

import typer

from harness.client.cli.common import DataFailed, dataset_ready, open_client, transfer_bar
from harness.client.cli.output import ExitCode, JsonFlag, json_print, notes, size, table_print
from harness.client.client import Client, Json
from harness.client.errors import ApiError, Unreachable
from harness.client.transport import segment

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def is_address(text: str) -> bool:
    """Whether a web address is meant, not a file: which ones are allowed says the portal."""
    return _SCHEME.match(text) is not None


def dataset_fetch(client: Client, fetch: Json, *, quiet: bool) -> Json:
    """Wait until the portal has fetched and read it; the dataset. Raises `DataFailed` with the problem.

    Ctrl-C, or a portal that is gone, ends the waiting alone: the same command once more would fetch the file a second
    time. Raises `ApiError`, `Unreachable` that name the fetch, and the dataset once there is one.
    """
    waited = {"fetch": fetch["id"]}
    try:
        dataset = _fetched(client, fetch, quiet=quiet)
        waited["dataset"] = dataset["id"]
        return dataset_ready(client, dataset, quiet=quiet)
    except KeyboardInterrupt:
        told = "Interrupted. The portal goes on with it: `dlh data fetches` and `dlh data list` show how far it is."
        notes().print(told, soft_wrap=True)
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    except (ApiError, Unreachable) as error:
        if not isinstance(error, ApiError) or error.status != HTTPStatus.NOT_FOUND:
            error.hint = f"{error.hint} It is fetch {fetch['id']}: `dlh data fetches` shows how far it is.".strip()
        error.details = waited
        raise


def _fetched(client: Client, fetch: Json, *, quiet: bool) -> Json:
    if not quiet:
        notes().print("The portal fetches it; Ctrl-C only stops the waiting (see dlh data fetches).")
    with transfer_bar(quiet=quiet) as bar:
        task = bar.add_task(f"Fetching {fetch['filename']}", total=None)

        def show(body: Json) -> None:
            bar.update(task, completed=body["offset_bytes"], total=body["total_bytes"])

        ended = client.fetch_wait(fetch["id"], progress=show)
    if ended["state"] == "failed":
        raise DataFailed(ended["problem"] or {})
    return {**client.dataset(ended["dataset"]), "uploaded": True}


def each_do(acts: Sequence[tuple[Callable[[str], object], str]]) -> None:
    """Do each of them for its id: one that is refused keeps no other back. Raises the first refusal, the rest are told;
    and all of them where something else breaks it off, such as a portal that is gone."""
    refused: list[ApiError] = []
    raised = 0
    try:
        for act, one in acts:
            try:
                act(one)
            except ApiError as error:
                error.message = f"{one}: {error.message}" if len(acts) > 1 else error.message
                refused.append(error)
        raised = 1
    finally:
        for other in refused[raised:]:
            notes().print(other.message, markup=False, soft_wrap=True)
    if refused:
        raise refused[0]


def data_fetches(
    context: typer.Context,
    again: Annotated[list[str] | None, typer.Option("--again", metavar="ID", help="May be repeated.")] = None,
    give_up: Annotated[list[str] | None, typer.Option("--give-up", metavar="ID", help="May be repeated.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """What the portal fetches from web addresses for you. --again tries one that failed, --give-up forgets one."""
    with open_client(context) as client:

        def retry(fetch_id: str) -> None:
            client.send("POST", f"/fetches/{segment(fetch_id)}/again")

        def forget(fetch_id: str) -> None:
            client.send("DELETE", f"/fetches/{segment(fetch_id)}")

        each_do([*((retry, one) for one in again or []), *((forget, one) for one in give_up or [])])
        items: list[Json] = client.get("/fetches")["items"]
    if as_json:
        json_print(items)
        return
    table_print(
        ("Id", "File", "State", "Arrived", "Size", "Project", "Dataset", "Problem"),
        (
            (
                one["id"], one["filename"], one["state"], size(one["offset_bytes"]), size(one["total_bytes"]),
                one["project"], one["dataset"], (one["problem"] or {}).get("message"),
            )
            for one in items
        ),
    )  # fmt: skip
