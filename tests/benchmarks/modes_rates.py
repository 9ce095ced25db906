"""Learning rates by a range test and by trials against the best of a grid: `python -m tests.benchmarks.modes_rates`.

Each case is (data, model, batch). Its program is trained at every rate of a grid of a third of a decade with three
seeds; the loss is the validation loss after the last epoch, averaged over the seeds (`train`: the same of as many
training rows). Between the grid's rates it is interpolated in log(rate). Beside what trials around the range test's
centre say (with three seeds, none of them the grid's, so with other splits of the rows) stand that centre, the readings
of the same curves in the manner of fastai (`valley`, `steepest`, `minimum_tenth`), the family's own rate (`family`) and
its linear and square-root scaling from the family's usual batch; and what is left to luck: the best rate of the whole
grid with one seed, judged by the others (`grid_alone`). `--tuning` takes other cases: those that the centre's place and
the trials' lengths were chosen by. `--read FILE --trials` makes the trials alone, for the grids of a file.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import math
import os
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from codegen.catalog.rates import rate_factor
from scheduler.rates.interval import RangeRecord, RateUnclear, rate_range
from scheduler.rates.trials import TrialsRecord, trial_choice
from tests.benchmarks.rate_cases import CASES, FURTHER, PACKERS, TUNING, Case
from tests.worker.runtime import samples
from worker.runtime.device import set_up_torch
from worker.runtime.inspection.standin import Enough, StandIn, drive
from worker.runtime.rates.range_test import rate_test
from worker.runtime.rates.trials import rate_trials
from worker.runtime.rng import seed_all
from worker.runtime.run import Run
from worker.runtime.spec import Spec, load_spec

GRID = tuple(float(10 ** (-14 / 3 + place / 3)) for place in range(17))
SEEDS, TRIAL_SEEDS = (11, 12, 13), (1, 2, 3)
STEPS = 240
"""Of a training, about; whole epochs."""
REGRET_BAR, WITHIN_BAR, WITHIN = 0.03, 0.8, 3.0
WORST = 1e3
"""Stands for a loss that is no number."""


class Training(StandIn):
    """A whole training of train.py that keeps nothing but the losses after the last epoch."""

    done = Run.done
    losses = (WORST, WORST)
    """Of validation and training rows."""

    def restore(self, **_parts: Any) -> None:
        """From the start."""

    def log_step(self, loss: torch.Tensor, learning_rate: float | None = None) -> None:
        """A loss that is no number ends the training."""
        self.position.step += 1
        self.position.step_in_epoch += 1
        if not math.isfinite(loss.item()):
            raise Enough

    def evaluate(self, net: torch.nn.Module, dataset: Any) -> dict[str, dict[str, float]]:
        """After the last epoch only."""
        if self.position.epoch + 1 < self.epochs_total:
            return {}
        told = super().evaluate(net, dataset)
        found = (told[part]["loss"] for part in ("val", "train"))
        val, train = (min(WORST, loss) if math.isfinite(loss) else WORST for loss in found)
        self.losses = (val, train)
        raise Enough

    def log_epoch(self, metrics: dict[str, dict[str, float]]) -> None:
        """Nothing."""

    def checkpoint(self) -> None:
        """Nothing."""


def train_losses(program: Path, data: Path, rate: float, seed: int) -> tuple[float, float]:
    """Loss of validation and of training rows after one training."""
    spec = load_spec(program / "spec.yaml")
    spec["training"] |= {"learning_rate": rate, "seed": seed}
    spec["checkpoints"] = Spec({**spec.checkpoints, "every_minutes": math.inf})
    with tempfile.TemporaryDirectory() as work:
        run = Training(spec, data, Path(work), None, DLH_DEVICE="cpu")
        set_up_torch(run.device, 1)
        seed_all(seed)
        drive(program, run)
    return run.losses


def write(case: Case, root: Path) -> tuple[Path, Path, dict[str, Any]]:
    """(program, data, spec.training of the usual batch)."""
    data = root / case.data
    profile = PACKERS[case.data](data)
    split = {"validation": 0.35, "test": 0.05}
    rows = round(profile.rows * 0.6)
    epochs = max(2, round(STEPS / max(1, rows // case.batch)))
    common = {"model": {"family": case.family, "size": "small"}, "data": {"split": split}}
    usual = samples.program(root / f"{case.name} usual", profile, training=dict(case.training), **common)
    training = {**case.training, "batch_size": case.batch, "epochs": epochs, "patience": 0, "rate_rule": "none"}
    program = samples.program(root / case.name, profile, training=training, **common)
    return program, data, load_spec(usual / "spec.yaml")["training"]


def judge(case: Case, root: Path, grid: tuple[float, ...], seeds: tuple[int, ...]) -> dict[str, Any]:
    """The grid's losses, the range test's record, and the rates of every rule."""
    began_s = time.perf_counter()
    program, data, usual = write(case, root)
    pairs = [[train_losses(program, data, rate, seed) for seed in seeds] for rate in grid]
    grid_s = time.perf_counter() - began_s
    options = argparse.Namespace(
        low=1e-6, high=10.0, steps=120, sweeps=3, budget=60.0, batch=None, device="cpu", threads=1
    )
    with contextlib.redirect_stdout(io.StringIO()):  # its progress
        answer = rate_test(program, data, options)
    if not answer["ok"]:
        raise RuntimeError(f"{case.name}: {answer['problem']}")
    tried = trials(program, data, answer["record"])
    family, reference = usual["learning_rate"], usual["batch_size"]
    rules = {rule: family * rate_factor(rule, case.batch, reference) for rule in ("linear", "sqrt")}
    return {
        "case": case.name, "grid": list(grid), "losses": [[pair[0] for pair in row] for row in pairs],
        "train_losses": [[pair[1] for pair in row] for row in pairs], "record": answer["record"], "grid_s": grid_s,
        "test_s": answer["took_s"], "rules": {"family": family, **rules}, "reference": reference, **tried,
    }  # fmt: skip


def trials(program: Path, data: Path, record: dict[str, Any], scale: float = 1.0) -> dict[str, Any]:
    """Trials around the range test's centre, one search a seed; nothing where it tells none."""
    try:
        centre = rate_range(RangeRecord.from_dict(record)).centre
    except RateUnclear:
        return {}
    options = argparse.Namespace(centre=centre, scale=scale, budget=math.inf, batch=None, device="cpu", threads=1)
    made = []
    for seed in TRIAL_SEEDS:
        samples.change_spec(program, training={"seed": seed})
        with contextlib.redirect_stdout(io.StringIO()):  # its progress
            answer = rate_trials(program, data, options)
        if not answer["ok"]:
            raise RuntimeError(f"{program.name}: {answer['problem']}")
        made.append(answer)
    return {"trials": [answer["trials"] for answer in made], "trials_s": median(answer["took_s"] for answer in made)}


