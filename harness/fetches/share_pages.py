"""Addresses of pages that show a file, where the file itself is meant: what to give instead."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit


@dataclass(frozen=True, kw_only=True)
class SharePage:
    """What an address is, and what to do."""

    message: str
    hint: str
    direct_url: str = ""
    """The address of the file itself, where its form is known."""


_BY_HAND = "Download the file with your browser, then upload it here."
_OFFER = "This is the address of the file itself: {}"
_PATHS = (
    ("GitHub", "github.com", re.compile(r"(/[^/]+/[^/]+)/blob(/[^/]+/.+)"), r"\1/raw\2"),
    ("GitLab", "gitlab.com", re.compile(r"(/.+)/-/blob(/[^/]+/.+)"), r"\1/-/raw\2"),
    ("Hugging Face", "huggingface.co", re.compile(r"(/.+)/blob(/[^/]+/.+)"), r"\1/resolve\2"),
)
_SIGNED_IN = {
    "drive.google.com": ("a page of Google Drive", re.compile(r"/(file|drive|open)\b.*")),
    "docs.google.com": ("a page of Google Docs", re.compile(r"/.*/(edit|view)\b.*")),
    "kaggle.com": ("a page of Kaggle, which gives files to people who have signed in", re.compile(r"/(?!api/).*")),
    "onedrive.live.com": ("a page of OneDrive", re.compile(r"/(?!download).*")),
}


def share_page(url: str) -> SharePage | None:
    """What is known of an address by its form alone; None: nothing speaks against it."""
    parts = urlsplit(url)
    host = (parts.hostname or "").removeprefix("www.")
    if host == "github.com" and dict(parse_qsl(parts.query)).get("raw") in {"true", "1"}:
        return None  # it leads on from there to the file
    for site, name, pattern, direct in _PATHS:
        if host == name and pattern.fullmatch(parts.path):
            found = urlunsplit(parts._replace(path=pattern.sub(direct, parts.path)))
            return _offered(f"This is the {site} page about the file, not the file itself.", found)
    if host == "dropbox.com" and parts.path.startswith(("/s/", "/scl/fi/")):
        return _dropbox(url)
    known = _SIGNED_IN.get(host)
    if known is not None and known[1].fullmatch(parts.path):
        return SharePage(message=f"This is {known[0]}, not a file.", hint=_BY_HAND)
    return None


def _dropbox(url: str) -> SharePage | None:
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    if query.get("dl") == "1" or query.get("raw") == "1":
        return None
    direct = urlunsplit(parts._replace(query=urlencode({**query, "dl": "1"})))
    return _offered("This is the Dropbox page about the file, not the file itself.", direct)


def _offered(message: str, direct_url: str) -> SharePage:
    return SharePage(message=message, hint=_OFFER.format(direct_url), direct_url=direct_url)


def page_answered(url: str) -> SharePage:
    """What to say where a web page came instead of data."""
    host = urlsplit(url).hostname or "The server"
    return share_page(url) or SharePage(
        message=f"{host} answered with a web page, not with data.",
        hint="Open the address in your browser: look for the download's own address (often behind a button), or "
        "download the file there and upload it here.",
    )
