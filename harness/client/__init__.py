"""Python client and command line over the HTTP API; imports nothing else of the harness."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.client.client import Client
    from harness.client.errors import ApiError, ClientError, Unreachable

__all__ = ["ApiError", "Client", "ClientError", "Unreachable"]


def __getattr__(name: str) -> Any:
    """The names above, loaded when they are asked for: `dlh` must be able to tell of a Ctrl-C before it is loaded."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("harness.client.client" if name == "Client" else "harness.client.errors"), name)
