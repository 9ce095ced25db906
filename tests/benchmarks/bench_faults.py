"""Every fault of docs/faults.md, done to a real stack: outcome, time to detect, work lost, time to restart.

    make bench-faults [ARGS="--only ranks,nodes"]

A section is a module `tests.benchmarks.faults_NAME` with `FAULTS`, a tuple of functions `Lab -> Row`. The table is
Markdown; the last line is JSON with every row and the named figures, among them `siblings_stop_s`, `restart_s` and
`checkpoint_cost_share`. A fault whose outcome is not the promised one, or that broke the bench, makes `met` false.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.benchmarks.fault_lab import Fault, Lab, Row

SECTIONS = tuple(sorted(path.stem.removeprefix("faults_") for path in Path(__file__).parent.glob("faults_*.py")))
HEAD = ["fault", "outcome", "detected, s", "steps lost", "first new step, s"]
BARS = {"siblings_stop_s": 2.0, "restart_s": 15.0, "checkpoint_cost_share": 0.03}
"""At most so much."""


def faults_of(section: str) -> tuple[Fault, ...]:
    """The fault functions of one section."""
    found: tuple[Fault, ...] = importlib.import_module(f"tests.benchmarks.faults_{section}").FAULTS
    return found


def tried(fault: Fault, lab: Lab) -> Row:
    """The row of one fault; one that broke the bench is a row as well."""
    try:
        return fault(lab)
    except Exception as error:
        told = str(error).splitlines()[0][:200] if str(error) else ""
        row = Row(fault=fault.__name__.replace("_", " "), outcome=f"{type(error).__name__}: {told}", good=False)
    lab.renew()  # its job may hold the cores, and a stack be hurt, that the faults after it need
    return row


def figures_of(rows: list[Row]) -> dict[str, float]:
    """The worst of each named figure."""
    names = {name for row in rows for name in row.figures}
    return {name: round(max(row.figures[name] for row in rows if name in row.figures), 4) for name in sorted(names)}


def main() -> None:
    """Hurt, print each row as it comes, then one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(SECTIONS), help="sections, separated by commas")
    wanted = [name for name in parser.parse_args().only.split(",") if name]
    if unknown := set(wanted) - set(SECTIONS):
        parser.error(f"no section {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}")
    rows: list[Row] = []
    print(f"| {' | '.join(HEAD)} |\n|{'---|' * len(HEAD)}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab(Path(folder))
        try:
            for fault in (fault for section in wanted for fault in faults_of(section)):
                rows.append(tried(fault, lab))
                print(f"| {' | '.join(rows[-1].cells())} |", flush=True)
        finally:
            lab.renew()
    figures = figures_of(rows)
    met = (
        bool(rows)
        and all(row.good for row in rows)
        and all(figures.get(name, 0.0) <= bar for name, bar in BARS.items())
    )
    print(json.dumps({"benchmark": "faults", "met": met, **figures, "rows": [asdict(row) for row in rows]}))


if __name__ == "__main__":
    main()
