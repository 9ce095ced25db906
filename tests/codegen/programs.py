"""Loading of templates as modules, and specs for them, as a rendered program would see them."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from worker.runtime.spec import Spec, as_spec

torch.set_num_threads(1)  # tiny tensors: more threads only wait for one another
PROGRAMS = Path(__file__).parents[2] / "codegen" / "programs"
sys.path.append(str(PROGRAMS))  # templates import one another, as the files of a program do


def module(name: str) -> ModuleType:
    """A template as a module: it is valid Python as it stands."""
    found = importlib.util.spec_from_file_location(f"template_{Path(name).stem}", PROGRAMS / name)
    loaded = importlib.util.module_from_spec(found)
    found.loader.exec_module(loaded)
    return loaded


def program_spec(body: dict[str, Any]) -> Spec:
    """Plain values as `load_spec` returns them."""
    return as_spec(body)
