"""spec.yaml of a program: the resolved spec with each field explained."""

from __future__ import annotations

import textwrap
from typing import Any

import yaml
from pydantic import BaseModel

from codegen.spec import TaskSpec

WIDTH = 110
SHAPE_WORDS = "What the data look like: columns or picture size, classes, outputs. Found by the profile, not a choice."


def dump_program_spec(spec: dict[str, Any]) -> str:
    """YAML of `Resolved.spec`; a comment above each field tells what it means."""
    lines = ["# Everything train.py reads. Change a value and begin anew: python train.py --fresh"]
    for name, value in spec.items():
        field = TaskSpec.model_fields.get(name)
        part = field.annotation if field is not None else None
        lines.append("")
        if isinstance(part, type) and issubclass(part, BaseModel) and isinstance(value, dict):
            if part.__doc__:
                lines += _comment(part.__doc__, "")
            lines.append(f"{name}:")
            lines += _part(part, value)
        else:
            words = field.description if field is not None else (SHAPE_WORDS if name == "shape" else None)
            lines += _comment(words, "") + _entry(name, value, "")
    return "\n".join(lines) + "\n"


def _part(part: type[BaseModel], values: dict[str, Any]) -> list[str]:
    lines: list[str] = []
    for name, value in values.items():
        field = part.model_fields.get(name)
        lines += _comment(field.description if field is not None else None, "  ") + _entry(name, value, "  ")
    return lines


def _comment(text: str | None, indent: str) -> list[str]:
    return textwrap.wrap(text or "", WIDTH, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# ")


def _entry(name: str, value: Any, indent: str) -> list[str]:
    body: str = yaml.safe_dump({name: value}, sort_keys=False, allow_unicode=True, width=WIDTH)
    return [indent + line if line else line for line in body.rstrip("\n").split("\n")]
