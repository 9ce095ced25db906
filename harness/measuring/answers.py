"""Answers of nodes to `node.measure`: to sweeps, and to probes of people's programs."""

from __future__ import annotations

from typing import Any

from harness.estimates.services import measure_answer
from harness.measuring.requests import PREFIX
from harness.measuring.sweep import point_measured


def measure_done(report: dict[str, Any]) -> None:
    """Hand an answer to whom it belongs."""
    request_id = str(report.get("request_id", ""))
    if request_id.startswith(PREFIX):
        run_id, _, point_id = request_id.removeprefix(PREFIX).partition("-")
        point_measured(report, run_id, point_id)
    else:
        measure_answer(report)
