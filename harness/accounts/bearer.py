"""The one reader of `Authorization: Bearer TOKEN`: for API, pages, live streams and limits of bodies alike."""

from __future__ import annotations


def bearer_token(header: str) -> str | None:
    """The token of the header's value; None without a header, or where it is of another scheme, as a proxy's Basic.

    None leaves a session as it is; any token, `""` and wrong ones too, has it count for nothing.
    """
    scheme, _, token = header.strip().partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None
