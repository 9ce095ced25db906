"""Where ranks stand, from what Python's `faulthandler` printed into their logs. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

_HEAD = "(most recent call first):"
_TRACEBACK = "Traceback (most recent call last):"
_FRAME = re.compile(r'  File "(.+)", line (\d+),? in (.+)')
_WAITING = (
    "/worker/runtime/collective.py",
    "/worker/runtime/arrival.py",
    "/worker/runtime/servers/",
    "/horovod/",
    "/torch/distributed/",
)
_INNER = 8
"""Frames looked at for a wait: the call itself may lie a few frames below it."""
_PROGRAM = "/program/"
_PLATFORM = "/worker/runtime/"
_NAMED = 3
"""Ranks that a sentence names."""

Frame = tuple[str, int, str]
"""File, line, function; innermost first in a stack."""


def stack_of(lines: Sequence[str]) -> list[Frame]:
    """The last stack in a log; empty where there is none."""
    heads = [number for number, line in enumerate(lines) if line.endswith(_HEAD)]
    frames: list[Frame] = []
    for line in lines[heads[-1] + 1 :] if heads else ():
        found = _FRAME.fullmatch(line)
        if found is None:
            break
        frames.append((found[1], int(found[2]), found[3]))
    return frames


def raised_in(lines: Sequence[str]) -> str | None:
    """The innermost line of the program's own in the last traceback of a log, as `train.py, line 3`."""
    heads = [number for number, line in enumerate(lines) if line.startswith(_TRACEBACK)]
    found = [_FRAME.fullmatch(line) for line in (lines[heads[-1] :] if heads else ())]
    own = [frame for frame in found if frame and _PROGRAM in frame[1]]
    return f"{PurePosixPath(own[-1][1]).name}, line {own[-1][2]}" if own else None


def waits(stack: Sequence[Frame]) -> bool:
    """Whether it waits for other ranks."""
    return any(part in file for file, _, _ in stack[:_INNER] for part in _WAITING)


def standing(tails: Mapping[int, Sequence[str]]) -> tuple[str, str | None, bool]:
    """(sentence, stack to show or None, whether all wait for ranks that are not here), from the ends of the logs."""
    stacks = {rank: stack for rank, lines in sorted(tails.items()) if (stack := stack_of(lines))}
    stuck = {rank: stack for rank, stack in stacks.items() if not waits(stack)}
    if stuck:
        places = [f"rank {rank} stands in {_place(stack)}" for rank, stack in list(stuck.items())[:_NAMED]]
        return f"R{', '.join(places)[1:]}.", _shown(next(iter(stuck.values()))), False
    if stacks:
        return "The ranks here wait for others.", _shown(next(iter(stacks.values()))), True
    return "", None, False


def _place(stack: Sequence[Frame]) -> str:
    """The innermost line of the program's own; of the libraries' where there is none."""
    file, line, function = next((frame for frame in stack if _PROGRAM in frame[0]), stack[0])
    return f"{PurePosixPath(file).name}, line {line} ({function})"


def _shown(stack: Sequence[Frame]) -> str | None:
    """As a traceback: innermost last, names of files only, without frames of the platform; None where no others are."""
    others = [frame for frame in stack if _PLATFORM not in frame[0]]
    if not others:
        return None
    lines = [f'  File "{PurePosixPath(file).name}", line {line}, in {function}' for file, line, function in others]
    return "\n".join(["Stack (most recent call last):", *reversed(lines)])
