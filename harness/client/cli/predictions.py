"""`dlh predictions`: those made with a job, and which of them go."""

from __future__ import annotations

from typing import Annotated

import typer

from harness.client.cli.common import open_client
from harness.client.cli.output import JsonFlag, console, json_print, table_print, when
from harness.client.client import Json
from harness.client.transport import segment

_COLUMNS = ("Prediction", "Input", "Checkpoint", "Made", "State", "Rows")


def predictions(
    context: typer.Context,
    job: Annotated[str, typer.Argument(metavar="JOB", help="Id of a job.")],
    delete: Annotated[
        list[str] | None, typer.Option("--delete", metavar="PREDICTION", help="Delete it for good; may be repeated.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Predictions made with a job, newest first; or delete some, with their inputs and answers."""
    place = f"/jobs/{segment(job)}/predictions"
    with open_client(context) as client:
        if delete:
            for prediction in delete:
                client.send("DELETE", f"{place}/{segment(prediction)}")
            told = {"deleted": delete}
            json_print(told) if as_json else console().print(f"Deleted: {' '.join(delete)}", markup=False)
            return
        items = list(client.items(place))
    if as_json:
        json_print(items)
    else:
        table_print(_COLUMNS, map(_row, items))


def _row(item: Json) -> tuple[object, ...]:
    used = item["checkpoint"] or "final weights"
    return item["id"], item["input_name"], used, when(item["created_at"]), item["state"], item["rows"]
