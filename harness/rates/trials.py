"""Trials after a range test: whether they are made, what they may cost, what came of them.

`RateTest.trials` is empty until the range test has told a centre. Then it holds `state` (`waiting`, `done`, `failed`,
`none`: not made), and `expected_s`, `limit_s`, `scale`, `run_s`, `setting` (how long the run is that they stand for),
`why` (they are not made), and in the end `record` (`scheduler.rates.trials.TrialsRecord`), `rate`, `share`,
`notes`, `complete`, `took_s` or `problem`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from harness.plain import plain
from harness.rates.keys import run_setting
from scheduler.rates.record import RateUnclear
from scheduler.rates.trials import (
    LIMITS_S,
    TrialsRecord,
    trial_choice,
    trials_asked_s,
    trials_left_out,
    trials_s,
    trials_scale,
)
from worker.rate_search import most_share

WISHES = ("auto", "always", "never")
SLACK = 2.0
"""Foretold times may be wrong by so much before trials are cut short."""
SPARE_S = 30.0


def trials_most_s(wish: str) -> float:
    """What a node is given for them at most, in seconds; 0: none are made."""
    limit_s = LIMITS_S.get(wish, 0.0)
    return SPARE_S + SLACK * limit_s if limit_s else 0.0


def trials_plan(wish: str, run_s: Any, files: Mapping[str, str]) -> dict[str, Any]:
    """`RateTest.trials` at the end of the range test, with state `waiting` or `none`."""
    known = run_s if isinstance(run_s, float) and 0 < run_s < math.inf else 0.0
    plan: dict[str, Any] = {"state": "none", "run_s": known, "most_share": most_share(), "setting": run_setting(files)}
    scale = trials_scale(known, LIMITS_S.get(wish, 0.0))
    if wish == "never":
        return {**plan, "why": trials_left_out(wish, known)}
    if not known:
        return {**plan, "why": "The node did not tell how long the run would take."}
    if not scale:
        return {**plan, "why": trials_left_out(wish, known), "expected_s": trials_asked_s(known)}
    expected_s = trials_s(known, scale)
    budget_s = SPARE_S + SLACK * expected_s
    most = scale * most_share()
    return {
        **plan, "state": "waiting", "scale": scale, "most_share": most, "expected_s": expected_s, "limit_s": budget_s
    }  # fmt: skip


def trials_answered(plan: Mapping[str, Any], report: Mapping[str, Any]) -> dict[str, Any]:
    """`RateTest.trials` after a node's answer, of state `done` or `failed`."""
    try:
        report = plain(report)
        if problem := report.get("problem"):
            if not isinstance(problem, dict):
                raise ValueError("its problem is no problem")
            return trials_failed(plan, {key: str(problem.get(key) or "") for key in ("code", "message", "hint")})
        if not isinstance(report.get("trials"), dict):
            raise ValueError("it holds no trials")
        record = TrialsRecord.from_dict(report["trials"])
        choice = trial_choice(record)
    except ValueError as error:
        message = f"The node's answer cannot be read: {error}"
        return trials_failed(plan, {"code": "bad_answer", "message": message, "hint": ""})
    except RateUnclear as unclear:
        return trials_failed(plan, {"code": unclear.code, "message": unclear.message, "hint": unclear.hint})
    took_s = report.get("took_s")
    return {
        **plan, "state": "done", "record": record.to_dict(), "rate": choice.rate,
        "share": choice.share, "notes": list(choice.notes), "complete": report.get("complete") is True,
        "took_s": took_s if isinstance(took_s, float) else None,
    }  # fmt: skip


def trials_failed(plan: Mapping[str, Any], problem: Mapping[str, str]) -> dict[str, Any]:
    """Of state `failed`: the range test's centre stays."""
    return {**plan, "state": "failed", "problem": dict(problem)}
