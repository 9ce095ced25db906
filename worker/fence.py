"""Which attempt writes in a folder of checkpoints: the newest, and no older one from then on, wherever it stands.

An attempt writes and removes by renames out of and into a folder of its own, its desk (`.writer-N`). The next attempt
makes its own desk first and then takes the older ones away: whatever an older one had in hand, its rename finds nothing
any more. That holds without locks, which a frozen copy would keep, and on network disks: it is the server that refuses.
"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress

DESK = ".writer-"
LEFT = ".left-"
"""So begins the name of a desk that was taken away; whoever works there next clears it."""
STEP, GONE = "step-", "gone-"
"""So begin the names of checkpoints, and on a desk of those that are being removed."""
OLD = ".old-"
"""So begins the name of a checkpoint that gives way to another of its name which control puts in place: one that a kill
left without a successor, whoever works there next takes back."""


def step_name(step: int) -> str:
    """Folder of the checkpoint that was made after this step."""
    return f"{STEP}{step:08d}"


def desk_name(token: int) -> str:
    """Folder of an attempt, beside the checkpoints."""
    return f"{DESK}{token}"


def newest_writer(folder: int) -> int:
    """The newest attempt that works in a folder, given by its descriptor; 0: none."""
    return max(_desks(folder), default=0)


def fence_raise(folder: int, token: int) -> int:
    """Have this attempt work in a folder, given by its descriptor, and no older one; returns the one that does.

    That is a newer one where there is one: then nothing has changed. Raises `OSError`.
    """
    own = desk_name(token)
    with suppress(FileExistsError):
        os.mkdir(own, dir_fd=folder)
    os.fsync(folder)
    desks = _desks(folder)
    newest = max(desks, default=token)
    if newest > token:  # looked up only now: of two that begin at once the older one sees the newer, or is swept by it
        with suppress(OSError):
            os.rmdir(own, dir_fd=folder)
        return newest
    for older in desks - {token}:
        with suppress(FileNotFoundError):
            left = f"{LEFT}{older}-{secrets.token_hex(4)}"
            os.rename(desk_name(older), left, src_dir_fd=folder, dst_dir_fd=folder)
    os.fsync(folder)
    return token


def _desks(folder: int) -> set[int]:
    numbers = (name.removeprefix(DESK) for name in os.listdir(folder) if name.startswith(DESK))
    return {int(number) for number in numbers if number.isascii() and number.isdigit()}
