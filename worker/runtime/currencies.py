"""Currencies beside the numbers of rows to predict for, under another name than the data to train on had for them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

CURRENCIES = (
    ("US$", "USD"), ("€", "EUR"), ("£", "GBP"), ("₹", "INR"), ("₩", "KRW"), ("₽", "RUB"), ("₺", "TRY"),
    ("₪", "ILS"), ("฿", "THB"), ("zł", "PLN"),
)  # fmt: skip
"""Names of one currency each. `$`, `¥` and `kr` are those of several, and so have no others: rows with `$` may be
Australian dollars."""
UNIT_GAP = "[ \u00a0\u202f]?"


def without_currency(texts: pa.ChunkedArray, unit: str, name: str, tell: Callable[[str], None]) -> pa.ChunkedArray:
    """`€1,234.50` as 1,234.50 where the data to train on had euros, and `EUR 5` as 5, of which `tell` is told.

    Another currency stays, for it is no number.
    """
    own = _without(texts, (unit,))
    alike = next((names for names in CURRENCIES if unit in names), ())
    found = _without(own, [other for other in alike if other != unit]) if alike else own
    by_other = pc.fill_null(pc.not_equal(own, found), False)
    count = pc.sum(by_other).as_py() or 0
    if count:
        row = pc.index(by_other, True).as_py()
        are = f"{count:,} amounts are" if count > 1 else "1 amount is"
        tell(
            f"Column {name!r}: {are} written with another name of {unit!r}, such as {texts[row].as_py()!r} in row "
            f"{row + 1:,}; {'they are' if count > 1 else 'it is'} read as {unit!r}, which training had."
        )
    return found


def _without(texts: pa.ChunkedArray, units: Sequence[str]) -> pa.ChunkedArray:
    """Numbers without what stands in front of them or behind them."""
    beside = "|".join(map(re.escape, units))
    pattern = rf"^([+-]?)(?:(?:{beside}){UNIT_GAP})?([+-]?)(\d[\d.,]*|\.\d+)(?:{UNIT_GAP}(?:{beside}))?$"
    return pc.replace_substring_regex(texts, pattern, r"\1\2\3")
