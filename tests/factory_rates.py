"""Range tests with known answers: a plateau, a fall between two rates, and a rise beyond."""

from __future__ import annotations

from typing import Any

import numpy as np

from scheduler.rates.interval import RangeRecord
from scheduler.rates.record import Sweep


def record_make(
    *, begin: float = 1e-4, best: float = 1e-2, steps: int = 120, sweeps: int = 3, noise: float = 0.02, seed: int = 0,
    scale: float = 1.0, scored: bool = True,
) -> RangeRecord:  # fmt: skip
    """The loss is 2.3 below `begin`, about 0.5 at `best` and grows without bound beyond it."""
    generator = np.random.default_rng(seed)
    rates = np.geomspace(1e-6, 10.0, steps)
    x, low, high = np.log10(rates), np.log10(begin), np.log10(best)
    share = np.clip((x - low) / (high - low), 0.0, 1.0)
    loss = 2.3 - 1.8 * share + 1.5 * np.clip(x - high, 0.0, None) ** 2
    score = 0.1 + 0.8 * share - 0.2 * np.clip(x - high, 0.0, None)
    made = []
    for _ in range(sweeps):
        losses = scale * (loss + noise * generator.normal(size=steps))
        scores = np.clip(score + noise * generator.normal(size=steps), 0.0, 1.0) if scored else np.full(steps, np.nan)
        made.append(Sweep(losses=tuple(map(float, losses)), scores=tuple(map(float, scores))))
    return RangeRecord(rates=tuple(map(float, rates)), sweeps=tuple(made), score="accuracy" if scored else "")


def report_make(request_id: str, **more: Any) -> dict[str, Any]:
    """What a node answers to `node.rate_range`."""
    body = {"request_id": request_id, "ok": True, "problem": None, "record": record_make().to_dict()}
    return {**body, "batch_size": 32, "rate": 0.002, "optimizer": "AdamW", "took_s": 3.5, "device": "cpu", **more}


def trials_report_make(request_id: str, **more: Any) -> dict[str, Any]:
    """What a node answers to a request for trials: the best lies below the range test's centre."""
    told = ((1, 4e-3, 0.9), (1, 9e-4, 1.4), (1, 2e-2, 1.1), (2, 5e-4, 0.5), (2, 1e-4, 0.7), (2, 2.4e-3, 0.6))
    shares = {1: 0.125, 2: 1.0}
    done = [{"round": number, "rate": rate, "share": shares[number], "loss": loss} for number, rate, loss in told]
    body = {"request_id": request_id, "ok": True, "problem": None, "complete": True, "steps": 400, "took_s": 7.5}
    return {**body, "trials": {"centre": 4e-3, "scale": 1.0, "done": done}, **more}


def rate_test_make(job: Any, **fields: Any) -> Any:
    """A finished test of a job's program."""
    from django.conf import settings

    from harness.jobs import programs
    from harness.rates.keys import rate_key
    from harness.rates.models import RateTest
    from harness.rates.reference import rates_by_rules
    from scheduler.rates.interval import rate_range

    record = record_make()
    files = programs.files_read(settings.STORE.job(job.pk).program)
    known = {
        "state": "done", "progress": 1.0, "batch_size": 32, "rate": 0.002, "optimizer": "AdamW", "kind": "cpu",
        "model_name": "core", "node_name": "node-1", "record": record.to_dict(), "found": rate_range(record).to_dict(),
        "program_key": rate_key(files, job.dataset_sha256 or job.dataset.sha256), "rules": rates_by_rules(job),
    }  # fmt: skip
    return RateTest.objects.create(job=job, by=job.owner, **{**known, **fields})
