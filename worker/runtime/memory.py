"""A model tried on two rows before training: output shape, time, and memory per row."""

from __future__ import annotations

import resource
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from worker.events import FailureCode
from worker.runtime.call_check import check_call, notes_on_outputs
from worker.runtime.data import Part
from worker.runtime.device import faulty_kernels_spared, settled_s
from worker.runtime.exhausted import is_out_of_memory
from worker.runtime.failures import ProgramFailure
from worker.runtime.heap import give_back_freed_memory
from worker.runtime.layer_modes import evaluated
from worker.words import counted

GRADIENT_FACTOR = 4.0
"""Peak of a step over the bytes that the forward pass keeps: their gradients, and what a layer makes and drops, live
beside them. Rather too much, since the batch that is told must fit: a model that is one wide elementwise layer took 3
on a processor and over 3.7 on an H100."""
SAFETY = 0.8
ADDRESS_SPACE_RESERVE = 256 << 20
"""Of a limit on address space, what threads of the backward pass reserve without using it."""
LEAST_ROWS = 2
ROWS_AT_ONCE = 256
"""Small batches are joined for evaluating: it is faster."""
STATE_COPIES = 4
"""Copies of the parameters that training adds: gradients, two moments of the optimizer, a running average."""
CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


@dataclass(frozen=True, kw_only=True)
class RowsTried:
    """What a try told."""

    output_shape: tuple[int, ...]
    kept_bytes_per_row: float
    """Bytes that the forward pass keeps for the backward pass, per row (parameters not counted)."""
    row_s: float
    """Time of the forward pass per row, at the size tried."""
    room_bytes: float
    """Left for the rows of a step: what was free before training, less gradients and optimizer state."""
    notes: tuple[str, ...] = ()
    """What a person should know of the outputs, in sentences."""


def rows_try(
    net: nn.Module,
    part: Part,
    outputs: int,
    device: torch.device,
    rows: int,
    limit_bytes: int | None = None,
    device_ranks: int = 1,
    tell: Callable[[RowsTried | None], None] = lambda found: None,
) -> RowsTried:
    """Try `net` on the first two rows, then on `rows` if memory allows.

    `limit_bytes` is what the platform lets this process take, `device_ranks` how many ranks drive its GPU. `tell` is
    called before the first try (with None) and after each: beyond the limit the kernel ends the process, which then
    can say no more.
    Nothing of `net`, not even batch statistics or random states, changes.
    Raises `ProgramFailure` (model_wrong_shape) if the output is not [rows, outputs], and where nothing can be trained.
    """
    _check_trainable(net)
    rows = max(LEAST_ROWS, min(rows, len(part)))
    give_back_freed_memory()
    # before the try: the allocator does not give everything back
    room_bytes = free_bytes(device, limit_bytes, device_ranks)
    tell(None)
    found = _try(net, part, outputs, device, LEAST_ROWS, room_bytes)
    tell(found)
    if rows == LEAST_ROWS or found.kept_bytes_per_row * rows > room_bytes:
        return found
    try:
        found = _try(net, part, outputs, device, rows, room_bytes)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
    tell(found)
    return found


def _check_trainable(net: object) -> None:
    if not isinstance(net, nn.Module):
        message = f"build(spec) in model.py returned {type(net).__name__}, not a torch.nn.Module."
        raise ProgramFailure(FailureCode.MODEL_NO_BUILD, message, "Return the model itself from build(spec).")
    if not any(weight.requires_grad for weight in net.parameters()):
        message = "The model has no parameter that can be trained."
        hint = "Keep layers as attributes or in nn.ModuleList: those in a plain list or dict are not found."
        raise ProgramFailure(FailureCode.PROGRAM_ERROR, message, hint)


def _try(net: nn.Module, part: Part, outputs: int, device: torch.device, rows: int, room_bytes: float) -> RowsTried:
    inputs = tuple(tensor[:rows].to(device) for tensor in part.inputs)
    check_call(net, inputs)
    parameters = {weight.data_ptr() for weight in net.parameters()}
    kept: dict[int, int] = {}

    def count(tensor: Tensor) -> Tensor:
        pointer = tensor.untyped_storage().data_ptr()
        if pointer not in parameters:
            kept[pointer] = tensor.untyped_storage().nbytes()
        return tensor

    with evaluated(net):
        with torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor), faulty_kernels_spared(device):
            output = net(*inputs)
        check_shape(output, rows, outputs)
        started = settled_s(device)
        with torch.no_grad():
            net(*inputs)
        row_s = (settled_s(device) - started) / rows
    state_bytes = STATE_COPIES * sum(weight.numel() * weight.element_size() for weight in net.parameters())
    return RowsTried(
        output_shape=tuple(output.shape),
        kept_bytes_per_row=sum(kept.values()) / rows,
        row_s=row_s,
        room_bytes=max(0.0, room_bytes - state_bytes),
        notes=notes_on_outputs(output),
    )


