"""Every request for a program gets its answer, whatever breaks on the way: else people wait until a time limit."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from worker.home import node_name
from worker.programs import ProgramProblem

Request = dict[str, Any]
Send = Callable[[dict[str, Any]], None]

NOW_ALONE = frozenset({"progress", "port"})
"""Keys of what is told meanwhile and is no answer: how far it is, where a node listens."""
_IDS = ("request_id", "check_id", "prediction_id", "export_id")
_log = logging.getLogger(__name__)


def answered(request: Request, send: Send, work: Callable[[Send], None]) -> None:
    """Do `work`, which answers by what it is given; where it breaks, `send` the rest of what was asked says so.

    Raises only what sending does.
    """
    had: set[str] = set()

    def tell(told: dict[str, Any]) -> None:
        send(told)
        if not NOW_ALONE & told.keys():
            had.update(ids_of(told).values())

    try:
        work(tell)
    except Exception:
        _log.exception("a request broke: %s", ids_of(request))
        hint = f"Ask again. If it fails again, the log of the agent on {node_name()} tells an admin why."
        problem = ProgramProblem(f"The node {node_name()} could not do this: it met an error.", hint, "start_failed")
        problem_send(request, problem, lambda told: None if had & set(ids_of(told).values()) else send(told))


def problem_send(request: Request, problem: ProgramProblem, send: Send) -> None:
    """Answer each thing that was asked by the same problem."""
    for asked in request.get("points") or [{}]:
        send({**ids_of({**request, **asked}), "ok": False, "problem": problem.to_dict()})


def ids_of(told: dict[str, Any]) -> dict[str, str]:
    """By which control knows what a request or an answer is about."""
    return {name: str(told[name]) for name in _IDS if name in told}
