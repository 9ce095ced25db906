"""Names as people give them: one line that is not empty, since a page shows no other and nobody could type it."""

from __future__ import annotations

import unicodedata

from harness.errors import Invalid

_UNSEEN = frozenset({"Cc", "Zl", "Zp"})
"""Kinds of letters that break a line or steer a terminal. Those that join emoji or turn a script are no such."""


def name_read(name: str, *, of: str, letters_max: int, hint: str = "Give it a short name.") -> str:
    """The name of a thing (`of`: "A project") without spaces around it. Raises `Invalid`."""
    name = name.strip()
    if not name or len(name) > letters_max:
        raise Invalid(f"{of} needs a name of at most {letters_max} characters.", field="name", hint=hint)
    if any(map(_is_unseen, name)):
        told = f"{of} needs a name of one line, without tabs and other control characters."
        raise Invalid(told, field="name", hint="Put spaces in their place.")
    return name


def name_line(name: str) -> str:
    """The name as a page shows it and a person types it: older ones may have line breaks or several spaces in them."""
    return " ".join("".join(" " if _is_unseen(letter) else letter for letter in name).split())


def name_mended(name: str) -> str:
    """The name as it is, without spaces around it; as `name_line` where a page could not show it so."""
    return name_line(name) if any(map(_is_unseen, name)) else name.strip()


def _is_unseen(letter: str) -> bool:
    return unicodedata.category(letter) in _UNSEEN
