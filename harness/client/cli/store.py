"""`dlh store check | status | push | pull`: the copy in an object store, on the portal's machine, without it."""

from __future__ import annotations

import subprocess
import sys

import typer

from harness.client.cli.child import child_run
from harness.client.cli.output import JsonFlag
from harness.client.config import environment_text

app = typer.Typer(
    help="The store's copy in an object store (DLH_S3_URL). Only on the store's own machine.", no_args_is_help=True
)


@app.command("check")
def check(as_json: JsonFlag = False) -> None:
    """Write, read, list and remove a small object; name the setting that is wrong. Exit 1: away, 2: wrong."""
    _run("check", as_json)


@app.command("status")
def status(as_json: JsonFlag = False) -> None:
    """How the copy stands, without asking the object store. Exit 1: it is not what it should be."""
    _run("status", as_json)


@app.command("push")
def push(as_json: JsonFlag = False) -> None:
    """Copy now whatever the object store lacks; a running harness does so by itself."""
    _run("push", as_json)


@app.command("pull")
def pull(as_json: JsonFlag = False) -> None:
    """Bring back every file of datasets and jobs that the folder lacks, checked by its hash. Stop the harness first."""
    _run("pull", as_json)


def finding() -> dict[str, str] | None:
    """A line of `dlh doctor` on the machine of a portal that has an object store; None where there is none."""
    if not environment_text("DLH_S3_URL"):
        return None
    argv = [sys.executable, "-P", "-m", "harness.bucket", "check"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return {"name": "object store", "state": "ok", "text": done.stdout.splitlines()[0], "meaning": "", "step": ""}
    lines = done.stderr.strip().splitlines()
    text, _, step = (lines[-1] if lines else "it could not be checked").partition("; ")
    state = "warn" if done.returncode == 1 else "bad"
    meaning = "Data goes through the portal, and the store has no newer copy."
    return {"name": "object store", "state": state, "text": text, "meaning": meaning, "step": step}


def _run(command: str, as_json: bool) -> None:
    raise typer.Exit(child_run("harness.bucket", command, *(["--json"] if as_json else [])))


def commands_add(root: typer.Typer) -> None:
    """Hang the commands into `dlh`."""
    root.add_typer(app, name="store")
