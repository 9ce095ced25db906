"""Torch's sharded tensors (`DTensor`): not loaded merely to tell fake tensors from them."""

from __future__ import annotations

import sys
from types import ModuleType

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from worker.runtime.compiler import VERSION

MODULE = "torch.distributed.tensor"


def sharded_apart(fake: FakeTensorMode) -> None:
    """Have torch take an empty class for theirs, which it looks up once: when a first fake tensor is detached.

    A program that has loaded the true one keeps it. One that loads it later finds it, but cannot be traced with it.
    """
    if MODULE in sys.modules or not torch.__version__.startswith(VERSION):
        return
    with fake:
        tensor = torch.empty(0)
    module = ModuleType(MODULE)
    vars(module)["DTensor"] = type("DTensor", (Tensor,), {})
    sys.modules[MODULE] = module
    try:
        tensor.detach()
    finally:
        del sys.modules[MODULE]
