"""How a process loads what it keeps until its end."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def loading() -> Iterator[None]:
    """Look through nothing that is loaded within for what can go: not meanwhile, not later, not when the process ends.

    All of it stays. With PyTorch loaded each such look takes a tenth of a second of the processor, and the last one, at
    the end, several times as long.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_on:
            gc.enable()
