"""Which jobs' folders in a node's cache hold what the store does not have yet: these are not removed to make room.

A mark says so from the start of an attempt until all that it made has been returned. It lies beside the folder that
ranks may write. Whether anybody still waits for it the portal knows: the job may have got on elsewhere.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from worker.registry import write_json
from worker.transfer.cache import UNRETURNED, Cache
from worker.transfer.portal import Portal, PortalAway, PortalRefused
from worker.trees import tree_bytes
from worker.words import counted, size_words

JOBS_MAX = 1000
"""Asked about at once."""


def owed_begin(job_dir: Path, token: int) -> None:
    """From now on this attempt makes what the store does not have. Raises `OSError`."""
    write_json(job_dir / UNRETURNED, str(token))


def owed_end(job_dir: Path) -> None:
    """The store has it all, or nobody waits for it any more."""
    (job_dir / UNRETURNED).unlink(missing_ok=True)


def owed(cache: Cache) -> dict[str, int]:
    """Jobs of which something lies here that the store lacks, and no run returns now -> the newest attempt here."""
    found = {}
    for name in cache.unreturned():
        with suppress(OSError, ValueError):
            if not cache.is_held(name):
                found[name.partition("/")[2]] = int((cache.path(name) / UNRETURNED).read_text())
    return found


def owed_settle(cache: Cache, portal: Portal) -> bool:
    """Ask for which of them somebody waits, and let the rest go; whether any of them went."""
    if not (tokens := dict(list(owed(cache).items())[:JOBS_MAX])):
        return False
    body = {"runs": [{"job_id": job_id, "token": token} for job_id, token in tokens.items()]}
    awaited = {str(job_id) for job_id in portal.json("POST", "/unreturned", body)["awaited"]}
    for job_id in tokens.keys() - awaited:
        owed_end(cache.path(f"jobs/{job_id}"))
    return bool(tokens.keys() - awaited)


def owed_settled(cache: Cache, portal: Portal) -> bool:
    """As `owed_settle`; where the portal does not answer all is kept."""
    with suppress(PortalAway, PortalRefused), portal.apart() as own:
        return owed_settle(cache, own)
    return False


def owed_report(cache: Cache) -> dict[str, Any]:
    """For the node's report: how much of it there is."""
    jobs = owed(cache)
    size_bytes = sum(tree_bytes(cache.path(f"jobs/{job_id}")) for job_id in jobs)
    return {"unreturned": len(jobs), "unreturned_bytes": size_bytes} if jobs else {}


def owed_words(cache: Cache) -> str:
    """What keeps room from a run, as one more sentence; empty where nothing does."""
    told = owed_report(cache)
    if not told:
        return ""
    size, jobs = size_words(told["unreturned_bytes"]), counted(told["unreturned"], "job")
    return f" {size} of it are kept for {jobs}, since they could not be returned to the store of the portal yet."
