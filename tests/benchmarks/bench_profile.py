"""Memory and time to profile and pack a large CSV, beside polars that loads it and tells the same of each column.

    make bench-profile [ARGS="--mb 1000"]

The file is made of random rows: numbers, categories, a date, words and a target. Both read it in a process of its own;
memory is the largest resident set of that process less that of the same process on a file of a few rows, which is what
the imports take. The platform runs the same command in its sandbox. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

MB = 1_000_000
BAR_MB = 1000
"""Above the imports, of a file of 1 GB."""
BLOCK_ROWS = 100_000
SMALL_BYTES = 20_000
WORDS = ("amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heath")


def block_make(seed: int, rows: int) -> str:
    """Lines of CSV without a head; values and lengths as random as those of a real table."""
    import numpy as np
    import polars as pl

    random = np.random.default_rng(seed)
    words = np.array(WORDS)
    days = np.datetime64("2020-01-01") + random.integers(0, 2000, rows)
    frame = pl.DataFrame(
        {
            **{f"number_{index}": random.normal(size=rows).round(6) for index in range(6)},
            "count": random.integers(0, 100_000, rows),
            "kind": words[random.integers(0, len(words), rows)],
            "day": days,
            "words": [" ".join(words[row]) for row in random.integers(0, len(words), (rows, 4))],
            "target": words[random.integers(0, 3, rows)],
        }
    )
    return frame.write_csv(include_header=not seed)


def file_make(path: Path, size: int) -> int:
    """Write about `size` bytes; returns the rows."""
    rows, seed = BLOCK_ROWS if size > SMALL_BYTES else 100, 0
    with path.open("w") as file:
        while file.tell() < size:
            file.write(block_make(seed, rows))
            seed += 1
    return rows * seed


def polars_read(path: Path) -> None:
    """The rival: the whole table in memory, and of each column what a profile tells."""
    import polars as pl

    frame = pl.read_csv(path, try_parse_dates=True)
    frame.describe()
    frame.select(pl.all().n_unique())
    frame["target"].value_counts()
    frame.is_duplicated().sum()


def measured(argv: Sequence[str]) -> tuple[float, float]:
    """(seconds, largest resident set in MB) of a process; this one stays small, since a child begins with its size."""
    began_s = time.perf_counter()
    process = subprocess.Popen([sys.executable, *argv], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(argv)} ended with {process.returncode}")
    return time.perf_counter() - began_s, usage.ru_maxrss * 1024 / MB


def side(name: str, large: Path, small: Path, folder: Path) -> dict[str, float]:
    """Figures of ours or of the rival; its packed form is written to `folder`."""
    before_mb = measured(_argv(name, small, folder / "small"))[1]
    took_s, peak_mb = measured(_argv(name, large, folder / "large"))
    return {"time_s": round(took_s, 1), "above_imports_mb": round(peak_mb - before_mb), "peak_mb": round(peak_mb)}


def _argv(name: str, source: Path, out: Path) -> list[str]:
    if name == "polars":
        return ["-m", "tests.benchmarks.bench_profile", "--read", str(source)]
    out.mkdir(parents=True)
    return ["-m", "codegen.profile", str(source), str(out), "--options", json.dumps({"target": "target"})]


def compared(size: int) -> dict[str, object]:
    """Both, one after the other, on the same file."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        large, small = folder / "large.csv", folder / "small.csv"
        for path, wanted in ((large, size), (small, SMALL_BYTES)):
            measured(["-m", "tests.benchmarks.bench_profile", "--make", str(path), "--bytes", str(wanted)])
        figures: dict[str, object] = {"benchmark": "profile", "file_mb": round(large.stat().st_size / MB)}
        for who in ("ours", "polars"):
            figures[who] = told = side(who, large, small, folder / who)
            print(f"{who:7} {told['time_s']:7.1f} s {told['above_imports_mb']:7.0f} MB above the imports", flush=True)
    ours = figures["ours"]
    assert isinstance(ours, dict)
    figures["met"] = ours["above_imports_mb"] < BAR_MB
    return figures


def main() -> None:
    """Measure; or, as one of the processes that are measured, make or read a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb", type=int, default=1000, help="size of the file")
    parser.add_argument("--make", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--bytes", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--read", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.make:
        file_make(given.make, given.bytes)
    elif given.read:
        polars_read(given.read)
    else:
        print(json.dumps(compared(given.mb * MB)))


if __name__ == "__main__":
    main()
