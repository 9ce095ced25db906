"""What a node was asked and has not answered: kept on its disk, so that the next agent answers where one was killed."""

from __future__ import annotations

import json
import logging
import secrets
import shutil
from pathlib import Path
from typing import Any

from worker.answers import Request, ids_of, problem_send
from worker.celery_app import answer_to_control
from worker.home import node_name, run_dir
from worker.programs import ProgramProblem

_OWN = secrets.token_hex(8)
"""Of this process: names the folder of what it was asked."""
_log = logging.getLogger(__name__)


def note(task: str, request: Request) -> Path | None:
    """Keep in mind that a task of control is owed an answer; None where that is not kept: of a sweep, which asks again
    for the points that it lacks, and where the disk takes nothing."""
    if request.get("points"):
        return None
    try:
        file = run_dir("asked", node_name(), _OWN) / f"{secrets.token_hex(8)}.json"
        file.write_text(json.dumps({"task": task, **ids_of(request)}))
    except OSError:
        return None
    return file


def strike(file: Path | None) -> None:
    """It is answered."""
    if file is not None:
        file.unlink(missing_ok=True)


def left_answer() -> None:
    """Answer what an agent that ended has left: else people wait until a time limit, and devices are kept in vain."""
    for folder in run_dir("asked", node_name()).iterdir():
        if folder.name != _OWN:
            for file in folder.glob("*.json"):
                _answer(file)
            shutil.rmtree(folder, ignore_errors=True)


def _answer(file: Path) -> None:
    try:
        body: dict[str, Any] = json.loads(file.read_text())
        task = str(body.pop("task"))
    except (OSError, ValueError, KeyError):  # it ended in the middle of the word
        return
    _log.warning("not done, as the agent ended: %s", ids_of(body))
    problem = ProgramProblem(f"The agent of the node {node_name()} ended meanwhile.", "Ask again.", "start_failed")
    problem_send(body, problem, lambda told: answer_to_control(task, told))
