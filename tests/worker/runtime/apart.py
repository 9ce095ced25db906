"""Call a function in a process of its own, as nodes read and measure programs: one program each, then gone.

Several traces in one process damage its memory now and then ("corrupted double-linked list"); torch's fake tensors do.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

LIMIT_S = 240.0


def apart(function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """What the function returns or raises there. Torch is loaded once for all of these processes."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["worker.runtime.measure", "worker.runtime.trace"])
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(function, *arguments, **named).result(LIMIT_S)
