"""Short runs on a node without the store's folder: their program and data are brought here first."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from worker.answers import Request, Send, problem_send
from worker.programs import ProgramProblem
from worker.transfer.depot import depot_here
from worker.transfer.portal import TransferError


def with_files(request: Request, work: Callable[[Request], None], send: Send) -> None:
    """Do `work` with the request's folders on this machine; where they cannot be brought, `send` an answer for each
    thing that was asked. On a node that sees the store the request is done as it came."""
    depot = depot_here()
    if depot is None:
        work(request)
        return
    with ExitStack() as stack:
        try:
            here = stack.enter_context(depot.request_here(request))
        except (TransferError, OSError, ValueError) as error:
            text = f"The node could not fetch program and data from the portal: {error}"
            problem_send(request, ProgramProblem(text, "Try again.", "start_failed"), send)
            return
        work(here)
