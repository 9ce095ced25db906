"""The agent's part of a change of width: the newest wish of control lies with the attempt it is meant for."""

from __future__ import annotations

from collections.abc import Sequence

from worker import registry
from worker.elastic.width import WIDTH_FILE, Width, width_read


def attempt_resize(job_id: str, token: int, number: int, slots: Sequence[int]) -> bool:
    """Keep which ranks an attempt is to have. False where it does not run here, or something newer was asked.

    Asked again, it is written again: the supervisor then tells again what has become of it. Of an attempt that does
    not run here nothing is said: whoever asks hears of its end by other ways.
    """
    for entry in registry.entries():
        if entry.job_id == job_id and entry.token == token and entry.process() is not None:
            with registry.locked(entry.paths):
                return _keep(entry, Width(number=number, slots=tuple(slots)))
    return False


def _keep(entry: registry.Entry, width: Width) -> bool:
    folder = entry.paths.requests(entry.token)
    known = width_read(folder)
    if known is not None and known.number > width.number:
        return False
    folder.mkdir(parents=True, exist_ok=True)
    registry.write_json(folder / WIDTH_FILE, width.to_json())
    (folder / WIDTH_FILE).chmod(0o644)  # the gang that reads it may be another user
    return True
