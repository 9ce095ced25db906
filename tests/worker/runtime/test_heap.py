"""Freed memory stays with the process, so that the same step asks the kernel for no page again; or is given back."""

from __future__ import annotations

import json
from pathlib import Path

from tests.worker.runtime.samples import python

STEPS = """
import json, resource, sys
import torch
from worker.runtime.heap import give_back_freed_memory, keep_freed_memory
from worker.runtime.memory import idle_bytes

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
after = faults()
held = idle_bytes()
give_back_freed_memory()
print(json.dumps({"faults": after - before, "given_back": held - idle_bytes()}))
"""


def told(folder: Path, *arguments: str) -> dict[str, int]:
    script = folder / "steps.py"
    script.write_text(STEPS)
    done = python(folder, str(script), *arguments)
    assert done.returncode == 0, done.stderr
    found: dict[str, int] = json.loads(done.stdout)
    return found


def test_a_step_like_the_one_before_takes_no_new_pages(tmp_path: Path) -> None:
    pages = 5 * (47 << 20) // 4096
    assert told(tmp_path)["faults"] > pages * 0.9
    assert told(tmp_path, "keep")["faults"] < pages * 0.01


def test_freed_memory_is_given_back_on_request(tmp_path: Path) -> None:
    assert told(tmp_path, "keep")["given_back"] > 60 << 20
