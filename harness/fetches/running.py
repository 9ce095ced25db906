"""Control's part: takes fetches that are due, brings their bytes into the upload, and makes the dataset of it.

Bytes take the way of any upload: its limits, the quota, the durable offset, the hash and the reading are the same.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from datetime import timedelta

from django.conf import settings
from django.utils import timezone

from harness.accounts.access import require
from harness.accounts.models import Role
from harness.beside import Beside
from harness.datasets.services import upload_finish
from harness.datasets.uploads import upload_restart
from harness.errors import Conflict, Forbidden, HarnessError, NoSpace, NotFound
from harness.fetches import claims
from harness.fetches.bringing import Bringing
from harness.fetches.models import Fetch, FetchState
from harness.fetches.trouble import FetchChanged, FetchRefused, FetchTrouble

WHOLE = timedelta(hours=24)
"""From its beginning, its tries and waits among them."""
RESTARTS_MAX = 3
_log = logging.getLogger(__name__)


def fetches_begin() -> None:
    """Have what is due fetched by a thread of its own, unless there are enough: servers may be slow."""
    if settings.FETCHES_AT_ONCE > 0 and claims.due().exists():
        _fetching.begin()


def _fetches_run() -> None:
    while fetch_next():
        continue


_fetching = Beside("fetch", _fetches_run, at_most=settings.FETCHES_AT_ONCE)


def fetch_next() -> bool:
    """Fetch one that is due; whether there was one."""
    fetch = claims.claim()
    if fetch is None:
        return False
    try:
        _run(fetch)
    except claims.Lost:
        _log.info("fetch %s was given up, or somebody else is at it", fetch.pk)
    return True


def _run(fetch: Fetch) -> None:
    """Raises `Lost`."""
    had_bytes = fetch.upload.offset_bytes
    try:
        _bring(fetch)
    except FetchRefused as error:
        _fail(fetch, error)
    except FetchChanged as error:
        _begin_anew(fetch, error)
    except FetchTrouble as error:
        _later(fetch, error, had_bytes)
    except NoSpace as error:  # there may be room again: what has arrived is kept
        claims.failed(fetch, _problem(error))
    except Conflict as error:  # who was thought to be gone still writes
        _later(fetch, FetchTrouble(error.code, error.message, error.hint), had_bytes)
    except HarnessError as error:
        _fail(fetch, FetchRefused(error.code, error.message, error.hint))
    except claims.Lost:
        raise
    except Exception:  # a database that was away, a disk: it may pass, and what has arrived stays
        _log.exception("fetch %s broke off", fetch.pk)
        hint = "An admin finds the reason in control's log."
        _later(fetch, FetchTrouble("broken_off", "Fetching broke off.", hint), had_bytes)


def _bring(fetch: Fetch) -> None:
    """Raises `FetchTrouble`, `HarnessError`, `Lost`."""
    _right_check(fetch)
    claims.killed_check(fetch)
    if fetch.begun_at is not None and timezone.now() - fetch.begun_at > WHOLE:
        raise FetchRefused("too_slow", "The file has not arrived within a day.")
    if not _is_whole(fetch):
        Bringing(fetch).run()
        _right_check(fetch)
    with claims.held(fetch):
        upload_finish(upload=fetch.upload, name=fetch.upload.name, options=fetch.upload.options)
    claims.write(fetch, state=FetchState.DONE, problem=None, rate_bytes_s=0.0, url=fetch.shown_url)


def _right_check(fetch: Fetch) -> None:
    """Who was put out of the project meanwhile adds nothing to it. Raises `FetchRefused`."""
    try:
        require(fetch.upload.owner, fetch.upload.project, Role.MEMBER)
    except (NotFound, Forbidden) as error:
        name = fetch.upload.project.name
        raise FetchRefused("forbidden", f"You can no longer add anything to the project {name}.") from error


def _is_whole(fetch: Fetch) -> bool:
    """All of it had arrived when control was killed."""
    return fetch.upload.dataset_id is not None or fetch.upload.offset_bytes == fetch.total_bytes


def _later(fetch: Fetch, trouble: FetchTrouble, had_bytes: int) -> None:
    """Try again, unless it was tried too often. Raises `Lost`."""
    if claims.brought(fetch, had_bytes):
        fetch.tries = 0
    if not claims.later(fetch, trouble):
        claims.failed(fetch, trouble.to_dict())


def _begin_anew(fetch: Fetch, changed: FetchChanged) -> None:
    """What has arrived is of another file. Raises `Lost`."""
    if fetch.restarts >= RESTARTS_MAX:
        hint = "Ask whoever maintains it for an address whose file does not change."
        _fail(fetch, FetchRefused("changed", f"{changed.message} This happened {RESTARTS_MAX + 1} times.", hint))
        return
    _forget(fetch)
    claims.write(fetch, restarts=fetch.restarts + 1)
    _later(fetch, changed, 0)


def _fail(fetch: Fetch, refused: FetchTrouble) -> None:
    """Nothing more will come, so what has come holds no room. Raises `Lost`."""
    _forget(fetch)
    claims.failed(fetch, refused.to_dict())


def _forget(fetch: Fetch) -> None:
    claims.write(fetch, validator="", total_bytes=None)
    with suppress(NotFound, Conflict):  # it expired, or is held; then the next try writes over it
        upload_restart(upload=fetch.upload)


def _problem(error: HarnessError) -> dict[str, str]:
    return {"code": error.code, "message": error.message, "hint": error.hint}
