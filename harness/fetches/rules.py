"""Which addresses datasets may be fetched from."""

from __future__ import annotations

import re
from urllib.parse import quote, urlsplit, urlunsplit

import idna
from django.conf import settings
from django.utils import timezone

from harness.errors import Conflict, Invalid
from harness.fetches.claims import STALE
from harness.fetches.models import Fetch, FetchState
from harness.fetches.share_pages import share_page
from harness.outward.address import AddressRefused, Rules, number_check, url_read

URL_LETTERS_MAX = 4000
"""Signed addresses are long."""
NO_WEIGHTS = "Weights files are uploaded, not fetched."
NO_WEIGHTS_HINT = "Download the file, then upload it: dlh weights add FILE, or on the page Upload data."
_HOST_LETTERS = re.compile(r"[A-Za-z0-9_\-\u0080-\U0010ffff]+")
_LABEL_LETTERS_MAX = 63
_PLAIN = "!#$%&'()*+,/:;=?@[]~"


def fetch_rules() -> Rules:
    """What the settings allow."""
    return Rules(
        what="a dataset's address",
        setting="DLH_FETCH_NETWORKS",
        networks=settings.FETCH_NETWORKS,
        letters_max=URL_LETTERS_MAX,
        http_too=True,
    )


def fetch_check() -> None:
    """Pass where this installation fetches anything. Raises `Conflict`."""
    if settings.FETCHES_AT_ONCE <= 0:
        raise Conflict(
            "This installation fetches nothing from web addresses.",
            code="fetch_off",
            hint="Download the file and upload it here, or ask an admin (DLH_FETCHES_AT_ONCE).",
        )


def fetch_problem(fetch: Fetch) -> dict[str, str] | None:
    """Why nothing arrives: of the last try, or that nothing is fetched any more."""
    if not is_off(fetch):
        return fetch.problem
    days = f"{settings.UPLOAD_EXPIRES_DAYS} day{'s' if settings.UPLOAD_EXPIRES_DAYS != 1 else ''}"
    return {
        "code": "fetch_off",
        "message": "This installation fetches nothing from web addresses any more.",
        "hint": "It goes on once an admin allows it again (DLH_FETCHES_AT_ONCE), and is removed where nothing has "
        f"arrived for {days}; or upload the file.",
    }


def is_off(fetch: Fetch) -> bool:
    """Whether nobody goes on with it since fetches were turned off; who was at it then may still be."""
    if settings.FETCHES_AT_ONCE > 0 or not fetch.is_open:
        return False
    is_at_it = fetch.beat_at is not None and fetch.beat_at >= timezone.now() - STALE
    return fetch.state == FetchState.WAITING or not is_at_it


def url_check(text: str) -> str:
    """A pasted address as it is asked for. Raises `Invalid` for what is none, or is known to be no file."""
    try:
        url = _plain(text.strip())
        rules = fetch_rules()
        number_check(url_read(url, rules), rules)
    except AddressRefused as error:
        raise Invalid(str(error), field="url", hint="Copy the address of the file itself.") from error
    if shown := share_page(url):
        details = {"direct_url": shown.direct_url} if shown.direct_url else None
        raise Invalid(shown.message, field="url", code="share_page", hint=shown.hint, details=details)
    return url


def _plain(text: str) -> str:
    """Letters of other scripts and spaces written as browsers do. Raises `AddressRefused`."""
    if len(text) > URL_LETTERS_MAX or not text.isprintable():
        raise AddressRefused(f"A dataset's address must be a URL of at most {URL_LETTERS_MAX} characters.")
    try:
        parts = urlsplit(text)
        host = parts.netloc if parts.netloc.isascii() else _host_plain(parts.netloc)
    except ValueError as error:
        raise AddressRefused("This is not a valid URL.") from error
    path, query = (quote(part, safe=_PLAIN) for part in (parts.path, parts.query))
    return urlunsplit((parts.scheme, host, path, query, ""))


def _host_plain(netloc: str) -> str:
    """The name as browsers ask for it (IDNA 2008): by Python's own codec (2003) `straße` would be another's `strasse`.

    Raises `AddressRefused`.
    """
    user, at, rest = netloc.rpartition("@")
    name, colon, port = rest.partition(":")
    try:
        mapped = idna.uts46_remap(name, std3_rules=False)
        plain = ".".join(map(_label_plain, mapped.removesuffix(".").split(".")))
    except ValueError as error:
        message = "The host of this address cannot be written in ASCII here: write the host in its xn-- form."
        raise AddressRefused(message) from error
    return f"{user}{at}{plain}{'.' if mapped.endswith('.') else ''}{colon}{port}"


def _label_plain(label: str) -> str:
    """What browsers take though IDNA 2008 does not: hyphens and `_` in ASCII, and signs such as `☃`.

    Raises `ValueError`.
    """
    if not _HOST_LETTERS.fullmatch(label):
        raise ValueError(label)
    if label.isascii():
        return label
    try:
        return idna.alabel(label).decode()
    except idna.InvalidCodepoint:
        plain = f"xn--{label.encode('punycode').decode()}"
    if len(plain) > _LABEL_LETTERS_MAX:
        raise ValueError(label)
    return plain
