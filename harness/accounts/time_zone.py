"""In which time zone people are told moments where no browser does it: one they chose, else their browser's, else UTC.

The names are those of this system's zone data (Debian: package `tzdata`); without any, everybody is told UTC.
"""

from __future__ import annotations

from datetime import UTC, tzinfo
from functools import cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from harness.accounts.models import User
from harness.errors import Invalid

_REGIONS = ("Africa", "America", "Antarctica", "Arctic", "Asia", "Atlantic", "Australia", "Europe", "Indian", "Pacific")
_NOBODYS = {"Factory", "localtime"}
"""The first stands for none at all, the second for whatever this machine is set to."""
_NOW_CALLED = {
    "Africa/Asmera": "Africa/Asmara",
    "America/Buenos_Aires": "America/Argentina/Buenos_Aires",
    "America/Catamarca": "America/Argentina/Catamarca",
    "America/Coral_Harbour": "America/Atikokan",
    "America/Cordoba": "America/Argentina/Cordoba",
    "America/Godthab": "America/Nuuk",
    "America/Indianapolis": "America/Indiana/Indianapolis",
    "America/Jujuy": "America/Argentina/Jujuy",
    "America/Louisville": "America/Kentucky/Louisville",
    "America/Mendoza": "America/Argentina/Mendoza",
    "Asia/Calcutta": "Asia/Kolkata",
    "Asia/Katmandu": "Asia/Kathmandu",
    "Asia/Rangoon": "Asia/Yangon",
    "Asia/Saigon": "Asia/Ho_Chi_Minh",
    "Atlantic/Faeroe": "Atlantic/Faroe",
    "Europe/Kiev": "Europe/Kyiv",
    "Pacific/Enderbury": "Pacific/Kanton",
    "Pacific/Ponape": "Pacific/Pohnpei",
    "Pacific/Truk": "Pacific/Chuuk",
}
"""Names that browsers keep for good (those of CLDR) and that zone data need not have any more."""


@cache
def zones_known() -> frozenset[str]:
    """Every name that may be chosen."""
    return frozenset(available_timezones() - _NOBODYS)


def zones_by_region() -> dict[str, list[str]]:
    """What to choose from: zones named after a place, under the name that it has today, by region."""
    names = sorted(zones_known() - _NOW_CALLED.keys())
    return {region: [name for name in names if name.startswith(f"{region}/")] for region in _REGIONS}


def browser_time_zone_name(user: User) -> str:
    """The zone of the person's browser; empty where none was told."""
    return _today(user.browser_time_zone)


def time_zone_of(user: User) -> tzinfo:
    """The zone to tell the person moments in."""
    return _zone(user.time_zone or browser_time_zone_name(user))


def browser_time_zone_of(user: User) -> tzinfo:
    """The zone that pages tell the person moments in."""
    return _zone(browser_time_zone_name(user))


def _zone(name: str) -> tzinfo:
    try:
        return ZoneInfo(name) if name else UTC
    except (ZoneInfoNotFoundError, OSError, ValueError):  # chosen where there was zone data that this machine lacks
        return UTC


def time_zone_choose(*, user: User, name: str) -> None:
    """Tell the person moments in that zone from now on; empty: in that of their browser. Raises `Invalid`."""
    if name:
        _check(name)
    User.objects.filter(pk=user.pk).update(time_zone=name)
    user.time_zone = name


def browser_time_zone_note(*, user: User, name: str) -> None:
    """Keep what the person's browser says of itself, as it says it. Raises `Invalid`."""
    _check(_today(name))
    User.objects.filter(pk=user.pk).update(browser_time_zone=name)


def _today(name: str) -> str:
    return _NOW_CALLED.get(name, name)


def _check(name: str) -> None:
    if name not in zones_known():
        raise Invalid(f"There is no time zone {name[:64]!r}.", field="time_zone", hint="Such as Europe/Berlin.")
