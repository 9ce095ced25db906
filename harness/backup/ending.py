"""What a container sends before it kills ends a backup or a restore as Ctrl-C does: nothing is left behind."""

from __future__ import annotations

import signal
from typing import NoReturn


class Terminated(KeyboardInterrupt):
    """SIGTERM came. Unlike Ctrl-C it came to this process alone, not to its children."""


def term_interrupts() -> None:
    """Have SIGTERM raise `Terminated` in this process."""
    signal.signal(signal.SIGTERM, _raise)


def _raise(*_: object) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough: what follows takes drafts away
    raise Terminated
