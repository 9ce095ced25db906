"""`dlh suggest`, `dlh code`, `dlh download`."""

from __future__ import annotations

import shutil
import zipfile
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

import typer
from rich.progress import Progress as RichProgress
from rich.progress import TaskID
from rich.text import Text

from harness.client.cli.common import (
    DataOption,
    JobArgument,
    ModelOption,
    dataset_resolve,
    job_body,
    open_client,
    spec_named,
    spec_read,
    transfer_bar,
)
from harness.client.cli.interrupts import answer_awaited, interrupted
from harness.client.cli.output import JsonFlag, console, json_print, notes, number, size
from harness.client.client import Client, Json
from harness.client.download import download as download_file
from harness.client.errors import BadInput
from harness.client.transport import Progress, segment
from worker.words import counted

OutOption = Annotated[Path | None, typer.Option("--out", "-o", help="Folder to write to.")]
WithDataFlag = Annotated[bool, typer.Option("--with-data", help="The packed data as well, in data/ of the program.")]
_Part = tuple[str, str, dict[str, Any]]
"""What is downloaded of a job: where below its address, under which name, with which parameters."""
_SPEC_SUFFIXES = {".yaml", ".yml"}
_RUNTIME = "worker"
"""Folder in a program with the library that it imports: more than a hundred files, which nobody reads in a list."""


def commands_add(app: typer.Typer) -> None:
    """Put the commands of this module on the top level."""
    for name, command in (("suggest", suggest), ("code", code), ("download", download)):
        app.command(name)(command)


def suggest(
    context: typer.Context,
    source: Annotated[
        str, typer.Argument(metavar="[DATASET|SPEC]", help="A file or dataset, as for --data, or a task spec in YAML.")
    ] = "",
    data: DataOption = "",
    as_json: JsonFlag = False,
) -> None:
    """Models for your data, best first, with what speaks for and against each."""
    is_spec = bool(source) and (bool(data) or Path(source).suffix.lower() in _SPEC_SUFFIXES)
    text = spec_read(Path(source)) if is_spec else None
    with open_client(context) as client, spec_named(Path(source) if is_spec else None):
        dataset = dataset_resolve(client, data or ("" if is_spec else source), text, quiet=as_json)
        body = {"dataset": dataset["id"], **({"yaml": text} if text is not None else {})}
        items: list[Json] = client.send("POST", "/suggest", body)["items"]
    if as_json:
        json_print(items)
        return
    for item in items:
        _suggestion_print(item)


def _suggestion_print(item: Json) -> None:
    head = Text.assemble((f"{item['rank']}. {item['title']}", "bold"), f" ({item['size']})")
    if not item["fits"]:
        head.append("  does not fit in memory", style="red")
    cost = f"{number(item['parameters'])} parameters, {number(item['flops_per_sample'], 2)} FLOPs per sample"
    out = console()
    out.print(head)
    out.print(Text(f"   {cost}, about {size(item['memory_bytes'])}"), style="dim")
    out.print(Text(f"   {item['reason']}"))
    out.print(Text(f"   Against: {item['against']}\n"))


