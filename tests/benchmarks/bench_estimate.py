"""The estimator on held-out programs, beside its rivals, on this machine's first core.

    python -m tests.benchmarks.bench_estimate [--points 360] [--cache FILE] [--skip ranks jobs]
    python -m tests.benchmarks.bench_estimate --shipped

Renders the sweep's programs as for people's jobs, measures them (one thread, visits apart, every visit kept in the CSV
of `--cache`, so that a run can be taken up again), splits by ARCHITECTURE with fixed seeds, fits to one part and
predicts the other. What the fit chooses (how far to trust the points, whether to correct) it chooses by
cross-validation inside its part. Wants a quiet machine: the noise floor is printed. `--shipped` judges in the same way
the points of a core that ship with the platform: the same figures on any machine, in a minute, so that a change of the
estimator shows. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from harness.calibration.shipped import FOLDER, POINTS_SUFFIX
from scheduler.estimation.calibration import CalibrationPoint, from_json, noise_of
from scheduler.estimation.device_model import DeviceModel
from scheduler.estimation.fit import fit_device_model
from scheduler.estimation.sweep import SweepPoint, plan_sweep
from tests.benchmarks import estimate_jobs
from tests.benchmarks.estimate_held_out import BARS, Table, figures, held_out_cnns, held_out_families, show, two_ranks
from tests.benchmarks.estimate_measure import VISITS_MOST, Cache, collect, collect_ranks
from tests.benchmarks.estimate_staged import staged_runs
from tests.benchmarks.ship_calibration import read

MEASURED = FOLDER / f"amd-epyc{POINTS_SUFFIX}"
OTHERS_SHARE = 1 / 6
RANKS_POINTS = 18


def jobs(model: DeviceModel, root: Path, times: int = 1) -> Table:
    """Whole runs after a probe, and what the recommendation makes of it; `times` their epochs."""
    print("whole jobs (start to results) after three probe steps")
    model = estimate_jobs.taught(model, root)
    seen, whole = estimate_jobs.whole_jobs(model, root, times)
    print(f"  the same steps in the run and in its probe differ by {whole['noise']:.1%} (median): the noise floor")
    bare = f"without a probe {whole['without_probe_median']:.1%}"
    print(f"  median {whole['median']:.1%} (bar {BARS['probe_median']:.0%}), {bare}")
    choice = estimate_jobs.chosen_against_all(model, seen)
    print("chosen allocation against all measured ones, energy by the device table")
    for name in ("ours", "fastest", "fewest"):
        more, misses = choice[f"{name}_energy_above_best"], choice[f"{name}_misses"]
        told = "-" if more is None else f"{more:.1%}"
        print(f"  {name:10} energy above the best {told:>6}, {misses} misses of {choice['cases']}")
    print(f"  refused although one way would have kept the deadline: {choice['refused']}")
    print("whole jobs in two stages, foretold without a probe and after one of the whole model")
    staged = staged_runs(model, root)
    for name, row in staged.items():
        print(f"  {name:10} " + "  ".join(f"{key} {value:.1%}" for key, value in row.items() if key != "runs"))
    return {"whole": whole, "choice": choice, "staged": staged}


def met(result: Table) -> dict[str, bool]:
    """Bars that were measured, and whether they are met."""
    cnn, families, memory = result["cnn"]["errors"]["ours"], result["families"], result["cnn"]["memory"]
    found = {"cnn": cnn["mape"] <= BARS["cnn_mape"] and cnn["p90"] <= BARS["cnn_p90"]}
    if memory:
        found["memory"] = memory["mape"] <= BARS["memory_mape"] and memory["worst_under"] <= BARS["memory_under"]
    if families:
        found["families"] = families["errors"]["ours"]["mape"] <= BARS["families_mape"]
    if ranks := result.get("ranks", {}).get("2 ranks"):  # none where only threads could be measured
        found["ranks"] = ranks["mape"] <= BARS["ranks_mape"]
    if result.get("jobs"):
        found["probe"] = result["jobs"]["whole"]["median"] <= BARS["probe_median"]
        found["allocation"] = allocation_met(result["jobs"]["choice"])
    return found


def allocation_met(choice: Table) -> bool:
    """Whether what was chosen missed no deadline, by little more energy than the best; no where all was refused."""
    more = choice["ours_energy_above_best"]
    return choice["ours_misses"] == 0 and more is not None and more <= BARS["allocation_energy"]


def rank_plan(plan: Sequence[SweepPoint]) -> list[SweepPoint]:
    """Points to measure on two devices: spread over the plan, with an even batch."""
    even = [point for point in plan if point.batch_size % 2 == 0]
    return even[:: max(1, len(even) // RANKS_POINTS)][:RANKS_POINTS]


def main() -> None:
    """Measure what the cache lacks, judge, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--points", type=int, default=360, help="programs measured, CNNs and others")
    parser.add_argument("--visits", type=int, default=VISITS_MOST, help="to each program; over 2: where they disagree")
    parser.add_argument("--cache", type=Path, help="CSV of raw visits; kept and taken up again")
    parser.add_argument("--skip", nargs="*", default=[], choices=["measure", "ranks", "jobs"])
    parser.add_argument("--shipped", action="store_true", help="judge the points that ship, measure nothing")
    chosen = parser.parse_args()
    if chosen.shipped:
        tell(by_points(from_json(read(MEASURED))))
        return
    plan = plan_sweep(most=chosen.points, others_share=OTHERS_SHARE)
    with tempfile.TemporaryDirectory(prefix="bench-estimate-") as folder:
        root, began_s = Path(folder), time.monotonic()
        cache = Cache(chosen.cache or root / "points.csv")
        on_two = rank_plan(plan)
        if "measure" not in chosen.skip:
            collect(plan, cache, root, chosen.visits)
        if "ranks" not in chosen.skip:
            collect_ranks(on_two, cache, root)
        measured_s = time.monotonic() - began_s
        result = judge(plan, on_two, cache, lambda model: {} if "jobs" in chosen.skip else jobs(model, root))
    tell(result | {"measured_s": measured_s})


def tell(result: Table) -> None:
    """The last line."""
    print(json.dumps({"benchmark": "estimate", **result, "met": met(result)}), flush=True)


def judge(
    plan: Sequence[SweepPoint], on_two: Sequence[SweepPoint], cache: Cache, run_jobs: Callable[[DeviceModel], Table]
) -> Table:
    """All sections on what was measured."""
    points = cache.points(plan)
    several = [*cache.points(on_two, count=2), *cache.points(on_two, threads=2)]
    floor = noise_of(points)
    print(f"{len(points)} points; the two quickest visits to a point differ by {floor:.1%} (median): the noise floor")
    again = figures(np.array(cache.again())) if cache.again() else {}
    show("the same program measured again", again)
    return {
        "noise": floor,
        "again": again,
        **by_points(points),
        "ranks": two_ranks(points, several),
        "jobs": run_jobs(fit_device_model([*points, *several])),
    }


def by_points(points: Sequence[CalibrationPoint]) -> Table:
    """Held-out architectures and families."""
    cnns = [point for point in points if point.family == "cnn"]
    return {"points": len(points), "cnn": held_out_cnns(cnns), "families": held_out_families(points)}


if __name__ == "__main__":
    main()
