"""The ways to train, measured: every section against its rivals in the same run.

    python -m tests.benchmarks.bench_modes [--only sync,async,uneven,pipeline,rates] [-- OPTIONS OF THE SECTION]

A section is the module `tests.benchmarks.modes_NAME`, which runs by itself too and ends with one JSON line; this
gathers the lines. What follows `--` goes to the section, if only one is named.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from tests.benchmarks.gather import gathered

FOLDER = Path(__file__).parent
SECTIONS = tuple(sorted(path.stem.removeprefix("modes_") for path in FOLDER.glob("modes_*.py")))


def main() -> None:
    """Run the sections one after another and print one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(SECTIONS), help="sections, separated by commas")
    options, more = parser.parse_known_args()
    wanted = [name for name in options.only.split(",") if name]
    unknown = set(wanted) - set(SECTIONS)
    if unknown:
        parser.error(f"no section {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}")
    if more and len(wanted) != 1:
        parser.error(f"{' '.join(more)}: options go to one section; name it with --only")
    found = {}
    for name in wanted:
        print(f"== {name}", flush=True)
        found[name] = gathered(f"modes_{name}", [word for word in more if word != "--"])
    print(json.dumps({"benchmark": "modes", "sections": found}))


if __name__ == "__main__":
    main()
