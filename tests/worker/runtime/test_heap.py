"""Freed memory stays with the process: the same step asks the kernel for no page again."""

from __future__ import annotations

import json
from pathlib import Path

from tests.worker.runtime.samples import python

STEPS = """
import json, resource, sys
import torch
from worker.runtime.heap import keep_freed_memory

def step():
    blocks = [torch.ones(rows, 1024) for rows in (64, 4096, 12_000)]  # 0.25, 16 and 47 MiB
    return sum(float(block[0, 0]) for block in blocks)

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

if "keep" in sys.argv:
    keep_freed_memory()
for _ in range(10):
    step()
before = faults()
for _ in range(5):
    step()
print(json.dumps({"faults": faults() - before}))
"""


def faults(folder: Path, *arguments: str) -> int:
    script = folder / "steps.py"
    script.write_text(STEPS)
    done = python(folder, str(script), *arguments)
    assert done.returncode == 0, done.stderr
    return int(json.loads(done.stdout)["faults"])


def test_a_step_like_the_one_before_takes_no_new_pages(tmp_path: Path) -> None:
    pages = 5 * (47 << 20) // 4096
    assert faults(tmp_path) > pages * 0.9
    assert faults(tmp_path, "keep") < pages * 0.01
