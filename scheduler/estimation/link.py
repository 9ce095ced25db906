"""Communication: one message takes latency + bytes / bandwidth (Hockney 1994); an allreduce of n ranks moves
2 (n - 1) / n of the bytes over each link (Patarasuk & Yuan 2009) in 2 (n - 1) messages.

A probe times the allreduce of two ranks, whose share of the bytes is exactly 1: other numbers of ranks are scaled to
it. Between two nodes a message's way there and back is timed, which is those two ranks' two messages, and the bytes
that pass both ways at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from scheduler.estimation.device_model import DeviceModel
from scheduler.estimation.device_parts import LinkModel
from scheduler.estimation.values import Basis
from scheduler.workload import Workload

LEAST_SIZES = 3
LEAST_SECONDS = 1e-9
ROUNDING_MODE = "sync"
"""The one whose gradients may be rounded to 16 bits on their way (`Workload.compression`)."""
ROUNDING_BYTE_S = {"fp16": 6e-9, "bf16": 5e-10}
"""For each byte of gradients in float32, what a core needs to round them, and to add up what comes; of bf16 once for
each rank, all of whose come. As on two cores with 2 and 4 ranks (docs/modes.md); GPUs do it in passing."""


def fit_link(sizes_bytes: Sequence[float], seconds: Sequence[float], *, ranks: int = 2) -> LinkModel:
    """Latency and bandwidth from timed allreduces among `ranks` ranks. Raises `ValueError` for bad figures."""
    from scipy.optimize import nnls

    if len(sizes_bytes) != len(seconds) or len(set(sizes_bytes)) < LEAST_SIZES:
        raise ValueError(f"a link probe needs as many seconds as sizes, and {LEAST_SIZES} different sizes")
    if ranks < 2:
        raise ValueError(f"a link joins at least 2 ranks, not {ranks}")
    for value in (*sizes_bytes, *seconds):
        if not math.isfinite(value) or value <= 0:
            raise ValueError(f"a link probe holds {value}; finite numbers above 0 are needed")
    sizes, times = np.array(sizes_bytes, dtype=float), np.array(seconds, dtype=float)
    # Relative least squares: small messages count as much as large ones.
    inputs = np.stack([messages(ranks) / times, moved_share(ranks) * sizes / times], axis=1)
    scale = np.abs(inputs).max(axis=0)
    latency_s, byte_s = nnls(inputs / scale, np.ones(len(times)))[0] / scale
    fastest = float((moved_share(ranks) * sizes / times).max())
    return LinkModel(
        latency_s=max(float(latency_s), LEAST_SECONDS),
        bytes_per_s=1.0 / byte_s if byte_s > 0 else fastest,
        basis=Basis.MEASURED,
        n_points=len(times),
    )


def messages(ranks: int) -> float:
    """Messages one after the other of an allreduce, as a multiple of those of two ranks."""
    return float(ranks - 1)


def moved_share(ranks: int) -> float:
    """Bytes that pass each link, as a share of the bytes reduced; 1 for two ranks."""
    return 2.0 * (ranks - 1) / ranks


def allreduce_s(link: LinkModel, size_bytes: float, ranks: int) -> float:
    """Seconds to sum `size_bytes` over `ranks` ranks; nothing for one."""
    if ranks < 2:
        return 0.0
    return messages(ranks) * link.latency_s + moved_share(ranks) * size_bytes / link.bytes_per_s


def step_sums_s(link: LinkModel, size_bytes: float, ranks: int, small_sums: int = 0) -> float:
    """All sums of a step: that of the gradients, and the small ones of synced statistics."""
    return allreduce_s(link, size_bytes, ranks) + small_sums * allreduce_s(link, 0, ranks)


def sent_bytes(workload: Workload, ranks: int, mode: str = ROUNDING_MODE) -> float:
    """Of the gradients, what an allreduce would have to sum to move as much as the ranks of this mode do.

    Horovod has no bfloat16: the gradients of all ranks are brought to each, ranks - 1 times the bytes over each link.
    """
    if mode != ROUNDING_MODE or workload.compression == "none":
        return workload.gradient_bytes
    rounded = workload.gradient_bytes / 2  # of float32
    return rounded * ranks / 2 if workload.compression == "bf16" else rounded


def rounding_s(workload: Workload, ranks: int, mode: str) -> float:
    """Seconds of a step that ranks on cores, or that add up in the memory of their hosts, need for it beside that."""
    if mode != ROUNDING_MODE or workload.compression == "none":
        return 0.0
    passes = ranks if workload.compression == "bf16" else 1
    return ROUNDING_BYTE_S[workload.compression] * workload.gradient_bytes * passes


def pair_link(round_trip_s: float, bytes_per_s: float) -> LinkModel:
    """The link between ranks on two nodes, from a message's way there and back and the bytes that pass each way while
    as many come back. Raises `ValueError` for figures that cannot be."""
    for value in (round_trip_s, bytes_per_s):
        if not math.isfinite(value) or value <= 0:
            raise ValueError(f"a link between nodes has finite figures above 0, not {value}")
    return LinkModel(latency_s=round_trip_s, bytes_per_s=bytes_per_s, basis=Basis.MEASURED, n_points=1)


def spanning_link(
    inside: LinkModel, measured: Sequence[LinkModel], pairs: int, size_bytes: float, small_sums: int = 0
) -> LinkModel:
    """What ranks on several nodes make the sums of a step over: all of a ring wait for the slowest link in it.

    `inside`: between ranks of one node; `measured`: of the `pairs` pairs of nodes those that were timed. Where a pair
    was not, it is assumed to be like the slowest of all that is known. What was timed within a node is what ranks need
    for themselves, which no network spares them. `size_bytes`, `small_sums`: as in `step_sums_s`.
    """
    slowest = max(measured, key=lambda link: step_sums_s(link, size_bytes, 2, small_sums), default=inside)
    if len(measured) < pairs:
        return replace(_slower(slowest, inside), basis=Basis.ASSUMED)
    return slowest if inside.basis is Basis.ASSUMED else _slower(slowest, inside)


def spanned(model: DeviceModel, measured: Sequence[LinkModel], pairs: int, workload: Workload) -> DeviceModel:
    """The model for ranks on several nodes, in the words of `spanning_link`."""

    def over(inside: LinkModel) -> LinkModel:
        return spanning_link(inside, measured, pairs, sent_bytes(workload, 2), workload.step_messages)

    return replace(
        model,
        nodes_link=over(model.link),
        message_link=over(model.message_link) if model.message_link else None,
        host_link=over(model.host_link) if model.host_link else None,
    )


def _slower(link: LinkModel, inside: LinkModel) -> LinkModel:
    return replace(
        link,
        latency_s=max(link.latency_s, inside.latency_s),
        bytes_per_s=min(link.bytes_per_s, inside.bytes_per_s),
    )
