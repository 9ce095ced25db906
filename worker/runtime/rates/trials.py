"""Short trainings of a program at a few learning rates: `python -m worker.runtime.rates.trials --centre RATE [...]`.

Which rates, how long and in which order is said by `worker.rate_search`, from the losses so far; each training is one
of `worker.runtime.rates.trial`, all with the spec's seed, so with the same rows, weights and order of batches. The last
line printed is JSON:

    ok, problem      as `worker.runtime.inspection.trace` tells them
    trials           {centre, scale, done: [{round, rate, share, loss}]}, as `scheduler.rates.trials` reads it
    complete         false where the time was over first
    steps            made in all trials
    took_s, device, threads

Lines `{"mark": "progress", "share": 0.4}` tell how far it is, against the most that the search makes.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from worker.plan import EXIT_REPORTED
from worker.rate_search import Trial, Wanted, most_share, next_trial
from worker.runtime.data import DataError
from worker.runtime.device import default_threads
from worker.runtime.inspection import trace as tracing
from worker.runtime.inspection.few_rows import FewRows, GivenShapeSpec, few_rows
from worker.runtime.rates.trial import Bench, OutOfTime, TrialRun, trial
from worker.runtime.spec import load_spec

DATA_BYTES = 1 << 30
"""Packed data up to this size are taken whole: with fewer rows a model overfits earlier than in the run."""
SAME_RATE = 1.01


def rate_trials(program: Path, data: Path | None, options: argparse.Namespace) -> dict[str, Any]:
    """The answer. Never raises for a fault of the program."""
    answer: dict[str, Any] = {"ok": False, "problem": None, "trials": None}
    began_s = time.monotonic()
    with tracing.problem_told(answer, program):
        if data is None or not data.is_dir():
            raise DataError("Trials need the program's data.", "Name their folder: --data FOLDER")
        with few_rows(data, load_spec(program / "spec.yaml"), DATA_BYTES) as rows:
            search = _Search(program, rows, options, began_s + options.budget)
            search.run()
        answer |= search.told() | {"ok": True, "took_s": time.monotonic() - began_s}
    return answer


class _Search:
    """Makes the trials one after the other."""

    def __init__(self, program: Path, rows: FewRows, options: argparse.Namespace, end_s: float) -> None:
        self._program, self._rows, self._options, self._end_s = program, rows, options, end_s
        self.done: list[Trial] = []
        self.complete = False
        self.steps, self.seen_rates = 0, list[float]()
        self._share_done = 0.0

    def run(self) -> None:
        """Until the search or the time is over. Raises what the program raises."""
        options = self._options
        try:
            while wanted := next_trial(options.centre, options.scale, self.done):
                self._note(wanted, self._trial(wanted))
            self.complete = True
        except OutOfTime:
            pass

    def told(self) -> dict[str, Any]:
        """Figures for the answer."""
        options = self._options
        trials = {"centre": options.centre, "scale": options.scale, "done": [asdict(one) for one in self.done]}
        return {
            "trials": trials, "complete": self.complete, "steps": self.steps, "device": options.device,
            "threads": torch.get_num_threads(),
        }  # fmt: skip

    def _trial(self, wanted: Wanted) -> TrialRun:
        options, spec = self._options, load_spec(self._program / "spec.yaml")
        bench = Bench(
            program=self._program, data=self._rows.folder, rows_share=self._rows.share, end_s=self._end_s,
            batch=options.batch, device=options.device, threads=options.threads or default_threads(spec, 1),
        )  # fmt: skip
        given = spec if self._rows.whole else GivenShapeSpec(spec)
        return trial(bench, given, wanted.rate, share=wanted.share, tell=self._teller(wanted))

    def _teller(self, wanted: Wanted) -> Callable[[float], None]:
        most = most_share() * self._options.scale
        return lambda share: _mark((self._share_done + share * wanted.share) / most)

    def _note(self, wanted: Wanted, run: TrialRun) -> None:
        self.done.append(Trial(round=wanted.round, rate=wanted.rate, share=wanted.share, loss=run.loss))
        self._share_done += wanted.share
        self._teller(wanted)(0.0)
        self.steps += run.position.step
        self.seen_rates.append(run.seen_rate)
        if len(self.seen_rates) == 2 and max(self.seen_rates) < SAME_RATE * min(self.seen_rates):
            told = f"train.py trains with the learning rate {run.seen_rate:g} whatever the spec says."
            raise ValueError(f"{told} Trials change training.learning_rate of the spec.")


def _mark(share: float) -> None:
    print("\n" + json.dumps({"mark": "progress", "share": round(min(1.0, share), 3)}), flush=True)


def main() -> None:
    """Try and print the answer."""
    options = _options()
    answer = rate_trials(options.program.absolute(), options.data.absolute(), options)
    print("\n" + json.dumps(answer, separators=(",", ":")), flush=True)
    os._exit(0 if answer["ok"] else EXIT_REPORTED)  # a program's threads or exit hooks must not hold up the answer


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Try a program's learning rates by short trainings.")
    parser.add_argument("--program", type=Path, default=Path())
    parser.add_argument("--data", type=Path, default=Path("data"), help="packed data")
    parser.add_argument("--batch", type=int, help="rows of a step, instead of the spec's")
    parser.add_argument("--centre", type=float, required=True, help="peak learning rate to try first")
    parser.add_argument("--scale", type=float, default=1.0, help="trials are so many times as long as usual, up to 1")
    parser.add_argument("--budget", type=float, default=900.0, help="seconds for all trials")
    parser.add_argument("--device", default="cpu", help="cpu or cuda:N")
    threads = int(os.environ.get("DLH_THREADS") or 0)
    parser.add_argument("--threads", type=int, default=threads, help="0: as many as train.py alone takes")
    options = parser.parse_args()
    if options.threads < 0 or (options.batch or 1) < 1:
        parser.error("numbers must be at least 1")
    if not (0 < options.centre < math.inf and 0 < options.scale <= 1 and options.budget > 0):
        parser.error("--centre and --budget must be above 0, --scale above 0 and at most 1")
    return options


if __name__ == "__main__":
    main()
