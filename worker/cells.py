"""Cells of a CSV that is safe to open in a spreadsheet: of the portal's tables and of a program's predictions."""

from __future__ import annotations

import re
from typing import Any

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""The last four are wide forms of the first, which some spreadsheets take for them."""
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")


def cell(value: Any) -> Any:
    """A text that a spreadsheet would run as a formula gets a quote in front; numbers stay exact, None is empty."""
    if isinstance(value, str) and value.startswith(_FORMULA_STARTS) and not _NUMBER.fullmatch(value):
        return f"'{value}"
    return "" if value is None else value
