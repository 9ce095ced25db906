"""One dispatched operator as an entry of a workload: its class, FLOPs, bytes and shape.

Entries are plain dictionaries with the fields of `scheduler.workload.Operator`. FLOPs are those of
`torch.utils.flop_counter`: matrix products, convolutions and attention count, a multiply-add as 2; whatever else an
operator does costs bytes, not FLOPs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import (
    conv_flop_count,
    flop_registry,
    sdpa_backward_flop_count,
    sdpa_flop_count,
)

Entry = dict[str, Any]
MAKERS = ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "set_", "resize_", "_local_scalar")
"""Operators that only reserve memory."""
GEMMS: dict[str, tuple[int, int]] = {
    "mm": (0, 1), "addmm": (1, 2), "bmm": (0, 1), "baddbmm": (1, 2), "mv": (0, 1), "addmv": (1, 2), "dot": (0, 1),
    "_addmm_activation": (1, 2), "linear": (0, 1),
}  # fmt: skip
"""Matrix products and where among their arguments the two factors stand."""
PARTS_OF_NAMES = (
    ("attention", "attention"), ("norm_backward", "norm"), ("batch_norm", "norm"), ("layer_norm", "norm"),
    ("group_norm", "norm"), ("rms_norm", "norm"), ("pool", "pool"), ("embedding", "embedding"),
)  # fmt: skip
COPIES = ("clone", "copy_", "_to_copy", "contiguous", "cat", "stack", "zeros", "ones", "full", "fill_", "zero_")
GATHERS = ("embedding", "index", "index_select", "gather")
"""They read the rows that are asked for, not the whole table."""


def entry(func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Any, graded: bool) -> Entry | None:
    """The operator as a workload holds it; None if it costs nothing (views, reserved memory).

    `graded`: whether autograd records.
    """
    name = str(func._schema.name).rpartition("::")[2]
    outputs = [leaf for leaf in tree_leaves(result) if isinstance(leaf, Tensor)]
    inputs = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
    if not outputs or name.startswith(MAKERS) or (not func._schema.is_mutable and _is_view(outputs, inputs)):
        return None
    wants = [bool(tensor.requires_grad) and graded for tensor in inputs]
    shaped = _shape_of(name)
    kind, shape, data, weight = shaped(name, args, outputs[0]) if shaped else (_class(name, func), {}, None, None)
    written = float(sum(map(tensor_bytes, outputs)))
    return {
        "op": kind,
        "flops": float(flops(func, args, kwargs, result)),
        "read_bytes": _read_bytes(name, inputs, written),
        "write_bytes": written,
        "shape": shape or {"elements": float(max(tensor.numel() for tensor in (*inputs, *outputs)))},
        "input_gradient": any(wants) if data is None else bool(data.requires_grad) and graded,
        "weight_gradient": any(wants) if weight is None else bool(weight.requires_grad) and graded,
    }


def flops(func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> float:
    """FLOPs of one operator, forward or backward; 0 for those that torch has no formula for."""
    packet = func._overloadpacket
    own = OWN_FORMULAS.get(str(packet))
    if own is not None:
        return float(own(args))
    return float(flop_registry[packet](*args, **kwargs, out_val=result)) if packet in flop_registry else 0.0


def tensor_bytes(tensor: Tensor) -> int:
    """Bytes that reading the tensor once touches: an expanded tensor only holds what its storage holds."""
    return min(tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes())


def _is_view(outputs: list[Tensor], inputs: list[Tensor]) -> bool:
    storages = {tensor.untyped_storage()._cdata for tensor in inputs}
    return all(tensor.untyped_storage()._cdata in storages for tensor in outputs)


def _read_bytes(name: str, inputs: list[Tensor], written: float) -> float:
    if name in GATHERS:
        return written + sum(tensor_bytes(tensor) for tensor in inputs if not tensor.is_floating_point())
    return float(sum(map(tensor_bytes, inputs)))


def _class(name: str, func: Any) -> str:
    for part, kind in PARTS_OF_NAMES:
        if part in name:
            return kind
    if name == "mkldnn_rnn_layer" or name in GEMMS:
        return "gemm"
    return "elementwise" if torch.Tag.pointwise in func.tags or name in COPIES else "other"


Shaped = tuple[str, dict[str, float], Tensor | None, Tensor | None]
"""Class, shape, and the two factors: what comes from the rows, and the weights (or the other factor)."""


def _shape_of(name: str) -> Callable[[str, Sequence[Any], Tensor], Shaped] | None:
    if name in ("convolution", "_convolution", "convolution_overrideable"):
        return _convolution
    if name in GEMMS:
        return _gemm
    return _attention if "attention" in name else None


def _convolution(_name: str, args: Sequence[Any], output: Tensor) -> Shaped:
    data, weight, groups = args[0], args[1], int(args[8])
    transposed = bool(args[6])
    places = data.shape[2:] if transposed else output.shape[2:]
    edges = max(1, len(places))
    inside, outside = data.shape[1], output.shape[1]
    shape = {
        "batch": float(data.shape[0]),
        "in": float(inside),
        "out": float(outside),
        "kernel": prod(weight.shape[2:]) ** (1.0 / edges),
        "size": prod(places) ** (1.0 / edges),
        "groups": float(groups),
    }
    return "depthwise" if groups > 1 and groups == inside else "conv", shape, data, weight


def _gemm(name: str, args: Sequence[Any], output: Tensor) -> Shaped:
    left, right = (args[place] for place in GEMMS[name])
    count = left.shape[0] if left.ndim == 3 and name != "linear" else 1
    inside = left.shape[-1]
    outside = right.shape[0] if name == "linear" else right.shape[-1] if right.ndim > 1 else 1
    rows = output.numel() / max(1, count * outside)
    shape = {"batch": float(rows), "in": float(inside), "out": float(outside), "count": float(count)}
    return "gemm", shape, left, right


def _attention(_name: str, args: Sequence[Any], _output: Tensor) -> Shaped:
    query, key = args[0], args[1]
    shape = {
        "elements": float(query.numel()),
        "count": float(prod(query.shape[:-2])),
        "queries": float(query.shape[-2]),
        "keys": float(key.shape[-2]),
        "width": float(query.shape[-1]),
    }
    return "attention", shape, query, key


def _attention_flops(formula: Callable[..., int], tensors: Sequence[Tensor]) -> int:
    return formula(*(tensor.shape for tensor in tensors))


def _convolution_backward_flops(args: Sequence[Any]) -> int:
    """One forward pass for each of the input's and the weight's gradient. Torch's own formula leaves groups out."""
    output, data, weight, transposed, wanted = args[0], args[1], args[2], bool(args[7]), args[10]
    forward = conv_flop_count(list(data.shape), list(weight.shape), list(output.shape), transposed=transposed)
    return int(forward * (int(wanted[0]) + int(wanted[1])))


def _recurrent_flops(args: Sequence[Any]) -> int:
    """Of torch's fused recurrent layer on a CPU: input [T, N, I], weights [G * H, I] and [G * H, H] for G gates."""
    data, inner, outer = args[0], args[1], args[2]
    return int(2 * data.shape[0] * data.shape[1] * (inner.numel() + outer.numel()))


OWN_FORMULAS: dict[str, Callable[[Sequence[Any]], int]] = {
    "aten.convolution_backward": _convolution_backward_flops,
    "aten.mkldnn_rnn_layer": _recurrent_flops,
    "aten._scaled_dot_product_flash_attention_for_cpu": lambda args: _attention_flops(sdpa_flop_count, args[:3]),
    "aten._scaled_dot_product_flash_attention_for_cpu_backward": lambda args: _attention_flops(
        sdpa_backward_flop_count, args[:4]
    ),
}
"""Where torch has none, or a wrong one."""
