"""Signals in words."""

from __future__ import annotations

import signal


def signal_name(number: int) -> str:
    """`SIGSEGV`; real-time signals have no name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
