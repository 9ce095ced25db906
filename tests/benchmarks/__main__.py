"""Every benchmark, or those named, one after another; those of the main job and the quick ones come first.

    make bench [ARGS="start loop ranks --data DIR --traces DIR"]

Each is the module `tests.benchmarks.bench_NAME`, a process of its own that prints its figures beside its rivals. One
that breaks does not stop the others. The public data that some need are taken from `--data` and `--traces`, else from
DLH_BENCH_DATA and DLH_TRACES, else from `../shared`; what is not there is left out, with a message. Wants a quiet
machine. The last line is one JSON object: the figures of each by name, and which broke.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.benchmarks.gather import data_folder, gathered, traces_folder

USUAL_S = {
    "start": 60,
    "cancel": 45,
    "loop": 240,
    "ranks": 300,
    "demo": 400,
    "profile": 120,
    "quality": 1500,
    "preload": 120,
    "tunnel": 60,
    "offer": 180,
    "gpu": 60,
    "zeus": 30,
    "schedule": 1500,
    "faults": 1200,
    "scale": 900,
    "choice": 800,
    "modes": 5400,
    "estimate": 3000,
}
"""All of them in the order in which they run, with about how long each takes on two cores."""


def remaining_s(left: Sequence[str], done: Sequence[str], took_s: float) -> float:
    """Seconds that the benchmarks in `left` will take, if this machine is as quick as it was in those `done`."""
    usual_done_s = sum(USUAL_S[name] for name in done)
    pace = took_s / usual_done_s if usual_done_s else 1.0
    return pace * sum(USUAL_S[name] for name in left)


def chosen(named: Sequence[str]) -> tuple[str, ...]:
    """The benchmarks to run, in their order.

    Raises:
        ValueError: there is none of that name.
    """
    unknown = sorted(set(named) - set(USUAL_S))
    if unknown:
        raise ValueError(f"no benchmark {', '.join(unknown)}; there are {', '.join(USUAL_S)}")
    return tuple(name for name in USUAL_S if name in named or not named)


def run_all(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Figures of each by its name."""
    began_s, found = time.monotonic(), {}
    for number, name in enumerate(names):
        took_s = time.monotonic() - began_s
        left_min = remaining_s(names[number:], names[:number], took_s) / 60
        print(f"== {name} ({number + 1} of {len(names)}, about {left_min:.0f} min left)", flush=True)
        found[name] = gathered(f"bench_{name}", [])
    return found


def is_broken(figures: Mapping[str, Any]) -> bool:
    """Whether a benchmark, or a section of it, ended without its figures."""
    return "error" in figures or any("error" in part for part in figures.get("sections", {}).values())


def main() -> int:
    """0 if each ended with its figures, whether or not they meet their bars."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(USUAL_S)}; none: all")
    parser.add_argument("--data", type=Path, help="folder with the files of bench_quality")
    parser.add_argument("--traces", type=Path, help="folder with traces of clusters and tables of step times")
    given = parser.parse_args()
    try:
        names = chosen(given.names)
    except ValueError as error:
        parser.error(str(error))
    folders = {"DLH_BENCH_DATA": data_folder(given.data), "DLH_TRACES": traces_folder(given.traces)}
    os.environ.update({name: str(folder.resolve()) for name, folder in folders.items() if folder})
    found = run_all(names)
    broken = [name for name, figures in found.items() if is_broken(figures)]
    print(json.dumps({"benchmark": "all", "broken": broken, "figures": found}))
    return 1 if broken else 0


if __name__ == "__main__":
    raise SystemExit(main())
