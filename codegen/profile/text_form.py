"""How a delimited file is written, for rows to predict for that are written as it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class TextForm:
    """What such rows may not tell by themselves."""

    delimiter: str
    encoding: str = ""
    """As a person has set it; empty where the bytes told."""
    unnamed: int = 0
    """Columns of a file without a line of names; else 0."""
    dropped: int = 0
    """Fields behind those that are empty in each line, and no columns; else 0."""


def shape_form(form: TextForm | None, target: str) -> dict[str, Any]:
    """What the spec's `shape` says of it; nothing of what is no delimited text."""
    if form is None:
        return {}
    said = {**vars(form), "target": target if form.unnamed else ""}  # which rows without names may lack
    return {"form": {name: value for name, value in said.items() if value}}
