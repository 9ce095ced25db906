"""What the name of a column tells of its numbers: keys, codes and years are no amounts."""

from __future__ import annotations

import re

from codegen.profile.types import ColumnProfile, ColumnType

_KEY = re.compile(
    r"((^|[^a-zA-Z])(id|uuid|guid|index|idx|key|no|nr|num|number|rowid|sku)|[a-z]Id|[a-z]ID)$"
    r"|^(Unnamed: \d+|__index_level_\d+__)$",  # as pandas names its row numbers
    re.ASCII,
)
_CODE = re.compile(r"(^|[^a-z])(zip|zipcode|zip_code|postcode|postal_code|plz|code|phone|year|yr|jahr)$")
_YEARS = (1500, 2200)
"""Whole numbers of these alone are years more often than not."""


def is_key_name(name: str) -> bool:
    """Whether a column is named like one that names rows: `id`, `customer_no`, `orderId`."""
    return bool(_KEY.search(name) or _KEY.search(name.lower()))


def are_labels(column: ColumnProfile) -> bool:
    """Whether its numbers name something, as years and keys do: such are written without marks of thousands."""
    if column.type is not ColumnType.NUMERIC or not column.whole_numbers or column.minimum is None or column.unit:
        return False
    named = is_key_name(column.name) or bool(_CODE.search(column.name.lower()))
    return named or (_YEARS[0] <= column.minimum and (column.maximum or 0.0) <= _YEARS[1])
