"""Opaque ids for everything that has a URL."""

from __future__ import annotations

import secrets

_ALPHABET = "abcdefghijkmnpqrstuvwxyz23456789"
ID_LENGTH = 12


def new_id() -> str:
    """Twelve random letters and digits (60 bits), without look-alikes, safe in URLs and file names."""
    return "".join(secrets.choice(_ALPHABET) for _ in range(ID_LENGTH))