def code(
    context: typer.Context,
    source: Annotated[str, typer.Argument(metavar="JOB|SPEC", help="Id of a job, or a task spec in YAML.")],
    data: DataOption = "",
    model: ModelOption = None,
    out: OutOption = None,
    with_data: WithDataFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Write the generated program to a folder; with its data it runs there alone with `python train.py`."""
    path = Path(source)
    is_spec = path.suffix.lower() in _SPEC_SUFFIXES or path.is_file()
    with open_client(context) as client, spec_named(path if is_spec else None):
        if not is_spec:
            out = out or Path(f"program-{source}")
            files = _program_write(client, source, out, with_data=with_data, quiet=as_json)
        else:
            body = job_body(client, path, data, model, quiet=as_json)
            out = out or Path(path.stem)
            files = _program_of(client, body, out, with_data=with_data, quiet=as_json)
    runtime = [] if as_json else [file for file in files if out / _RUNTIME in file.parents]
    _written([file for file in files if file not in runtime], as_json)
    if runtime:
        told = f"{out / _RUNTIME}: {counted(len(runtime), 'file')} that the program imports"
        console().print(told, markup=False, soft_wrap=True)


def _program_of(client: Client, body: Json, out: Path, *, with_data: bool, quiet: bool) -> list[Path]:
    """The program of a spec, by a draft that is taken away whatever comes."""
    job: Json = {}
    try:
        with answer_awaited():
            job = client.job_create(body)
        return _program_write(client, job["id"], out, with_data=with_data, quiet=quiet)
    finally:
        if job:
            with answer_awaited():
                client.send("DELETE", f"/jobs/{segment(job['id'])}")


def download(  # noqa: PLR0913
    context: typer.Context,
    job: JobArgument,
    program: Annotated[bool, typer.Option("--program", help="The program as a zip.")] = False,
    model: Annotated[
        bool, typer.Option("--model", help="Program and final weights as a zip whose predict.py runs at once.")
    ] = False,
    weights: Annotated[
        bool, typer.Option("--weights", help="The final weights (safetensors), or the named checkpoint.")
    ] = False,
    onnx: Annotated[
        bool, typer.Option("--onnx", help="The model as ONNX with a script that does not need torch, as a zip.")
    ] = False,
    checkpoint: Annotated[str, typer.Option(help="Name of a checkpoint; else the final weights.")] = "",
    with_data: WithDataFlag = False,
    out: OutOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Download the trained model of a job in the forms that are named; of none as by --model.

    Of a checkpoint, or with the data, it is then as by --program --weights.
    """
    if model and (checkpoint or with_data):
        told = "--model has the final weights, and no data."
        raise BadInput(told, hint="Leave it out: --checkpoint and --with-data bring program and weights.")
    folder = out or Path()
    if folder.exists() and not folder.is_dir():
        raise BadInput(f"{folder} is a file; --out names a folder.", hint="Name another; it is made if need be.")
    folder.mkdir(parents=True, exist_ok=True)
    both = bool(with_data or checkpoint) and not (program or model or weights or onnx)
    wanted = [_program_part(job, with_data)] if program or both else []
    wanted += [_weights_part(job, checkpoint)] if weights or both else []
    wanted += [_onnx_part(job, checkpoint)] if onnx else []
    wanted += [_model_part(job)] if model or not wanted else []
    files = []
    with open_client(context) as client:
        client.job(job)
        if onnx:
            _onnx_made(client, job, checkpoint, quiet=as_json)
        with transfer_bar(quiet=as_json) as bar:
            for part, name, params in wanted:
                move = _mover(bar, bar.add_task(name, total=None))
                path = f"/jobs/{segment(job)}/{part}"
                files.append(download_file(client.transport, path, folder / name, params=params, progress=move))
    _written(files, as_json)


def _program_part(job: str, with_data: bool) -> _Part:
    return "program.zip", f"program-{job}.zip", {"data": True} if with_data else {}


def _model_part(job: str) -> _Part:
    return "model.zip", f"model-{job}.zip", {}


def _weights_part(job: str, checkpoint: str) -> _Part:
    if not checkpoint:
        return "weights", f"{job}.safetensors", {}
    return f"checkpoints/{segment(checkpoint)}/state.pt", f"{job}-{segment(checkpoint)}.pt", {}


def _onnx_part(job: str, checkpoint: str) -> _Part:
    if not checkpoint:
        return "onnx.zip", f"onnx-{job}.zip", {}
    return "onnx.zip", f"onnx-{job}-{segment(checkpoint)}.zip", {"checkpoint": checkpoint}


def _onnx_made(client: Client, job: str, checkpoint: str, *, quiet: bool) -> None:
    """Wait until the model is there as ONNX. Raises `BadInput` where it has no such form, `WaitTimeout`."""
    there = client.job_part(job, "onnx", checkpoint=checkpoint)["state"] == "done"
    if there:  # whoever may read it need not be allowed to ask for it
        return
    if not quiet:
        notes().print("A node is making the ONNX model and checking it on real rows…", markup=False)
    made = client.onnx_make(job, checkpoint=checkpoint)
    if made["state"] == "failed":
        raise BadInput(made["problem"]["message"], hint=made["problem"]["hint"])


def _mover(bar: RichProgress, task: TaskID) -> Progress:
    """Moves the bar; its rate counts what comes now, not what was there before."""
    begun = False

    def move(done: int, total: int) -> None:
        nonlocal begun
        if not begun:
            bar.reset(task, total=total or None, completed=done)
            begun = True
        bar.update(task, completed=done, total=total or None)

    return move


def _written(files: list[Path], as_json: bool) -> None:
    if as_json:
        json_print({"files": [str(file) for file in files]})
        return
    for file in files:
        console().print(str(file), markup=False, soft_wrap=True)


def _program_write(client: Client, job_id: str, folder: Path, *, with_data: bool, quiet: bool) -> list[Path]:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BadInput(f"{folder} already exists and is not empty.", hint="Name another folder with --out.")
    # Beside the folder: what a cut left there is gone on with.
    archive = folder.resolve().with_name(f".{folder.resolve().name}.program.zip")
    archive.parent.mkdir(parents=True, exist_ok=True)
    with transfer_bar(quiet=quiet) as bar:
        download_file(
            client.transport,
            f"/jobs/{segment(job_id)}/program.zip",
            archive,
            params={"data": True} if with_data else {},
            progress=_mover(bar, bar.add_task("program.zip", total=None)),
        )
    try:
        return _unpack(archive, folder)
    except KeyboardInterrupt:
        interrupted("Nothing was written: run the same command again.")
    finally:
        archive.unlink()


def _unpack(archive: Path, folder: Path) -> list[Path]:
    """Write the members below their one top folder: all of them, or none where it is cut short, so that the next try
    finds the folder as this one did. Raises `BadInput` for a member that would leave `folder`."""
    was_there, written = folder.exists(), list[Path]()
    try:
        with zipfile.ZipFile(archive) as members:
            for member in members.infolist():
                parts = PurePosixPath(member.filename).parts[1:]
                if not parts or member.is_dir():
                    continue
                if any(part in {"..", "/"} or "\\" in part or ":" in part for part in parts):
                    raise BadInput(f"The archive contains an unsafe name: {member.filename!r}.")
                target = folder.joinpath(*parts)
                written.append(target)  # before its folder is made, which is to go as well
                target.parent.mkdir(parents=True, exist_ok=True)
                with members.open(member) as source, target.open("wb") as stream:
                    shutil.copyfileobj(source, stream)
    except BaseException:
        _take_away(written, folder, with_folder=not was_there)
        raise
    return written


def _take_away(files: list[Path], folder: Path, *, with_folder: bool) -> None:
    """These files, and the folders that they alone were in."""
    for file in files:
        with suppress(OSError):
            file.unlink()
    inside = {above for file in files for above in file.parents if folder in above.parents}
    emptied = sorted(inside, key=lambda one: len(one.parts), reverse=True)
    for one in [*emptied, folder] if with_folder else emptied:
        with suppress(OSError):  # something else is in it, or it was not made yet
            one.rmdir()
