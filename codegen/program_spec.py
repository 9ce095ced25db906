"""spec.yaml of a program: the resolved spec with each field explained."""

from __future__ import annotations

import textwrap
from typing import Any

import yaml
from pydantic import BaseModel

from codegen.spec import TaskSpec

WIDTH = 110
_FAST = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
"""Writes ASCII as the other one does, in a tenth of the time; of other letters it escapes some that people read."""
SHAPE_WORDS = "What the data look like: columns or picture size, classes, outputs. Found by the profile, not a choice."


def dump_program_spec(spec: dict[str, Any]) -> str:
    """YAML of `Resolved.spec`; a comment above each field tells what it means."""
    lines = ["# Everything train.py reads. Change a value and start over: python train.py --fresh"]
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
    plain = repr(value)
    dumper = _FAST if plain.isascii() and "\\" not in plain else yaml.SafeDumper
    body: str = yaml.dump({name: value}, Dumper=dumper, sort_keys=False, allow_unicode=True, width=WIDTH)
    return [indent + line if line else line for line in body.rstrip("\n").split("\n")]
