"""Models of device by name: people write `A100` where a maker writes `NVIDIA A100-SXM4-80GB`."""

from __future__ import annotations

import re
from collections.abc import Iterable


def is_named(full: str, name: str) -> bool:
    """Whether a name, or part of it between word ends, is meant: `L4` is not part of `NVIDIA L40S`."""
    return re.search(rf"(?<![0-9a-z]){re.escape(name.casefold())}(?![0-9a-z])", full.casefold()) is not None


def model_meant(name: str, known: Iterable[str]) -> str:
    """The one of `known` that is meant; empty: none. Raises `ValueError` where it may be several."""
    exact = {full for full in known if full.casefold() == name.casefold()}
    found = sorted(exact or {full for full in known if is_named(full, name)})
    if len(found) > 1:
        raise ValueError(f"{name} may mean {' or '.join(found)} of the trace: write it out in --pool")
    return found[0] if found else ""
