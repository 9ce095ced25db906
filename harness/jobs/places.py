"""What an edited spec.yaml may not change: where and in which mode a job runs, which the job's own spec decides."""

from __future__ import annotations

from typing import Any

import yaml

from codegen import safe_yaml
from harness.errors import Invalid
from harness.jobs.programs import files_read
from worker.plan import RunPaths

PLACED_BY = (
    "mode",
    "resources.device",
    "resources.device_model",
    "resources.count",
    "resources.memory_gib",
    "resources.split",
    "resources.least",
    "pipeline.stages",
    "model.weights",
)
"""Fields that control reads off the job's spec, and no node off the program's."""
TOLD_CHARACTERS = 200


def program_places_check(paths: RunPaths) -> None:
    """Pass if a job's spec.yaml, which parses, names the same devices and mode as its spec. Raises `Invalid` with file
    and line: it would be placed by the other one."""
    places_check(*(files_read(folder).get("spec.yaml", "") for folder in (paths.program, paths.generated)))


def places_check(written: str, generated: str) -> None:
    """The same for the text of a spec.yaml, which parses, in place of the generated one. Raises `Invalid`."""
    if written == generated:
        return
    here, there = (safe_yaml.compose(text) for text in (written, generated))
    for field in PLACED_BY:
        found, own = _entry(here, field), _entry(there, field)
        wanted = _value(own[1]) if own else "auto"
        if found is not None and _value(found[1]) != wanted:
            raise _fault(field, found, wanted)


def _fault(field: str, found: tuple[yaml.Node, yaml.Node], own: str) -> Invalid:
    line = found[0].start_mark.line + 1
    return Invalid(
        f"spec.yaml, line {line}: {field} is {_told(_value(found[1]))} here, but {_told(own)} in the job's spec, which "
        "places it.",
        field="spec.yaml",
        code="program_places",
        hint=f"Change {field} on the tab Spec, or write {_told(own)} here again.",
        details={"file": "spec.yaml", "line": line, "name": field},
    )


def _entry(node: Any, field: str) -> tuple[yaml.Node, yaml.Node] | None:
    """(key, value) of a dotted name; None where there is none."""
    found = None
    for name in field.split("."):
        entries = node.value if isinstance(node, yaml.MappingNode) else ()
        found = next(((key, value) for key, value in entries if key.value == name), None)
        if found is None:
            return None
        node = found[1]
    return found


def _value(node: yaml.Node) -> str:
    return str(node.value) if isinstance(node, yaml.ScalarNode) else "a list or mapping"


def _told(value: str) -> str:
    """As much of it as a message bears."""
    return value if len(value) <= TOLD_CHARACTERS else f"{value[:TOLD_CHARACTERS]}…"
