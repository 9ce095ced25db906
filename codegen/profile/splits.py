"""Names that people give to the parts of a split."""

from __future__ import annotations

_PARTS = {
    "train": ("train", "training", "trn"),
    "val": ("val", "valid", "validation", "dev"),
    "test": ("test", "testing", "tst", "eval", "evaluation"),
}
_BY_NAME = {name: part for part, names in _PARTS.items() for name in names}


def split_name(text: str) -> str | None:
    """`train`, `val` or `test` for a folder or value so named, else None."""
    return _BY_NAME.get(text.strip().lower().removesuffix("_set").removesuffix("set").rstrip("_-"))