def check_shape(output: object, rows: int, outputs: int) -> None:
    """Raise `ProgramFailure` (model_wrong_shape) unless the output is [rows, outputs]."""
    shape = tuple(output.shape) if isinstance(output, Tensor) else None
    if shape == (rows, outputs):
        return
    got = f"a tensor of shape {list(shape)}" if shape is not None else type(output).__name__
    message = f"The model returned {got} for {rows} rows; [{rows}, {outputs}] is needed."
    hint = f"The last layer must have {counted(outputs, 'output')}, and forward must return one row per input row."
    if shape is None:
        hint = "Return one tensor from forward: of several values the one that the loss is computed from."
    raise ProgramFailure(FailureCode.MODEL_WRONG_SHAPE, message, hint)


def fitting_batch(batch_size: int, found: RowsTried, world_size: int = 1) -> int | None:
    """Largest power of two below `batch_size` (rows over all ranks) whose step fits; None if not even a row does."""
    room = found.room_bytes * SAFETY / (found.kept_bytes_per_row * GRADIENT_FACTOR or 1.0) * world_size
    fitting = 1
    while fitting * 2 <= room and fitting * 2 < batch_size:
        fitting *= 2
    return fitting if room >= 1 else None


def rows_at_once(batch_size: int, found: RowsTried | None) -> int:
    """Rows that one forward pass takes while evaluating: a rank's batch, or more where memory allows."""
    if found is None:
        return max(batch_size, ROWS_AT_ONCE)
    return max(1, batch_size, fitting_batch(2 * ROWS_AT_ONCE, found) or 1)


def free_bytes(device: torch.device, limit_bytes: int | None = None, device_ranks: int = 1) -> float:
    """Memory that this process may still take: on a GPU its share of what is free there, else the tightest of the
    limits. `device_ranks`: so many processes of the run drive that GPU, and all ask at about the same time."""
    if device.type == "cuda":
        unused, total = torch.cuda.mem_get_info(device)
        reserved = torch.cuda.memory_reserved(device)
        allowed = torch.cuda.get_per_process_memory_fraction(device) * total - reserved
        return max(0.0, min(unused / device_ranks, allowed) + reserved - torch.cuda.memory_allocated(device))
    status = status_fields(Path("/proc/self/status"))
    free = [status_fields(Path("/proc/meminfo")).get("MemAvailable", float("inf"))]
    if limit_bytes is not None:
        free.append(limit_bytes - status.get("RssAnon", 0.0) - status.get("RssShmem", 0.0))
    for limit, used in ((resource.RLIMIT_AS, "VmSize"), (resource.RLIMIT_DATA, "VmData")):
        soft, _ = resource.getrlimit(limit)
        if soft != resource.RLIM_INFINITY:
            free.append(soft - status.get(used, 0.0) - ADDRESS_SPACE_RESERVE)
    for path in map(Path, CGROUP_LIMITS):
        text = path.read_text().strip() if path.exists() else "max"
        if text.isdigit():
            free.append(int(text) - status.get("VmRSS", 0.0))
    return max(0.0, min(free))


def status_fields(path: Path) -> dict[str, float]:
    """`Name: 123 kB` lines of a /proc file, in bytes; empty where there is no such file."""
    if not path.exists():
        return {}
    rows = (line.split() for line in path.read_text().splitlines())
    return {row[0].rstrip(":"): float(row[1]) * 1024 for row in rows if len(row) == 3 and row[2] == "kB"}


def idle_bytes() -> int:
    """Resident memory of this process now: call it before data and model are there."""
    return int(status_fields(Path("/proc/self/status")).get("VmRSS", 0.0))


def peak_bytes(device: torch.device, idle: int) -> int:
    """Most memory that the process has held, above the idle process; on a GPU most that its tensors took."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    return max(0, int(status_fields(Path("/proc/self/status")).get("VmHWM", 0.0)) - idle)
