"""What a trial run of a draft's program came to, or that one is under way."""

from __future__ import annotations

import time
from typing import Any

from harness.jobs.check_queue import KEEP_S, check_waiting, check_waits_for, checks_took_s
from harness.jobs.models import Job
from harness.jobs.selectors import program_check_get, program_check_last


def check_last(job: Job) -> dict[str, Any]:
    """The trial run that is under way, or else the last one with an answer; empty where there was none."""
    waiting = check_waiting(job)
    if waiting is not None:
        return check_context(job, waiting[0], int(waiting[1].asked_s))
    found = program_check_last(job)
    return {**_answered(job, found[0]), "answered_at": found[1]} if found else {}


def check_context(job: Job, check_id: str, asked_s: int | None) -> dict[str, Any]:
    """One trial run: its answer, what it waits for, or that no node answers."""
    answer = program_check_get(job, check_id)
    if answer is not None:
        return _answered(job, answer)
    now_s = int(time.time())
    asked_s = now_s if asked_s is None else asked_s
    return {
        "check_id": check_id,
        "answer": None,
        "asked_s": asked_s,
        "waited_s": max(0, now_s - asked_s),
        "waits_for": check_waits_for(job, check_id),
        "took_s": checks_took_s(),
        "late_s": KEEP_S if now_s > asked_s + KEEP_S else 0,
    }


def _answered(job: Job, answer: dict[str, Any]) -> dict[str, Any]:
    """`outdated` where the program that was tried is another one, or may be; `place` of a fault that does not begin
    with it."""
    tried = answer.get("program_sha256")
    problem = answer.get("problem") or {}
    place = str(problem.get("file") or "") + (f", line {problem['line']}" if problem.get("line") else "")
    return {
        "check_id": answer["check_id"],
        "answer": answer,
        "outdated": tried != job.program_sha256,
        "tried": tried,
        "place": "" if str(problem.get("message", "")).startswith(place) else place,
    }
