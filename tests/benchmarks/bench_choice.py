"""The offered allocation against measuring every one: energy above the best that keeps the deadline, and misses.

    make bench-choice [ARGS="--points 120 --cache points.csv"]

Calibrates this machine's cores by a sweep (every visit kept in the CSV of `--cache`, which `bench_estimate` may have
filled), lets a few finished jobs teach start and end of a run, then runs six jobs whole on every allocation that two
cores give. For forty deadlines, multiples of the fastest run that was measured, the offer after three probe steps on
one core is held against all measured runs, beside the rivals "fastest" and "fewest devices". Energy is measured time
times the power of the device table. Where the time of each run went is printed beside what was foretold. Six more jobs
run in two stages. Wants a quiet machine; about 15 minutes, 19 with `--times 4`: four times the epochs of the first six,
so that runs last 10 to 50 seconds. `--only gangs` holds steps of two ranks against what is foretold of them after one
core has tried the rows of one; `--jobs`: the first so many of the six. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

from scheduler.estimation.fit import fit_device_model
from scheduler.estimation.sweep import plan_sweep
from tests.benchmarks.bench_estimate import OTHERS_SHARE, allocation_met, jobs, rank_plan
from tests.benchmarks.estimate_gangs import gangs
from tests.benchmarks.estimate_measure import Cache, collect, collect_ranks


def main() -> None:
    """Measure what the cache lacks, run the jobs, judge."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--points", type=int, default=120, help="programs of the sweep")
    parser.add_argument("--cache", type=Path, help="CSV of raw visits; kept and taken up again")
    parser.add_argument("--times", type=int, default=1, help="epochs of each job: so many times as many")
    parser.add_argument("--only", choices=["gangs"], help="this section alone")
    parser.add_argument("--jobs", type=int, default=6, help="of that section, the first so many")
    chosen = parser.parse_args()
    plan = plan_sweep(most=chosen.points, others_share=OTHERS_SHARE)
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="bench-choice-") as folder:
        root = Path(folder)
        cache = Cache(chosen.cache or root / "points.csv")
        collect(plan, cache, root, visits=1)
        collect_ranks(rank_plan(plan), cache, root)
        several = [*cache.points(plan, count=2), *cache.points(plan, threads=2)]
        model = fit_device_model([*cache.points(plan), *several])
        if chosen.only == "gangs":
            found = gangs(model, root, chosen.jobs)
            print(json.dumps({"benchmark": "choice", "gangs": found, "points": len(cache.points(plan))}))
            return
        result = jobs(model, root, chosen.times)
    choice = result["choice"]
    whole = {name: result[name] for name in ("whole", "staged")}
    took = {"seconds": time.monotonic() - began_s, "points": len(cache.points(plan))}
    print(json.dumps({"benchmark": "choice", **choice, **whole, **took, "met": allocation_met(choice)}))


if __name__ == "__main__":
    main()
