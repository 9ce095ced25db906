"""Reading of `spec.yaml`: plain values with attribute access."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml


class Spec(dict[str, Any]):
    """A mapping whose keys are also attributes: `spec.training.epochs`, `spec.model.params["filters"]`."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"spec.yaml has no `{name}` here; it has {', '.join(self) or 'nothing'}") from None

    def with_shape(self, shape: dict[str, Any]) -> Spec:
        """The same spec with what the data has taught added to (and winning over) `spec.shape`."""
        return Spec({**self, "shape": as_spec({**self.get("shape", {}), **shape})})


def as_spec(value: Any) -> Any:
    """Turn mappings, in depth, into `Spec`."""
    if isinstance(value, dict):
        return Spec({str(key): as_spec(item) for key, item in value.items()})
    if isinstance(value, list):
        return [as_spec(item) for item in value]
    return value


def load_spec(path: str | Path = "spec.yaml") -> Spec:
    """Read a resolved spec. Raises `ValueError` naming the file if it is not a mapping."""
    body = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    if not isinstance(body, dict):
        raise ValueError(f"{path}: expected a mapping of spec fields")
    spec: Spec = as_spec(body)
    return spec
