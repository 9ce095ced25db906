"""Whose disk is full, where that is behind an error: the database or the broker may lie on another machine."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator

import redis
from django.conf import settings
from django.db.utils import OperationalError

from harness.store_disk import store_free_bytes

INSTALLATION = "installation"
_CODES = {errno.ENOSPC, errno.EDQUOT}
_SQLSTATE = "53100"
"""PostgreSQL's code."""
_FULL_BYTES = 1 << 20
"""With less than this left, a database or broker that cannot write has no other reason."""


def full_disk_of(error: BaseException) -> str:
    """`installation`, `database` or `broker`; empty where the error has another cause."""
    links = list(links_of(error))
    if any(_is_here(link) for link in links):
        return INSTALLATION
    return next(filter(None, map(_elsewhere, links)), "")


def is_full_here() -> bool:
    """Whether the disk of this installation has no room left, as far as this process sees it."""
    return _free_bytes() < _FULL_BYTES


def links_of(error: BaseException) -> Iterator[BaseException]:
    """The error and what it comes from."""
    link: BaseException | None = error
    while link is not None:
        yield link
        link = link.__cause__ or link.__context__


def _is_here(error: BaseException) -> bool:
    if isinstance(error, OSError) and error.errno in _CODES:
        return True
    return isinstance(error, OperationalError | redis.ResponseError) and is_full_here()


def _elsewhere(error: BaseException) -> str:
    """What says itself that its disk is full: `database` or `broker`; else empty."""
    if getattr(error, "sqlstate", None) == _SQLSTATE:
        return "database"
    is_broker = isinstance(error, redis.ResponseError) and os.strerror(errno.ENOSPC) in str(error)
    return "broker" if is_broker else ""


def _free_bytes() -> int:
    """On the fuller of the disks; of a store's that does not answer nobody knows it."""
    try:
        at_home = shutil.disk_usage(settings.HOME).free
    except OSError:
        return 0
    at_store = store_free_bytes(settings.STORE)
    return at_home if at_store is None else min(at_home, at_store)
