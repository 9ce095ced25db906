"""A button *Undo* beside the message of a change: where it posts to travels in the message's hint."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, urlsplit

_MARK = "undo:"


def undo_tag(address: str) -> str:
    """As hint of a message: a button that posts to this address, its query as the form's fields."""
    return f"{_MARK}{address}"


def undo_form(hint: str) -> dict[str, Any] | None:
    """Of a hint that `undo_tag` made: the form's `action` and `fields`; None for a hint in words."""
    if not hint.startswith(_MARK):
        return None
    address = urlsplit(hint.removeprefix(_MARK))
    return {"action": address.path, "fields": parse_qsl(address.query)}
