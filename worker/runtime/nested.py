"""Tensors in dicts, lists and tuples, as the state of a run holds them."""

from __future__ import annotations

from typing import Any

import torch


def tensor_bytes(value: Any) -> int:
    """Memory of all tensors in a nested value."""
    if isinstance(value, torch.Tensor):
        return value.numel() * value.element_size()
    if isinstance(value, dict):
        return sum(tensor_bytes(item) for item in value.values())
    return sum(tensor_bytes(item) for item in value) if isinstance(value, list | tuple) else 0


def copied(value: Any) -> Any:
    """The nested value with tensors copied to the CPU."""
    if isinstance(value, torch.Tensor):
        return value.detach().to("cpu", copy=True)
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)([copied(item) for item in value])
    return value


def real_view(tensor: torch.Tensor) -> torch.Tensor:
    """The same memory, of complex numbers as pairs: copied among real ones they would lose their second part.

    Of conjugated ones (`.conj()`, `.mH` and their gradients), whose memory holds other values, it is a copy.
    """
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def scalars_own(tree: dict[Any, Any] | list[Any]) -> None:
    """Take single values out of a mapped file: who keeps one of them on the CPU would keep all of the file mapped."""
    for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
        if isinstance(value, torch.Tensor) and value.dim() == 0:
            tree[key] = value.clone()
        elif isinstance(value, dict | list):
            scalars_own(value)
