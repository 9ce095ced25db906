"""Freed memory stays with the process, so that the same step asks the kernel for no page again; or is given back."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.worker.runtime.samples import python
from worker.runtime import heap

HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")
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
THREADS = """
import json, resource, threading
from worker.runtime.heap import keep_freed_memory
from worker.runtime.memory import status_fields
from pathlib import Path

def data_bytes():
    return status_fields(Path("/proc/self/status"))["VmData"]

resource.setrlimit(resource.RLIMIT_DATA, (8 << 30, resource.RLIM_INFINITY))
keep_freed_memory()
threading.stack_size(256 << 10)
together, before = threading.Barrier(5), data_bytes()

def work():
    block = bytearray(200_000)
    together.wait()
    together.wait()

threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
together.wait()
print(json.dumps({"more_bytes": data_bytes() - before}))
together.wait()
"""


def told(folder: Path, text: str, *arguments: str) -> dict[str, float]:
    script = folder / "steps.py"
    script.write_text(text)
    done = python(folder, str(script), *arguments)
    assert done.returncode == 0, done.stderr
    answer: dict[str, float] = json.loads(done.stdout)
    return answer


def test_a_step_like_the_one_before_takes_no_new_pages(tmp_path: Path) -> None:
    pages = 5 * (47 << 20) // 4096
    before, now = told(tmp_path, STEPS), told(tmp_path, STEPS, "keep")
    if "[always]" not in HUGE_PAGES.read_text():  # else one fault stands for 512 pages
        assert before["faults"] > pages * 0.9
    assert now["faults"] < pages * 0.01


def test_freed_memory_is_given_back_on_request(tmp_path: Path) -> None:
    assert told(tmp_path, STEPS, "keep")["given_back"] > 60 << 20


def test_threads_take_no_more_of_a_limit_than_they_use(tmp_path: Path) -> None:
    assert told(tmp_path, THREADS)["more_bytes"] < heap.KEPT_OF_A_THREAD_BYTES


@pytest.mark.parametrize(("most", "largest"), [(1 << 31, 1 << 30), (32 << 20, 32 << 20), (512 << 10, None)])
def test_a_library_that_refuses_large_blocks_keeps_those_that_it_takes_or_all_its_own_ways(
    most: int, largest: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen: dict[int, int] = {}

    def mallopt(name: int, value: int) -> int:
        if name == heap.MMAP_THRESHOLD and value > most:
            return 0
        chosen[name] = value
        return 1

    library = SimpleNamespace(gnu_get_libc_version=None, mallopt=mallopt)
    monkeypatch.setattr(heap, "ctypes", SimpleNamespace(CDLL=lambda _name: library))
    unlimited = SimpleNamespace(RLIMIT_DATA=0, RLIM_INFINITY=-1, getrlimit=lambda _name: (-1, -1))
    monkeypatch.setattr(heap, "resource", unlimited)
    heap.keep_freed_memory()
    assert chosen.get(heap.MMAP_THRESHOLD) == largest
    assert (heap.TRIM_THRESHOLD in chosen) == (heap.TOP_PAD in chosen) == (largest is not None)
