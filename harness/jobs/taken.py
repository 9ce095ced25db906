"""What an offer that was taken put into a job's spec where the person had left it open. Pure.

`Job.taken` holds it: `{device, device_model, count, mode, stages, reason}`, each key only where it came so. The spec is
resolved anew by every later change and by a clone, which would forget it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.plain import value_at

TAKEN = "The offer that was taken has it."
_FIELDS = {
    "device": "resources.device", "device_model": "resources.device_model", "count": "resources.count", "mode": "mode",
    "stages": "pipeline.stages",
}  # fmt: skip
_WITH_REASON = ("mode", "stages")
"""What `reason` is of; of the others `TAKEN` says all."""


def still_taken(taken: Mapping[str, Any], spec: Mapping[str, Any]) -> dict[str, Any]:
    """Of it what this spec still has; a person who changes a field has chosen it."""
    known = {name: path for name, path in _FIELDS.items() if name in taken}
    kept = {name: taken[name] for name, path in known.items() if value_at(spec, path) == taken[name]}
    return kept and {**kept, "reason": taken.get("reason", "")}


def spec_named(spec: Mapping[str, Any], taken: Mapping[str, Any]) -> dict[str, Any]:
    """The spec with `auto` again where an offer alone decided."""
    named = dict(spec)
    for name in still_taken(taken, spec):
        part, _, field = _FIELDS.get(name, "").rpartition(".")
        if part:
            named[part] = {**named[part], field: "auto"}
        elif field:
            named[field] = "auto"
    return named


def resolved_with(resolved: Mapping[str, Any], taken: Mapping[str, Any]) -> dict[str, Any]:
    """A resolved spec whose guesses tell of it: nobody need have named it."""
    told = [
        {"field": path, "value": taken[name], "reason": taken.get("reason", "") if name in _WITH_REASON else TAKEN}
        for name, path in _FIELDS.items()
        if name in taken
    ]
    return {**resolved, "guesses": [*resolved.get("guesses", ()), *told]}
