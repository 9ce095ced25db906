"""How the copy in the object store stands, in words: for the pool page, the API and `dlh store status`.

Read from the disk alone: the object store is not asked, so that nobody waits for one that is away.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from enum import StrEnum

from django.conf import settings

from harness.bucket.mirror import copying
from harness.bucket.state import Listed, MirrorState, state_of

LATE_S = 900.0
"""A copy whose last whole pass began longer ago is behind."""
STOPPED_S = 300.0
"""Control begins a pass every few seconds; one that began longer ago, and does not go on, was the last."""
_LOG = "wait, a large file takes its time; control's log names what cannot be copied"
_CONTROL = "look whether control runs, which copies"


class Standing(StrEnum):
    """How the copy stands."""

    WHOLE = "whole"
    FIRST = "first"
    BEHIND = "behind"
    STOPPED = "stopped"
    TROUBLE = "trouble"


GOOD = frozenset({Standing.WHOLE, Standing.FIRST})
"""Nobody has to look after it."""


@dataclass(frozen=True, kw_only=True)
class BucketStatus(Listed):
    """The copy at one moment. `text` and `step` say what is the matter and what to do; empty where all is well."""

    url: str
    endpoint: str
    """Empty: Amazon's."""
    state: Standing
    text: str
    step: str
    complete_s: float | None
    """When the last pass began that copied everything (Unix time)."""
    waiting: int
    """Datasets and jobs that changed, or may have, and are not copied yet."""
    copying: bool
    """Whether a pass is running now."""


def bucket_status() -> BucketStatus | None:
    """How the copy stands; None where there is no object store."""
    if settings.S3 is None:
        return None
    known, is_going = state_of(settings.S3), copying()
    state, text, step = _standing(known, time.time(), is_going=is_going)
    return BucketStatus(
        url=f"s3://{settings.S3.place}",
        endpoint=settings.S3.endpoint,
        state=state,
        text=text,
        step=step,
        complete_s=known.complete_s or None,
        waiting=known.waiting,
        copying=is_going,
        units=known.units,
        files=known.files,
        bytes=known.bytes,
    )


def _standing(known: MirrorState, now_s: float, *, is_going: bool) -> tuple[Standing, str, str]:
    if not is_going and known.began_s and now_s - known.began_s > STOPPED_S:
        return Standing.STOPPED, "nothing is being copied", _CONTROL
    if known.trouble:
        return Standing.TROUBLE, known.trouble, known.step
    if not known.complete_s:
        return Standing.FIRST, "not everything was copied yet", _LOG if known.began_s or is_going else _CONTROL
    if now_s - known.complete_s > LATE_S:
        return Standing.BEHIND, "what changed since then is not all copied", _LOG
    return Standing.WHOLE, "", ""
