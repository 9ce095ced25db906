"""`dlh weights`: add, list, rm; and the weights that `dlh submit --weights` names."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.client.cli.common import WEIGHTS_SUFFIX, open_client, transfer_bar
from harness.client.cli.output import JsonFlag, console, json_print, notes, number, size, table_print, when
from harness.client.cli.paths import path_meant
from harness.client.client import Client, Json
from harness.client.errors import BadInput
from harness.client.transport import segment

_FILE_SUFFIXES = (WEIGHTS_SUFFIX, ".pt", ".pth", ".bin", ".ckpt", ".pkl", ".pickle")
"""What ends so is meant as a file, also where there is none."""
app = typer.Typer(help="Weights files, for jobs to start from: add, list, rm.", no_args_is_help=True)
WeightsOption = Annotated[
    str,
    typer.Option(
        "--weights",
        metavar="FILE|NAME|ID",
        help="Weights to start from: a .safetensors file, or one of `dlh weights list`; model.weights of the spec.",
    ),
]
NameOption = Annotated[str, typer.Option(help="Name of the weights file; else the file's.")]


@app.command("add")
def weights_add(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Weights as safetensors.")],
    name: NameOption = "",
    as_json: JsonFlag = False,
) -> None:
    """Upload weights, which goes on where it was cut and is not sent where the project has the file."""
    with open_client(context) as client:
        found = weights_upload(client, file, project=client.project, name=name, quiet=as_json)
    if as_json:
        json_print(found)
        return
    told = f"{number(found['tensors'])} tensors, {number(found['parameters'])} numbers ({', '.join(found['dtypes'])})"
    console().print(f"{found['id']}  {found['name']}  {told}", markup=False, soft_wrap=True)
    notes().print(f"A job starts from it by: dlh submit SPEC --data DATA --weights {found['id']}", markup=False)


@app.command("list")
def weights_list(context: typer.Context, as_json: JsonFlag = False) -> None:
    """Weights files, newest first."""
    with open_client(context) as client:
        items = client.weights_files()
    if as_json:
        json_print(items)
        return
    table_print(
        ("Id", "Name", "Tensors", "Numbers", "Kinds", "Size", "Jobs", "Project", "Created"),
        (
            (
                one["id"], one["name"], number(one["tensors"]), number(one["parameters"]), ", ".join(one["dtypes"]),
                size(one["size_bytes"]), one["jobs_count"], one["project"], when(one["created_at"]),
            )
            for one in items
        ),
    )  # fmt: skip


@app.command("rm")
def weights_rm(
    context: typer.Context,
    weights: Annotated[str, typer.Argument(metavar="ID", help="Id of a weights file.")],
    as_json: JsonFlag = False,
) -> None:
    """Delete a weights file for good; refused while there are jobs that start from it."""
    with open_client(context) as client:
        client.send("DELETE", f"/weights/{segment(weights)}")
    if as_json:
        json_print({"ok": True, "id": weights})
    else:
        console().print(f"{weights} is deleted for good.", markup=False)


def weights_named(client: Client, text: str, dataset_id: str, *, quiet: bool) -> str:
    """What `model.weights` is to say for a job of this dataset; uploaded if it is a file. Raises `BadInput`."""
    path = path_meant(text)
    if not (path.is_file() or "/" in text or path.suffix.lower() in _FILE_SUFFIXES):
        return text  # names may have dots: resnet50.a1_in1k
    project = client.dataset(dataset_id)["project"]
    return str(weights_upload(client, path, project=project, quiet=quiet)["id"])


def weights_upload(client: Client, path: Path, *, project: str, name: str = "", quiet: bool = False) -> Json:
    """Upload a file unless the project has it already. Raises `BadInput`, `ApiError`."""
    if not path.is_file():
        raise BadInput(f"There is no file {path}.", hint="Check the path; `dlh weights list` shows what is uploaded.")
    if path.suffix.lower() != WEIGHTS_SUFFIX:
        raise BadInput(
            f"{path} is not a {WEIGHTS_SUFFIX} file, the only format of weights that runs no code when it is read.",
            hint="Write it where you trained it: from safetensors.torch import save_file; "
            'save_file(model.state_dict(), "weights.safetensors").',
        )
    with transfer_bar(quiet=quiet) as bar:
        task = bar.add_task(f"Uploading {path.name}", total=path.stat().st_size)
        return client.weights_add(
            path, project=project, name=name, progress=lambda done, total: bar.update(task, completed=done, total=total)
        )
