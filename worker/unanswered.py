"""What a node was asked and has not answered: kept on its disk, so that the next agent answers where one was killed."""

from __future__ import annotations

import json
import logging
import secrets
import shutil
import time
from pathlib import Path
from typing import Any

from worker.answers import Request, ids_of, problem_send
from worker.celery_app import send_to_control
from worker.home import node_name, run_dir
from worker.programs import ProgramProblem

_OWN = secrets.token_hex(8)
"""Of this process: names the folder of what it was asked."""
_log = logging.getLogger(__name__)


def note(task: str, request: Request, until_s: float | None) -> Path | None:
    """Keep in mind that a task of control is owed an answer; None where that is not kept: of a sweep, which asks again
    for the points that it lacks, and where the disk takes nothing. `until_s`: when control gives it up, unix time; None
    where a late answer does no harm."""
    if request.get("points"):
        return None
    try:
        file = run_dir("asked", node_name(), _OWN) / f"{secrets.token_hex(8)}.json"
        file.write_text(json.dumps({"task": task, "until_s": until_s, **ids_of(request)}))
    except OSError:
        return None
    return file


def strike(file: Path | None) -> None:
    """It is answered."""
    if file is not None:
        file.unlink(missing_ok=True)


def left_answer() -> None:
    """Answer what an agent that ended has left: else people wait until a time limit, and devices are kept in vain.

    Raises, once all was tried, what kept an answer from being sent: that alone is left for the next time.
    """
    errors: list[Exception] = []
    for folder in run_dir("asked", node_name()).iterdir():
        if folder.name != _OWN:
            errors += _folder_answer(folder)
    if errors:
        raise errors[0]


def _folder_answer(folder: Path) -> list[Exception]:
    """All of one agent; what went wrong."""
    errors: list[Exception] = []
    for file in folder.glob("*.json"):
        try:
            _answer(file)
            strike(file)
        except Exception as error:  # of whatever kind: it must not hold up the others
            errors.append(error)
    if not errors:
        shutil.rmtree(folder, ignore_errors=True)
    return errors


def _answer(file: Path) -> None:
    """Tried once: there may be many, and while the broker is away no other one gets through either."""
    try:
        body: dict[str, Any] = json.loads(file.read_text())
        task, until_s = str(body.pop("task")), body.pop("until_s", None)
    except (OSError, ValueError, KeyError):  # it ended in the middle of the word
        return
    if until_s is not None and time.time() > until_s:  # who asked the same again since then waits for another answer
        return
    _log.warning("not done, as the agent ended: %s", ids_of(body))
    problem = ProgramProblem(f"The agent of the node {node_name()} ended meanwhile.", "Ask again.", "start_failed")
    problem_send(body, problem, lambda told: send_to_control(task, [told]))
