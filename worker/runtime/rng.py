"""States of all random number generators, as values that a restricted loader accepts."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch


def seed_all(seed: int) -> None:
    """Seed Python, NumPy and torch (every device)."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def batch_seed(seed: int, epoch: int, step: int, shard: int) -> int:
    """Of one rank's random changes of one batch: a number that a generator takes, whatever the spec's seed is."""
    return (((seed * 9973 + epoch) * 1_000_003 + step) * 4096 + shard) % 2**64


def rng_state(device: torch.device) -> dict[str, Any]:
    """State of the global generators; tensors, numbers and lists only."""
    version, words, gauss = random.getstate()
    name, keys, position, has_gauss, cached = np.random.get_state()
    state: dict[str, Any] = {
        "python": [version, list(words), gauss],
        "numpy": [name, torch.from_numpy(np.asarray(keys, dtype=np.int64)), int(position), int(has_gauss), cached],
        "torch": torch.get_rng_state(),
    }
    if device.type == "cuda":
        state["cuda"] = torch.cuda.get_rng_state(device)
    return state


def restore_rng(state: dict[str, Any], device: torch.device) -> None:
    """Inverse of `rng_state`; a CUDA state is used only on a CUDA device."""
    version, words, gauss = state["python"]
    random.setstate((version, tuple(words), gauss))
    name, keys, position, has_gauss, cached = state["numpy"]
    np.random.set_state((name, keys.numpy().astype(np.uint32), position, has_gauss, cached))
    torch.set_rng_state(state["torch"])
    if device.type == "cuda" and "cuda" in state:
        torch.cuda.set_rng_state(state["cuda"], device)
