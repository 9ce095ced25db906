"""One line of a doctor's report."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """How it is."""

    OK = "ok"
    WARN = "warn"
    """Works, with a limit that the line names."""
    BAD = "bad"
    """Jobs will fail or wait."""
    SKIP = "skip"
    """Could not be looked at, or does not apply."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What was found, what it means, and what to do."""

    name: str
    state: State
    text: str
    meaning: str = ""
    step: str = ""


def ok(name: str, text: str, meaning: str = "") -> Finding:
    """Good."""
    return Finding(name=name, state=State.OK, text=text, meaning=meaning)


def warn(name: str, text: str, meaning: str, step: str = "") -> Finding:
    """Works, with a limit."""
    return Finding(name=name, state=State.WARN, text=text, meaning=meaning, step=step)


def bad(name: str, text: str, meaning: str, step: str) -> Finding:
    """Does not work."""
    return Finding(name=name, state=State.BAD, text=text, meaning=meaning, step=step)


def skip(name: str, text: str) -> Finding:
    """Not looked at."""
    return Finding(name=name, state=State.SKIP, text=text)
