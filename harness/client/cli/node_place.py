"""Where a node keeps what it is given when it joins: looked at before the token, which joins once, is spent."""

from __future__ import annotations

import tempfile
from pathlib import Path

from harness.client.errors import BadInput


def home_check(home: Path) -> None:
    """Pass where this person may write there; the folder is made. Raises `BadInput`."""
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryFile(dir=home) as probe:
            probe.write(b"x")
            probe.flush()
    except OSError as error:
        raise BadInput(
            f"{home} cannot be written: {error.strerror}; nothing was joined.",
            hint="Name another folder by --home, or run this as who may write there; the token is still good.",
        ) from error
