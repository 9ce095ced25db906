"""`dlh jobs clone`, `dlh jobs check`, `dlh jobs edit`: a variation of a job, and its program."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from codegen import safe_yaml
from harness.client.cli.common import JobArgument, draft_kept, open_client, text_read
from harness.client.cli.interrupts import job_made, submit_awaited
from harness.client.cli.moments import moment_read
from harness.client.cli.output import ExitCode, JsonFlag, console, json_print, local_words, notes, number, standing
from harness.client.client import Client, Json
from harness.client.errors import BadInput, ClientError, WaitTimeout
from harness.client.transport import segment

CHECK_LIMIT_S = 300.0
POLL_S = 0.5
NO_TEXT, SNIFFED_BYTES = frozenset(range(9)), 4096
"""Bytes that no text has, and in how many of the first they are looked for."""
_DEADLINE = "budget.deadline"


class _Loader(safe_yaml.Loader):
    """Leaves days and moments as the text that was written, since JSON has no value for them."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in known if tag != "tag:yaml.org,2002:timestamp"]
    for first, known in safe_yaml.Loader.yaml_implicit_resolvers.items()
}


def commands_add(app: typer.Typer) -> None:
    """Put the commands of this module below `dlh jobs`."""
    for name, command in (("clone", clone), ("check", check), ("edit", edit)):
        app.command(name)(command)


