"""The ways to train, measured: every section against its rivals in the same run.

    python -m tests.benchmarks.bench_modes [--only sync,async,uneven,pipeline,rates] [-- OPTIONS OF THE SECTION]

A section is the module `tests.benchmarks.modes_NAME`, which runs by itself too and ends with one JSON line; this
gathers the lines. What follows `--` goes to the section, if only one is named.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
SECTIONS = tuple(sorted(path.stem.removeprefix("modes_") for path in FOLDER.glob("modes_*.py")))


def run(section: str, more: list[str]) -> dict[str, Any]:
    """Run a section; what it prints is passed on, its last line is returned."""
    argv = [sys.executable, "-m", f"tests.benchmarks.modes_{section}", *more]
    last = ""
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, cwd=FOLDER.parents[1]) as process:
        for line in process.stdout or ():
            print(line, end="", flush=True)
            last = line if line.strip() else last
    if process.returncode:
        return {"error": f"ended with code {process.returncode}"}
    body: dict[str, Any] = json.loads(last)
    return body


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
        found[name] = run(name, [word for word in more if word != "--"])
    print(json.dumps({"benchmark": "modes", "sections": found}))


if __name__ == "__main__":
    main()
