"""What reading a program in the sandbox spends its time on: processes of which each does one thing more."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from worker.programs import ProgramCall, program_run

END = "; import os; os._exit(0)"
"""As the reading ends: without taking apart what was loaded."""
STEPS: dict[str, tuple[str, ...]] = {
    "sandbox": (sys.executable, "-I", "-S", "-c", f"pass{END}"),
    "interpreter": (sys.executable, "-c", f"pass{END}"),
    "torch": (sys.executable, "-c", f"import gc; gc.disable(); import torch{END}"),
    "ours, pyarrow, fake tensors": (
        sys.executable, "-c", f"import gc; gc.disable(); import worker.runtime.inspection.trace; gc.freeze(){END}",
    ),
}  # fmt: skip
"""Each process by what it does beyond the one before it."""
ALL = "the program: imports, data, three steps"
"""What a reading does beyond the last of these."""


def steps_s() -> dict[str, float]:
    """Seconds of each of these processes, in the sandbox, once."""
    taken = {}
    for number, (name, argv) in enumerate(STEPS.items()):
        began_s = time.perf_counter()
        done = program_run(ProgramCall(name=f"step-{number}", argv=argv, workdir=Path("/"), timeout_s=60.0))
        taken[name] = time.perf_counter() - began_s
        if done.returncode != 0:
            raise RuntimeError(f"{name}: {done.stderr[-300:]}")
    return taken


def parts_s(steps: dict[str, float], reading_s: float) -> dict[str, float]:
    """Seconds of each part of a reading that took `reading_s` in all."""
    names, ends = [*steps, ALL], [*steps.values(), reading_s]
    return {name: end - start for name, end, start in zip(names, ends, [0.0, *ends], strict=False)}
