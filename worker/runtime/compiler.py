"""Torch's compiler: loaded by what compiles, not by every optimizer.

An optimizer's constructor and step, and every mode of fake tensors, import `torch._dynamo`, for three things: a mark
that the compiler alone reads (`graph_break`), a switch that keeps it off a function (`disable`), and its settings
(`config`). None of them does anything where nothing is compiled, but the package takes long to load. `postpone` puts a
package in its place that has these three, and that loads the rest into itself as soon as something else of it is asked
for, by attribute or by import: `torch.compile` works as ever. So does `importlib.util.LazyLoader` with any module; it
would load the package at the first optimizer all the same.
"""

from __future__ import annotations

import importlib.util
import sys
import threading
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import FunctionType, ModuleType
from typing import Any

import torch

PACKAGE = "torch._dynamo"
VERSION = "2.13."
"""Of torch, whose inside is known here. Any other loads its compiler as it will."""
ALONE = (
    "config", "source", "utils", "bytecode_analysis", "bytecode_transformation", "graph_utils", "metrics_context",
)  # fmt: skip
"""Settings, and names of tensors: submodules that can be loaded alone, since they import nothing of the others."""
_turn = threading.RLock()
"""Who loads has it: others wait for the whole package, its own imports pass."""
WAIT_S = 5.0
"""At most so long while holding Python's lock of a submodule: who loads the package may be waiting for that one."""


def set_up(*, needed: bool) -> None:
    """Load the compiler now if it is `needed`, else when something asks for it."""
    if needed:
        _load(importlib.import_module(PACKAGE))
    else:
        postpone()


def postpone() -> None:
    """Load the compiler when something asks for it, unless it has been loaded before."""
    spec = importlib.util.find_spec(PACKAGE) if torch.__version__.startswith(VERSION) else None
    if spec is None or PACKAGE in sys.modules:
        return
    package = importlib.util.module_from_spec(spec)
    package.__class__ = Postponed
    vars(package).update(graph_break=_graph_break, disable=_disable)
    sys.modules[PACKAGE] = vars(torch)["_dynamo"] = package
    sys.meta_path.insert(0, _PackageFirst())


class Postponed(ModuleType):
    """The package until it is needed."""

    def __getattr__(self, name: str) -> Any:
        """Load what is not there yet. What modules are merely looked over for (`__wrapped__`) loads nothing."""
        if name in ALONE:
            return importlib.import_module(f"{PACKAGE}.{name}")
        if not name.startswith("__") or name == "__all__":
            _load(self)
        if name not in vars(self):
            raise AttributeError(f"module {PACKAGE!r} has no attribute {name!r}")
        return vars(self)[name]


def _load(package: ModuleType) -> None:
    """Run the package's own code in the module that stands for it."""
    with _turn:
        loader = package.__spec__.loader if package.__spec__ else None
        if type(package) is not Postponed or loader is None or vars(package).get("_loads"):
            return
        vars(package)["_loads"] = True
        for name in ("graph_break", "disable"):
            vars(package).pop(name, None)  # as a package that is just being loaded
        try:
            loader.exec_module(package)
            package.__class__ = ModuleType  # type: ignore[assignment] # narrowed to what it is until here
        finally:
            del vars(package)["_loads"]


class _PackageFirst(MetaPathFinder):
    """Loads the package before any submodule, as Python does with a package that is not there."""

    def find_spec(self, name: str, _path: Sequence[str] | None = None, _target: Any = None) -> ModuleSpec | None:
        """Nothing, or what the package has loaded meanwhile."""
        package = sys.modules.get(PACKAGE)
        parent, _, child = name.rpartition(".")
        if not name.startswith(f"{PACKAGE}.") or type(package) is not Postponed:
            return None
        if parent == PACKAGE and child in ALONE:
            return None
        if not _turn.acquire(timeout=WAIT_S):
            return None
        try:
            if vars(package).get("_loads"):
                return None
            _load(package)
        finally:
            _turn.release()
        found = sys.modules.get(name)
        if found is None:
            return None
        # Python would take the spec of a module that turned up while it looked, and load it a second time
        found.__spec__ = ModuleSpec(name, _AsItIs(found))
        return found.__spec__


class _AsItIs(Loader):
    """Gives back a module that is loaded."""

    def __init__(self, module: ModuleType) -> None:
        self._module, self._spec = module, module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module."""
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        """Only put back what the import has set anew."""
        module.__spec__ = self._spec


def _graph_break(msg: str = "") -> None:
    """A mark for the compiler."""


def _disable(fn: Any = None, recursive: bool = True, **more: Any) -> Any:
    """`fn`, which the compiler is to leave alone once it is there. Torch marks its own functions in just this way."""
    package = sys.modules[PACKAGE]
    if not isinstance(fn, FunctionType) or more != {"wrapping": False}:
        _load(package)
        return package.disable(fn, recursive, **more)
    disabled: Callable[..., Any] | None = None

    def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal disabled
        if type(package) is Postponed:
            return fn(*args, **kwargs)
        if disabled is None:
            disabled = package.disable(fn, recursive, wrapping=False)
        return disabled(*args, **kwargs)

    return call