def clone(
    context: typer.Context,
    job: JobArgument,
    wishes: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            "-s",
            metavar="FIELD=VALUE",
            help="e.g. training.epochs=3, or budget.deadline=90m as `dlh offer --deadline` takes it; may be repeated.",
        ),
    ] = None,
    name: Annotated[str, typer.Option(help="Name of the clone.")] = "",
    submit: Annotated[bool, typer.Option("--submit", help="Queue it at once.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """A new draft with a job's spec, edited files and own model, with some fields of the spec set anew.

    Left out, and named, are a deadline that has passed and edits of spec.yaml in a field that is set anew; others that
    find no place are counted.
    """
    changes = dict(map(_wish, wishes or ()))
    with open_client(context) as client:
        body = {"name": name, **({"changes": changes} if changes else {})}
        made = job_made(lambda: client.job_do(job, "clone", body))
        told = made.get("left_out", [])
        for words in told:
            notes().print(local_words(words), markup=False, soft_wrap=True)
        if submit:
            with draft_kept(made["id"]), submit_awaited(client, made["id"]):
                made = client.job_do(made["id"], "submit")
        url = f"{client.transport.url}/jobs/{made['id']}"
    if as_json:
        json_print({**made, "left_out": told, "url": url})
    else:
        console().print(f"{made['id']}  {made['name']}  {standing(made)}\n{url}", markup=False, soft_wrap=True)


def _wish(text: str) -> tuple[str, Any]:
    """`training.epochs=3` as (field, value); the value is YAML that JSON can hold, a deadline as `dlh offer` takes it.

    Raises `BadInput`.
    """
    field, sign, value = text.partition("=")
    field = field.strip()
    if not sign or not all(field.split(".")):
        raise BadInput(f"{text!r} does not set anything.", hint="Write FIELD=VALUE, e.g. --set training.epochs=3.")
    if field == _DEADLINE:
        return field, _deadline(value.strip())
    try:
        found = safe_yaml.load(value, _Loader)
    except safe_yaml.YamlRefused as error:
        raise BadInput(f"The value for {field.strip()} is not read: {error.message}.", hint="Write it out.") from error
    except safe_yaml.YamlFault as error:
        raise BadInput(
            f"The value in {text!r} is not valid YAML.", hint="Put values with special characters in quotes."
        ) from error
    try:
        json.dumps(found, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise BadInput(
            f"The value in {text!r} has no form in JSON.",
            hint="Give a number, a text, true, false, a list or a mapping.",
        ) from error
    return field, found


def _deadline(text: str) -> str:
    """What a spec is to say of it. Raises `BadInput`."""
    if text in {"none", "auto"}:
        return "auto"
    return moment_read(text, "--set budget.deadline", field="budget.deadline")


def check(context: typer.Context, job: JobArgument, as_json: JsonFlag = False) -> None:
    """Try a job's program on a node: compile, build the model, first steps on real rows. Exit code 1 if it fails.

    A program that runs on GPUs alone may not be to be tried: that is told, and is no failure.
    """
    with open_client(context) as client:
        asked = client.job_do(job, "check")
        notes().print("A node is trying the program; after 3 minutes it is stopped.")
        answer = _answer(client, f"/jobs/{segment(job)}/check/{segment(asked['check_id'])}")
    if as_json:
        json_print(answer)
    elif answer["ok"]:
        size = f"{number(answer['parameters'])} parameters, output {answer['output_shape']}"
        console().print(f"The program runs: {size}.", markup=False)
        for note in answer.get("notes", ()):
            console().print(note, markup=False)
    else:
        problem = answer["problem"] or {}
        place = f"{problem['file']}, line {problem['line']}: " if problem.get("file") and problem.get("line") else ""
        message = str(problem.get("message") or "The program fails.")
        console().print(message if message.startswith(place) else place + message, markup=False)
        if problem.get("hint"):
            console().print(str(problem["hint"]), markup=False)
        if problem.get("traceback"):
            console().print(str(problem["traceback"]), markup=False, soft_wrap=True)
    if answer["ok"] is False:
        raise typer.Exit(ExitCode.JOB_FAILED)


def _answer(client: Client, path: str) -> Json:
    end_s = time.monotonic() + CHECK_LIMIT_S
    while True:
        answer: Json = client.get_waiting(path)
        if not answer["waiting"]:
            return answer
        if time.monotonic() > end_s:
            raise WaitTimeout(
                "No node answered.",
                hint="Earlier checks may be under way. Check with `dlh pool` that a node is up, then ask again.",
            )
        time.sleep(POLL_S)


def edit(
    context: typer.Context,
    job: JobArgument,
    file: Annotated[
        Path,
        typer.Argument(help="A file that replaces the program's file of the same name, or just such a name."),
    ],
    as_json: JsonFlag = False,
) -> None:
    """Change a file of a draft's program: by a file of yours, or in your editor ($EDITOR). The job counts as edited."""
    with open_client(context) as client:
        place = f"/jobs/{segment(job)}/program/{segment(file.name)}"
        if file.is_file():
            known, written = _file_put(client, job, file.name, {"text": _program_text(file)})
        elif file.name != str(file):
            raise BadInput(f"{file} is not a file.", hint="Check the path, or give the name of a file of the program.")
        else:
            before = client.get(place)
            text = _edited(str(before["text"]), file.name)
            with _text_kept(text, job, file.name):
                body = {"text": text, "expected_sha256": before["sha256"]}
                known, written = _file_put(client, job, file.name, body)
    if as_json:
        json_print(written)
        return
    if fault := written.get("fault"):
        notes().print(f"Saved. {fault['message']}", style="yellow", markup=False, soft_wrap=True)
    if written["name"] not in known:
        said = f"{written['name']} is a new file of the program; it has an effect where another one imports it."
        console().print(said, markup=False)
    else:
        state = "differs from what was generated" if written["edited"] else "is as it was generated"
        console().print(f"{written['name']} {state}.", markup=False)


def _file_put(client: Client, job: str, name: str, body: Json) -> tuple[set[str], Json]:
    """(names of the files of the program before, the file as it is written)."""
    program = f"/jobs/{segment(job)}/program"
    known = {item["name"] for item in client.get(program)["files"]}
    return known, client.send("PUT", f"{program}/{segment(name)}", body)


@contextmanager
def _text_kept(text: str, job: str, name: str) -> Iterator[None]:
    """Keep what was typed where it is refused or the portal is away, and say where: it may be the work of an hour."""
    try:
        yield
    except KeyboardInterrupt:
        notes().print(_kept_words(text, job, name), markup=False, soft_wrap=True)
        raise
    except ClientError as error:
        said = error.hint if error.code != "changed" else f"`dlh code {job}` shows their text."
        error.hint = f"{said} {_kept_words(text, job, name)}".strip()
        raise


def _kept_words(text: str, job: str, name: str) -> str:
    """Where what was typed is kept from now on."""
    kept = Path(tempfile.mkdtemp(prefix="dlh-edit-")) / name
    kept.write_text(text, encoding="utf-8")
    return f"Yours is kept: `dlh jobs edit {job} {shlex.quote(str(kept))}` puts it there."


def _program_text(file: Path) -> str:
    """A file of a program. Raises `BadInput`."""
    try:
        return text_read(file)
    except BadInput as error:
        with file.open("rb") as stream:
            is_binary = bool(NO_TEXT & set(stream.read(SNIFFED_BYTES)))
        if is_binary:
            told = f"{file} is not text, and a program has text files alone."
            raise BadInput(told, hint="Weights go beside it: dlh submit --weights FILE.safetensors.") from error
        raise


def _editor() -> list[str]:
    """The person's editor as a command. Raises `BadInput`."""
    said = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        return shlex.split(said) or ["vi"]
    except ValueError as error:
        raise BadInput(
            f"The editor {said!r} cannot be started: {error}.", hint="Set EDITOR, or give a file."
        ) from error


def _edited(text: str, name: str) -> str:
    """What a person makes of a text in their editor. Raises `BadInput` where the editor fails."""
    command = _editor()
    file = Path(tempfile.mkdtemp(prefix="dlh-edit-")) / name
    file.write_text(text, encoding="utf-8")
    try:
        written = _saved(command, file)
    except (BadInput, KeyboardInterrupt) as error:
        if _is_as_given(file, text):
            shutil.rmtree(file.parent, ignore_errors=True)
        elif isinstance(error, BadInput):
            error.hint = f"{error.hint} What you wrote is kept in {file}.".strip()
        else:
            notes().print(f"What you wrote is kept in {file}.", markup=False, soft_wrap=True)
        raise
    shutil.rmtree(file.parent, ignore_errors=True)
    return written


def _saved(command: list[str], file: Path) -> str:
    """What is in the file once the editor has ended. Raises `BadInput`."""
    try:
        done = subprocess.run([*command, str(file)], check=False)
    except OSError as error:
        hint = "Set EDITOR, or give a file."
        raise BadInput(f"{command[0]} cannot be started: {error.strerror}.", hint=hint) from error
    if done.returncode != 0:
        raise BadInput(f"{command[0]} ended with exit code {done.returncode}.", hint="Nothing was changed.")
    return text_read(file)


def _is_as_given(file: Path, text: str) -> bool:
    """Whether the editor has left nothing else than it was given, or nothing at all."""
    try:
        return file.read_bytes() == text.encode()
    except OSError:
        return True
