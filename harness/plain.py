"""Values that others wrote: made safe to keep (finite, storable, not too deep); those of requests are refused."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

DEPTH_MAX = 32
INTEGER_MAX = 2**63 - 1
"""Larger whole numbers fit no column and no float that we compare them with."""

NAME_MAX = 40
"""Keys up to so many letters are looked at once."""


def json_read(body: bytes | str) -> Any:
    """The JSON of a request. Raises `ValueError` for what is none, and for text that cannot be kept: half letters (lone
    surrogates), of which no page can be made, and NUL, which PostgreSQL refuses; JSON can spell both."""
    text = body.decode("utf-8-sig") if isinstance(body, bytes) else body
    try:
        value = json.loads(text)
        if "\\ud" in text.lower():
            json.dumps(value, ensure_ascii=False).encode()
        if "\\u0000" in text and _holds_nul(value):
            raise ValueError("a text holds a NUL character")
    except RecursionError as error:
        raise ValueError("nested too deep") from error
    return value


def _holds_nul(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_holds_nul, (*value, *value.values())))
    return any(map(_holds_nul, value)) if isinstance(value, list) else isinstance(value, str) and "\0" in value


def plain(value: Any, depth: int = 0) -> Any:
    """The value with None for numbers no database holds, and text that can be encoded (no NUL, no half letters).

    Raises `ValueError` for what is nested deeper than `DEPTH_MAX`.
    """
    # Nearly all of what a large body holds, asked for first: offers have tens of thousands of values.
    if type(value) is float and math.isfinite(value):
        return value
    if isinstance(value, str):
        return text_plain(value)
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return value if -INTEGER_MAX <= value <= INTEGER_MAX else None
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if depth >= DEPTH_MAX:
        raise ValueError(f"nested deeper than {DEPTH_MAX}")
    if isinstance(value, dict):
        return {
            _key(key): item if type(item) is float and math.isfinite(item) else plain(item, depth + 1)
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        # Rows per rank: most of what an offer holds.
        return [item if type(item) is int and 0 <= item <= INTEGER_MAX else plain(item, depth + 1) for item in value]
    return text_plain(str(value))


@lru_cache(maxsize=1024)  # bodies repeat the same few names
def _name(key: str) -> str:
    return text_plain(key)


def _key(key: object) -> str:
    return _name(key) if type(key) is str and len(key) <= NAME_MAX else text_plain(str(key))


def value_at(body: Any, path: str) -> Any:
    """What plain values have at a dotted name; None where they have nothing there."""
    for name in path.split("."):
        body = body.get(name) if isinstance(body, Mapping) else None
    return body


def text_plain(text: str) -> str:
    """Text without NUL, which PostgreSQL refuses, and without lone surrogates, which cannot be encoded."""
    if "\0" in text or type(text) is not str:
        text = text.replace("\0", "\ufffd")
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
