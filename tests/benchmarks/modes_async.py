"""Parameter servers against synchronous ranks with one rank slowed down: `python -m tests.benchmarks.modes_async`.

Two one-thread ranks train the generated program (a small conv net on the digits of scikit-learn), the second declared
three times as slow (emulated: it naps in each step). Modes in turns, also with like ranks. Throughput: rows of an epoch
over its wall time, from the first batch asked for to the last rank's end; evaluation is left out. Accuracy on the
validation rows by the wall time since the first batch. Bar: async at least 1.5 x the rows per second of sync with the
slow rank. `--draw FILE.svg` draws accuracy by time. JSON comes last.
"""

from __future__ import annotations

import argparse
import json
import os
import runpy
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.benchmarks.drawing import Curve, draw
from tests.benchmarks.rank_processes import figures_of, launched
from tests.worker.runtime import samples
from tests.worker.runtime.ranks import rank_environments

BAR = 1.5
SLOWDOWN = 3.0
WARM_UP_EPOCHS = 1


def rank_main() -> None:
    """One rank: train.py as it stands, with the clock read around its epochs."""
    from worker.runtime import Run

    epochs: list[tuple[float, float, int]] = []
    scores: list[tuple[float, float]] = []
    batches, log_epoch = Run.batches, Run.log_epoch

    def timed(run: Run, part: Any) -> Iterator[Any]:
        began_s = time.time()
        yield from batches(run, part)
        epochs.append((began_s, time.time(), len(part)))

    def scored(run: Run, metrics: dict[str, dict[str, float]]) -> None:
        log_epoch(run, metrics)
        scores.append((time.time(), metrics["val"]["accuracy"]))

    Run.batches, Run.log_epoch = timed, scored  # type: ignore[method-assign]
    sys.argv = ["train.py", "--fresh"]
    runpy.run_path("train.py", run_name="__main__")
    print("\n" + json.dumps({"epochs": epochs, "scores": scores}), flush=True)


def launch(program: Path, mode: str, slowdown: float) -> dict[str, Any]:
    """Train once; rows per second and the curve of accuracy by time, as the first rank saw them."""
    argv = [sys.executable, "-m", "tests.benchmarks.modes_async", "--rank"]
    with tempfile.TemporaryDirectory() as work:
        common = samples.BARE | {"PYTHONPATH": str(samples.PROJECT), "DLH_THREADS": "1", "DLH_WORK": work}
        common["DLH_MODE"] = mode
        ranks = [
            common | rank | ({"DLH_SLOWDOWN": str(slowdown)} if number else {})
            for number, rank in enumerate(rank_environments(2, "horovod"))
        ]
        told = figures_of(launched(argv, program, ranks, 600))
    ends = [max(rank["epochs"][number][1] for rank in told) for number in range(len(told[0]["epochs"]))]
    rates = [rows / (end - began) for (began, _, rows), end in zip(told[0]["epochs"], ends, strict=True)]
    first_s = told[0]["epochs"][0][0]
    curve = [(at_s - first_s, value) for at_s, value in told[0]["scores"]]
    return {"rows_per_s": statistics.median(rates[WARM_UP_EPOCHS:]), "accuracy": curve}


def main() -> None:
    """Train in turns, print the table and one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--draw", type=Path)
    parser.add_argument("--rank", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank:
        rank_main()
        return
    cases = [(mode, slowdown) for slowdown in (SLOWDOWN, 1.0) for mode in ("sync", "async")]
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder)
        model = {"family": "cnn", "params": {"conv_layers": 3, "filters": 32, "image_size": 16}}
        training = {"epochs": options.epochs, "batch_size": 64, "patience": 0, "augment": "none", "ema": 0}
        # by the rows even in sync: what is compared is waiting for each other, not how rows are shared out
        samples.program(
            program, samples.digits(program / "data"), model=model, training=training, resources={"split": "even"}
        )
        rounds = [{case: launch(program, *case) for case in cases} for _ in range(options.rounds)]
    rates = {case: statistics.median(found[case]["rows_per_s"] for found in rounds) for case in cases}
    for mode, slowdown in cases:
        final = statistics.median(found[mode, slowdown]["accuracy"][-1][1] for found in rounds)
        taken_s = statistics.median(found[mode, slowdown]["accuracy"][-1][0] for found in rounds)
        print(
            f"{mode:6} second rank {slowdown:g} x as slow: {rates[mode, slowdown]:8.0f} rows/s, "
            f"accuracy {final:.3f} after {taken_s:.1f} s",
            flush=True,
        )
    ratio = rates["async", SLOWDOWN] / rates["sync", SLOWDOWN]
    like = rates["async", 1.0] / rates["sync", 1.0]
    print(f"async against sync: {ratio:.2f} with the slow rank (bar {BAR}), {like:.2f} with like ranks")
    curves = {mode: rounds[0][mode, SLOWDOWN]["accuracy"] for mode in ("sync", "async")}
    if options.draw:
        named = [Curve(name, points) for name, points in curves.items()]
        draw(options.draw, named, x_name="seconds of training", y_name="accuracy on validation rows")
    body = {
        "ratio": ratio, "ratio_like_ranks": like, "accuracy_by_s": curves,
        "rows_per_s": {f"{mode} x{slowdown:g}": rate for (mode, slowdown), rate in rates.items()},
    }  # fmt: skip
    print(json.dumps({"benchmark": "modes_async", "met": ratio >= BAR, "cores": os.cpu_count(), **body}))


if __name__ == "__main__":
    main()
