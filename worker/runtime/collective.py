"""What ranks do together: sum, broadcast, gather. By Horovod, or by its twin torch.distributed.

The one module that imports Horovod, and only where there is more than one rank.
"""

from __future__ import annotations

import copy
import math
import os
import socket
import struct
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, Protocol

import torch
from torch import Tensor

from worker.runtime.arrival import Waiting, all_arrived
from worker.runtime.by_host import CPU, Pending, SumByHost, device_name, is_direct
from worker.runtime.exhausted import is_out_of_memory
from worker.runtime.horovod_cycle import WAKING, horovod_settings

POLL_S = 0.0002
PATIENCE = timedelta(hours=2)
"""How long a rank by torch.distributed waits for the others: one may read its data, or work at its step, for long. Who
waits in vain is ended by who started it. The watchdog of the node whose rank stands still names that one; a rank that
gave up before would make it a lost one, and have the run start again."""
LOOK_S = 0.05
PIECE_BYTES = 64 << 20
"""Of a broadcast, sent at once: a GPU that holds a stage need not have room for all, and Horovod counts to 2^31. Of
what torch.distributed gathers, from all ranks together."""
CONNECT_S = 5.0


class PeerLost(RuntimeError):
    """Another rank went away; the cause is there, not here."""


class Group(Protocol):
    """All ranks of a run. Every rank makes the same calls in the same order. Raises `PeerLost`."""

    @property
    def by_host(self) -> bool:
        """Whether sums pass the memory of the hosts, on all ranks alike: then reading one makes no GPU wait."""

    def sum_start(self, tensor: Tensor, name: str) -> Pending:
        """Begin to add up over ranks, in place; one sum of a name at a time."""

    def broadcast_(self, tensor: Tensor) -> None:
        """Copy from rank 0, in place; its elements lie one after another."""

    def gather(self, tensor: Tensor) -> Tensor:
        """Tensors of all ranks one after another; their first dimension may differ."""

    def close(self) -> None:
        """Leave."""


def join(backend: str, step_s: float, device: torch.device) -> Group:
    """Meet the other ranks; `step_s` is the expected time of a step, from which Horovod's cycle time follows."""
    if backend == "torch":
        return TorchGroup(device)
    with _peers():
        all_arrived()
    return HorovodGroup(step_s, device)


@contextmanager
def _peers() -> Iterator[None]:
    """Name the failure of a collective call for what it is."""
    try:
        yield
    except (RuntimeError, ValueError, OSError) as error:  # hvd.init(): of a rank that never came a ValueError
        if is_out_of_memory(error) or isinstance(error, torch.AcceleratorError):
            raise  # of this rank's own device, which may tell it at any later call
        raise PeerLost((str(error) or type(error).__name__).splitlines()[0]) from error


class _Waiting:
    """A `Pending` made of a function that waits."""

    def __init__(self, wait: Callable[[], object]) -> None:
        self._wait = wait

    def wait(self) -> None:
        """Until the tensor holds the sum."""
        with _peers():
            self._wait()


