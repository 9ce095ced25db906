"""What makes a machine a node, as plain values: known to the portal and, without Django, to whoever starts a node."""

from __future__ import annotations

import hashlib
import re

NODE_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,59}")
SECRET_PREFIX = "dlhn_"  # noqa: S105 - not a secret: how one begins
SECRET = re.compile(r"dlhn_[A-Za-z0-9_-]{40,128}")
CLOCK_LIMIT_S = 5.0
"""Celery's expiry and the leases need clocks that agree to about 10 s; half of it is left for drift."""


def digest_of(text: str) -> str:
    """What is stored of a token or a secret: SHA-256 is enough for 256 random bits."""
    return hashlib.sha256(text.encode()).hexdigest()


def broker_user(name: str) -> str:
    """The node's user at the broker."""
    return f"node-{name}"