def trials_anew(raw: list[dict[str, Any]], scale: float) -> list[dict[str, Any]]:
    """The same grids with trials made now."""
    cases = {case.name: case for case in (*CASES, *TUNING, *FURTHER)}
    made = []
    with tempfile.TemporaryDirectory() as folder:
        for found in raw:
            program, data, _ = write(cases[found["case"]], Path(folder))
            made.append(found | trials(program, data, found["record"], scale))
            print(_line(made[-1]), flush=True)
    return made


def _line(found: dict[str, Any]) -> str:
    shown = {name: [f"{one['rate']:.2g} ({one['regret']:+.1%})" for one in ones] for name, ones in rated(found).items()}
    return f"{found['case']}: best {_best(found):.2g}; {shown}; {found['grid_s']:.0f} s grid"


def rated(found: dict[str, Any], losses: str = "losses") -> dict[str, list[dict[str, float]]]:
    """For each rule its rates (one, or one a seed), their regret and their distance from the best rate."""
    rates = {name: [rate] for name, rate in found["rules"].items()}
    try:
        told = rate_range(RangeRecord.from_dict(found["record"]))
        tried = [trial_choice(TrialsRecord.from_dict(one)).rate for one in _searches(found)]
        marks = {mark: [rate] for mark, rate in told.marks.items()}
        rates = {"trials": tried, "range": [told.centre], **marks, **rates}
    except RateUnclear as unclear:
        print(f"{found['case']}: {unclear.message}")
        rates = {"trials": rates["sqrt"], "range": rates["sqrt"], **rates}
    means = np.mean(found[losses], axis=1)
    judged = {name: [_judged(rate, found["grid"], means) for rate in ones] for name, ones in rates.items()}
    return judged | {"grid_alone": _grid_alone(found["grid"], np.asarray(found[losses]))}


