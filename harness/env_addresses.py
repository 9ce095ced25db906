"""Addresses from the environment as the browser, Django and the broker's client write them."""

from __future__ import annotations

from contextlib import suppress
from ipaddress import IPv6Address
from urllib.parse import urlsplit

from harness.env import SettingsError, env_text

_PORTS = {"http": 80, "https": 443}
_BROKER_SCHEMES = ("redis", "rediss", "unix")


def host_written(host: str) -> str:
    """A host as it stands in an address and in the header `Host`: that of IPv6 short and in brackets."""
    with suppress(ValueError):
        return f"[{IPv6Address(host.strip('[]')).compressed}]"
    return host


def browser_origin(url: str) -> str:
    """The origin of a page at this address as browsers tell it: in small letters, a usual port left out."""
    parts = urlsplit(url)
    port = "" if parts.port in {None, _PORTS[parts.scheme]} else f":{parts.port}"
    return f"{parts.scheme}://{host_written(parts.hostname or '')}{port}"


def env_broker(name: str, default: str = "") -> str:
    """The address of a broker; the default where nothing is set. Raises `SettingsError`."""
    url = env_text(name).strip() or default
    if url and not _is_broker(url):
        raise SettingsError(f"{name} must look like redis://:password@host:6379/0; letters such as / in it as %2F")
    return url


def _is_broker(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in _BROKER_SCHEMES and (parts.scheme == "unix" or bool(parts.hostname)) and parts.port != 0
    except ValueError:
        return False
