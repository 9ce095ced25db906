"""Both starts of the demo in a fresh clone of the last commit: the very first, with a build of Horovod, and the next.

    make bench-demo

The caches of our own are empty, those of pip and npm are as this machine has them: fill them by a first set-up. What is
not committed is not measured. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.benchmarks.gather import PROJECT

FIRST_BAR_S, SECOND_BAR_S = 480.0, 60.0


def environment_of(caches: Path) -> dict[str, str]:
    """This environment without our settings and without what `make` adds, our caches empty, pip's kept."""
    pip = subprocess.run([sys.executable, "-m", "pip", "cache", "dir"], capture_output=True, text=True, check=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("DLH_", "MAKE", "MFLAGS"))}
    return {**kept, "XDG_CACHE_HOME": str(caches), "PIP_CACHE_DIR": pip.stdout.strip()}


def demo_s(clone: Path, environment: dict[str, str]) -> float:
    """Seconds of `make demo ONCE=1`, which must end well."""
    began_s = time.perf_counter()
    subprocess.run(["make", "demo", "ONCE=1"], cwd=clone, env=environment, stdout=sys.stderr, check=True)
    return time.perf_counter() - began_s


def main() -> int:
    """0 if both were quick enough."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-demo-") as folder:
        clone = Path(folder) / "clone"
        subprocess.run(["git", "clone", "--quiet", str(PROJECT), str(clone)], check=True)
        environment = environment_of(Path(folder) / "caches")
        first_s, second_s = (demo_s(clone, environment) for _ in range(2))
    met = first_s <= FIRST_BAR_S and second_s <= SECOND_BAR_S
    print(f"fresh clone {first_s:.0f} s (bar {FIRST_BAR_S:.0f}), again {second_s:.0f} s (bar {SECOND_BAR_S:.0f})")
    print(json.dumps({"benchmark": "demo", "first_s": round(first_s, 1), "second_s": round(second_s, 1), "met": met}))
    return 0 if met else 1


if __name__ == "__main__":
    raise SystemExit(main())