class HorovodGroup:
    """Ranks joined by Horovod: by NCCL where it is built in and each rank has a GPU of its own, else by Gloo."""

    by_nccl = True
    """Whether it may be."""

    def __init__(self, step_s: float, device: torch.device) -> None:
        import horovod.torch as hvd
        from horovod import __version__ as version

        for name, value in horovod_settings(version, step_s).items():
            os.environ.setdefault(name, value)
        if device.type == "cuda":
            torch.cuda.set_device(device)
        with _peers():
            hvd.init()
        self._hvd = hvd
        self._sleeps = version.endswith(WAKING)
        self.by_host = not (self.by_nccl and is_direct(self._devices(device)))

    def _devices(self, device: torch.device) -> list[str]:
        """What every rank drives, as far as its Horovod can sum on it."""
        own = device_name(device) if self._hvd.nccl_built() else CPU
        return [name.decode() for name in gather_bytes(self, own.encode())]

    def sum_start(self, tensor: Tensor, name: str) -> Pending:
        """Begin to add up over ranks, in place."""
        if tensor.is_cuda and self.by_host:
            return SumByHost(tensor, lambda copied: self.sum_start(copied, name))
        if tensor.dtype == torch.bfloat16:
            return self._gather_sum_start(tensor, name)
        with _peers():
            handle = self._hvd.allreduce_async_(tensor, op=self._hvd.Sum, name=f"sum.{name}.{tensor.numel()}")
        return _Waiting(lambda: self._await(handle))

    def _gather_sum_start(self, tensor: Tensor, name: str) -> Pending:
        """Horovod knows no bfloat16: its bytes are sent to everybody, and added up here."""
        with _peers():
            handle = self._hvd.allgather_async(tensor.view(torch.uint8)[None], name=f"sum.{name}.{tensor.numel()}")

        def add_up() -> None:
            parts: Tensor = self._await(handle)
            tensor.copy_(parts.view(torch.bfloat16).float().sum(0))

        return _Waiting(add_up)

    def broadcast_(self, tensor: Tensor) -> None:
        """Copy from rank 0, in place; by Gloo, since what one rank has on its GPU another may have in memory."""
        copied = tensor.cpu()
        with _peers():
            for piece in torch.split(_bytes_of(copied), PIECE_BYTES):
                self._await(self._hvd.broadcast_async_(piece, root_rank=0, name=f"broadcast.{piece.numel()}"))
        if copied is not tensor:
            tensor.copy_(copied)

    def gather(self, tensor: Tensor) -> Tensor:
        """Tensors of all ranks one after another; by Gloo."""
        with _peers():
            gathered: Tensor = self._await(self._hvd.allgather_async(tensor.cpu(), name="gather"))
        return gathered.to(tensor.device)

    def _await(self, handle: int) -> Any:
        """Sleep until the operation is done: the wait of a Horovod that does not wake spins, on a core that a slower
        rank may need."""
        while not self._sleeps and not self._hvd.poll(handle):
            time.sleep(POLL_S)
        return self._hvd.synchronize(handle)

    def close(self) -> None:
        """Leave; the others must leave as well."""
        self._hvd.shutdown()


