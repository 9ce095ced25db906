"""The ways to train, measured: every section against its rivals in the same run.

    python -m tests.benchmarks.bench_modes [--only sync,async,uneven,pipeline,rates,ranks] [--keep]
        [-- OPTIONS OF THE SECTION]

A section is the module `tests.benchmarks.modes_NAME`, which runs by itself too and ends with one JSON line; this
gathers the lines. What follows `--` goes to the section, if only one is named. `--keep` writes the measured pictures
of docs/modes.md and of the page *Modes* anew.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from tests.benchmarks.gather import gathered
from tests.benchmarks.mode_pictures import keep

FOLDER = Path(__file__).parent
SECTIONS = tuple(sorted(path.stem.removeprefix("modes_") for path in FOLDER.glob("modes_*.py")))


def main() -> None:
    """Run the sections one after another and print one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(SECTIONS), help="sections, separated by commas")
    parser.add_argument("--keep", action="store_true", help="write the pictures of docs/ and of the page anew")
    options, more = parser.parse_known_args()
    wanted = [name for name in options.only.split(",") if name]
    unknown = set(wanted) - set(SECTIONS)
    if unknown:
        parser.error(f"no section {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}")
    if more and len(wanted) != 1:
        parser.error(f"{' '.join(more)}: options go to one section; name it with --only")
    found, load = {}, os.getloadavg()[0]
    for name in wanted:
        print(f"== {name}", flush=True)
        found[name] = gathered(f"modes_{name}", [word for word in more if word != "--"])
    if options.keep:
        keep(found, load)
    print(json.dumps({"benchmark": "modes", "sections": found}))


if __name__ == "__main__":
    main()