def _searches(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Of each seed; grids that were kept earlier have one."""
    tried = found.get("trials", [])
    return tried if isinstance(tried, list) else [tried]


def _judged(rate: float, grid: list[float], means: np.ndarray) -> dict[str, float]:
    x, best = np.log10(grid), int(np.argmin(means))
    regret = float(np.interp(math.log10(rate), x, means) / means[best] - 1.0)
    return {"rate": float(rate), "regret": regret, "off": float(10 ** abs(math.log10(rate) - x[best]))}


def _grid_alone(grid: list[float], losses: np.ndarray) -> list[dict[str, float]]:
    """The best rate of each seed's grid, judged by the others' mean: what luck leaves of a perfect search."""
    if losses.shape[1] < 2:
        return []
    alone = (grid[int(np.argmin(losses[:, seed]))] for seed in range(losses.shape[1]))
    return [_judged(rate, grid, np.delete(losses, seed, axis=1).mean(axis=1)) for seed, rate in enumerate(alone)]


def summary(judged: list[dict[str, list[dict[str, float]]]]) -> dict[str, dict[str, float]]:
    """Median regret and the share within 3x, by rule; every seed of a case counts alike."""
    ones = {name: [one for case in judged for one in case.get(name, ())] for name in judged[0]}
    return {
        name: {
            "median_regret": median(one["regret"] for one in found),
            "within_3x": sum(one["off"] <= WITHIN for one in found) / len(found),
        }
        for name, found in ones.items()
        if found
    }


def bench(cases: tuple[Case, ...], *, quick: bool, keep: Path | None = None) -> dict[str, Any]:
    """All cases; the figures as one JSON-able value."""
    grid, seeds = (GRID[5:15:3], SEEDS[:1]) if quick else (GRID, SEEDS)
    raw = []
    with tempfile.TemporaryDirectory() as folder:
        for case in cases[:2] if quick else cases:
            raw.append(judge(case, Path(folder), grid, seeds))
            if keep is not None:
                keep.write_text(json.dumps(raw))
            print(_line(raw[-1]), flush=True)
    return told(raw)


def told(raw: list[dict[str, Any]]) -> dict[str, Any]:
    """Summary of what `judge` found."""
    rules = summary([rated(found) for found in raw])
    train = summary([rated(found, "train_losses") for found in raw])
    print(f"{'rule':>14}  median regret  within 3x of the best rate")
    for name, one in rules.items():
        told = f"{one['median_regret']:>13.1%}  {one['within_3x']:>4.0%}"
        print(
            f"{name:>14}  {told}   (training loss {train[name]['median_regret']:.1%}, {train[name]['within_3x']:.0%})"
        )
    shares = [sum(one["share"] for one in tried["done"]) for found in raw for tried in _searches(found)]
    if shares:
        print(f"trials made {median(shares):.0%} of a run's steps in the middle, {max(shares):.0%} at most")
    ours = rules.get("trials", rules["range"])
    met = ours["median_regret"] <= REGRET_BAR and ours["within_3x"] >= WITHIN_BAR
    test_s = median(found["test_s"] for found in raw)
    return {
        "benchmark": "modes_rates", "met": met, "cases": len(raw), "rules": rules, "train": train, "test_s": test_s,
        "trials_share": median(shares) if shares else None,
    }  # fmt: skip


def _best(found: dict[str, Any]) -> float:
    return float(found["grid"][int(np.argmin(np.mean(found["losses"], axis=1)))])


def main() -> None:
    """Run the cases and print a table and one JSON line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="two cases, a coarse grid, one seed: a smoke test")
    parser.add_argument("--tuning", action="store_true", help="the cases that the centre's place was chosen by")
    parser.add_argument("--keep", type=Path, help="write losses and records to this file")
    parser.add_argument("--read", type=Path, help="read them from there instead of training")
    parser.add_argument("--trials", action="store_true", help="with --read: make the trials anew")
    parser.add_argument("--scale", type=float, default=1.0, help="with --trials: so many times as long as usual")
    options = parser.parse_args()
    if options.read is not None:
        raw = json.loads(options.read.read_text())
        raw = trials_anew(raw, options.scale) if options.trials else raw
        if options.keep is not None:
            options.keep.write_text(json.dumps(raw))
        body = told(raw)
    else:
        body = bench((*TUNING, *FURTHER) if options.tuning else CASES, quick=options.quick, keep=options.keep)
    print(json.dumps({**body, "cores": os.cpu_count()}))


if __name__ == "__main__":
    main()