class TorchGroup:
    """Ranks joined by torch.distributed: by NCCL where each has a GPU of its own, else by Gloo.

    MASTER_ADDR and MASTER_PORT say where they meet.
    """

    def __init__(self, device: torch.device) -> None:
        import torch.distributed as dist

        if device.type == "cuda":
            torch.cuda.set_device(device)
        rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        with _peers():
            waiting = Waiting(one_node=os.environ.get("LOCAL_WORLD_SIZE") == str(size))
            store = self._store(rank, size, waiting)
            devices = self._arrive(store, rank, size, waiting, device_name(device))
            self.by_host, self.on_gpus = not is_direct(devices), set(devices) != {CPU}
            kind = "gloo" if self.by_host else "nccl"
            dist.init_process_group(kind, store=store, rank=rank, world_size=size, timeout=PATIENCE)
        self._dist = dist
        self._device = torch.device(CPU) if self.by_host else device
        self.members: Any = None
        """The ranks that a sum is over; None: all."""
        self._first = 0

    @staticmethod
    def _store(rank: int, size: int, waiting: Waiting) -> Any:
        """Where ranks meet. It is the first one's, and opens when that has read its data, unless torchrun has one.

        torch's own rendezvous is silent while it waits, and complains in the log. What torchrun has outlives its
        attempts: who came to an earlier one is not here.
        """
        from torch.distributed import PrefixStore, TCPStore  # type: ignore[attr-defined]

        address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        is_torchruns = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
        is_here = rank == 0 and not is_torchruns
        if not is_here:
            _await_listener(address, waiting)
        store = TCPStore(*address, size, is_master=is_here, timeout=PATIENCE, wait_for_workers=False, multi_tenant=True)
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        return PrefixStore(f"attempt-{attempt}", store) if is_torchruns else store

    @staticmethod
    def _arrive(store: Any, rank: int, size: int, waiting: Waiting, device: str) -> list[str]:
        """Wait until every rank has come here; what each of them drives."""
        store.set(f"arrived/{rank}", device)
        names = [f"arrived/{other}" for other in range(size)]
        while not store.check(names):
            waiting.look()
            time.sleep(LOOK_S)
        return [store.get(name).decode() for name in names]

    def among(self, ranks: Iterable[int]) -> TorchGroup:
        """A group whose sums and broadcasts are among these ranks; every rank makes it, also those not in it."""
        part, chosen = copy.copy(self), list(ranks)
        with _peers():
            part.members, part._first = self._dist.new_group(chosen, timeout=PATIENCE), chosen[0]
        return part

    def sum_start(self, tensor: Tensor, name: str) -> Pending:
        """Begin to add up over ranks, in place; the order of calls tells the sums apart."""
        if tensor.is_cuda and self.by_host:
            return SumByHost(tensor, lambda copied: self.sum_start(copied, name))
        with _peers():
            work = self._dist.all_reduce(tensor, group=self.members, async_op=True)
        return _Waiting(work.wait)

    def broadcast_(self, tensor: Tensor) -> None:
        """Copy from rank 0, in place, piece by piece."""
        with _peers():
            for piece in torch.split(_bytes_of(tensor), PIECE_BYTES):
                moved = piece.to(self._device)
                self._dist.broadcast(moved, src=self._first, group=self.members)
                piece.copy_(moved)

    def gather(self, tensor: Tensor) -> Tensor:
        """Tensors of all ranks one after another, piece by piece: beside the whole no second copy of it is held."""
        size = self._dist.get_world_size()
        lengths = torch.zeros(size, dtype=torch.int64, device=self._device)
        lengths[self._dist.get_rank()] = len(tensor)
        with _peers():
            self._dist.all_reduce(lengths)
            counts: list[int] = lengths.tolist()
            whole = tensor.new_empty((sum(counts), *tensor.shape[1:]))
            row_bytes = max(1, whole.element_size() * math.prod(whole.shape[1:]))
            rows = max(1, PIECE_BYTES // (row_bytes * size))
            for first in range(0, max(counts), rows):
                span = slice(first, first + rows)
                self._gather_piece(tensor[span], [part[span] for part in torch.split(whole, counts)])
        return whole

    def _gather_piece(self, own: Tensor, places: list[Tensor]) -> None:
        """What each rank has of a piece, into its place; padded to the longest on the way."""
        padded = own.new_zeros((max(map(len, places)), *own.shape[1:]), device=self._device)
        padded[: len(own)] = own
        parts = [torch.empty_like(padded) for _ in places]
        self._dist.all_gather(parts, padded)
        for place, part in zip(places, parts, strict=True):
            place.copy_(part[: len(place)])

    def close(self) -> None:
        """Leave; the others must leave as well. One that left a moment earlier is no failure of this rank."""
        with suppress(RuntimeError):
            self._dist.destroy_process_group()


def _bytes_of(tensor: Tensor) -> Tensor:
    """The same memory: Horovod knows no truth values (masks) and no bfloat16, and Gloo not all whole numbers."""
    return tensor.view(-1).view(torch.uint8)


def _await_listener(address: tuple[str, int], waiting: Waiting) -> None:
    """Until somebody listens there. Raises `OSError` where nobody does after `PATIENCE`."""
    given_up_s = time.monotonic() + PATIENCE.total_seconds()
    while True:
        try:
            socket.create_connection(address, timeout=CONNECT_S).close()
            return
        except OSError:
            if time.monotonic() >= given_up_s:
                raise
        waiting.look()
        time.sleep(LOOK_S)


def gather_bytes(group: Group, body: bytes | bytearray) -> list[bytes]:
    """One body per rank, in rank order, known to all."""
    framed = struct.pack("<q", len(body)) + body
    whole = group.gather(torch.frombuffer(bytearray(framed), dtype=torch.uint8)).numpy().tobytes()
    bodies, place = [], 0
    while place < len(whole):
        (length,) = struct.unpack_from("<q", whole, place)
        bodies.append(whole[place + 8 : place + 8 + length])
        place += 8 + length
    return bodies


def broadcast_bytes(group: Group, body: bytes) -> bytes:
    """Rank 0's body on every rank."""
    length = torch.tensor([len(body)], dtype=torch.int64)
    group.broadcast_(length)
    buffer = torch.zeros(int(length), dtype=torch.uint8)
    if len(body) == len(buffer) > 0:
        buffer = torch.frombuffer(bytearray(body), dtype=torch.uint8)
    if len(buffer):
        group.broadcast_(buffer)
    return buffer.numpy().tobytes()
