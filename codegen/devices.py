"""Which kind of device, how many and how much memory: wishes checked against the pool, gaps filled."""

from __future__ import annotations

import math

from codegen.modes import ONE_PROCESS, SEVERAL
from codegen.notes import Notes
from codegen.reading import Reading
from codegen.spec import Resources, Task, TaskSpec
from codegen.types import Hardware
from worker.words import counted, size_words

MANY_ROWS = 100_000
"""A table of this many rows is worth a GPU."""
MOST_CORES = 4
"""Cores taken unasked."""
LEAST_MEMORY_GIB = 0.5
"""torch and the program, before any data."""


def pick_device(
    spec: TaskSpec, reading: Reading, hardware: Hardware, notes: Notes, *, is_own: bool = False
) -> tuple[str, int, int]:
    """(device, devices at most, bytes of memory). A GPU for pictures and large tables, where there is one."""
    wish = spec.resources
    if wish.device_model != "auto":
        hardware = _of_model(wish, hardware, notes)
    worth = reading.task is Task.IMAGE_CLASSIFICATION or reading.rows >= MANY_ROWS
    device: str = wish.device
    if device == "auto" and wish.device_model != "auto":
        device = "cuda" if hardware.gpus else "cpu"
        notes.note("resources.device", device, "it goes with the model of device that you named")
    elif device == "auto":
        device, reason = "cpu", "there is no GPU in the pool"
        if hardware.gpus:
            device = "cuda" if worth else "cpu"
            reason = _device_reason(worth=worth, is_own=is_own)
        notes.note("resources.device", device, reason)
    there = hardware.gpus if device == "cuda" else hardware.cpu_cores
    if device == "cuda" and not hardware.gpus:
        notes.problem("resources.device", "there is no GPU in the pool; choose cpu or auto")
    alone = device == "cuda" and spec.mode not in SEVERAL
    count = 1 if alone else max(1, min(there, MOST_CORES))
    if wish.count != "auto":
        count = wish.count
    wide = hardware.most_gpus if device == "cuda" else hardware.most_cpu_cores
    widest = there if spec.mode in ONE_PROCESS else max(there, wide)
    if there and count > widest:
        notes.problem("resources.count", _too_many(device, count, widest, hardware, spec))
    memory = hardware.gpu_memory_bytes if device == "cuda" else hardware.cpu_memory_bytes
    if wish.memory_gib != "auto":
        if wish.memory_gib < LEAST_MEMORY_GIB:
            notes.problem("resources.memory_gib", f"a run takes {LEAST_MEMORY_GIB} GiB for itself; ask for more")
        nodes = max(1, math.ceil(count / there)) if there else 1
        if wish.memory_gib * 2**30 > nodes * hardware.cpu_memory_bytes > 0:
            most = size_words(hardware.cpu_memory_bytes)
            words = f"the largest node has {most}" if nodes == 1 else f"{nodes} nodes have {most} each at most"
            notes.problem("resources.memory_gib", f"{words}; ask for less")
        memory = int(min(memory, wish.memory_gib * 2**30)) if device == "cpu" else memory
    return device, count, memory


def _of_model(wish: Resources, hardware: Hardware, notes: Notes) -> Hardware:
    """The pool as if it had the named model of device alone. Notes a name that it does not have, or of another kind."""
    name = wish.device_model
    found = hardware.models.get(name)
    if found is None:
        known = ", ".join(map(repr, sorted(hardware.models)))  # some have a comma
        there = f"it has {known}" if known else "none of its devices has a name"
        notes.problem("resources.device_model", f"the pool has no {name!r} that takes work; {there}; auto takes any")
        return hardware
    kind = "cuda" if found.gpus else "cpu"
    if wish.device not in ("auto", kind):
        notes.problem("resources.device_model", f"{name} is not of kind {wish.device}; set resources.device to auto")
        return hardware
    return found


def _device_reason(*, worth: bool, is_own: bool) -> str:
    """By the data alone, which is all that is known of an own model."""
    if is_own:
        usual = "usual for a table of this size; choose cuda if your own model is large"
        return "usual for pictures and for large tables" if worth else usual
    return "a GPU pays off here" if worth else "a table of this size trains as fast on a core"


def _too_many(device: str, count: int, widest: int, hardware: Hardware, spec: TaskSpec) -> str:
    """That nobody can have `count` devices, why, and what helps. `widest`: as many as one job can have."""
    word, there, everywhere = "CPU core", hardware.cpu_cores, hardware.all_cpu_cores
    if device == "cuda":
        word, there, everywhere = "GPU", hardware.gpus, hardware.all_gpus
    model = f" ({spec.resources.device_model})" if spec.resources.device_model != "auto" else ""
    if widest > there:
        return f"all nodes that take work together have {counted(widest, word)}{model}; ask for at most {widest}"
    told = f"the largest node has {counted(widest, word)}{model}"
    if not hardware.apart or spec.mode in ONE_PROCESS:
        return f"{told}; ask for at most {widest}"
    if 0 < everywhere < count:  # what keeps nodes apart is not what is in the way
        told = f"all nodes that take work together have {counted(everywhere, word)}{model}, the largest {widest}"
        return f"{told}; ask for at most {widest}"
    return (
        f"{told}, and no job can use several now. {hardware.apart} Ask for at most {widest}, or have an admin mend that"
    )
