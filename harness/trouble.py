"""Known causes behind unexpected errors (full disk, database away, NUL in a text), told as such and not as a crash."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus

from django.contrib.sessions.exceptions import SessionInterrupted
from django.contrib.sessions.middleware import SessionMiddleware
from django.db.utils import DatabaseError, DataError
from django.http import HttpRequest, HttpResponse, HttpResponseBase

from harness.database import DATABASE_AWAY, is_away
from harness.errors import HarnessError, Invalid, NoSpace, Unavailable
from harness.full_disk import INSTALLATION, full_disk_of, links_of

_log = logging.getLogger(__name__)


def trouble_of(error: BaseException) -> HarnessError | None:
    """The words for an unexpected error; None where it is a fault of ours."""
    links = list(links_of(error))
    if any(_is_nul(link) for link in links):
        return _nul()
    if any(isinstance(link, OverflowError) for link in links):
        return Invalid(
            "A number or a time is out of the range that can be kept; nothing was changed.",
            hint="Give one nearer to now, or nearer to zero.",
        )
    place = full_disk_of(error)
    if place == INSTALLATION:
        return NoSpace(
            "The disk of this installation is full; nothing was changed.",
            hint="Free space on the disk of DLH_HOME (old jobs, datasets, logs), or ask the operator; then try again.",
        )
    if place:
        return NoSpace(
            f"The disk of the {place} is full; nothing was changed.",
            hint=f"Nothing that runs is lost. Tell the operator: free space where the {place} keeps its data.",
        )
    return _away() if any(is_away(link) for link in links) else None


@contextmanager
def trouble_told() -> Iterator[None]:
    """Raise such an error as the refusal that tells of it: for who has something to keep until it can be done."""
    try:
        yield
    except Exception as error:
        trouble = None if isinstance(error, HarnessError) else trouble_of(error)
        if trouble is None:
            raise
        if trouble.status >= HTTPStatus.INTERNAL_SERVER_ERROR:  # not a fault in what a person gave
            _log.error("%s", trouble.message, exc_info=error)
        raise trouble from error


def _away() -> HarnessError:
    return Unavailable(
        "The database does not answer: it is being restarted, or something else holds it.",
        hint="Nothing that runs is lost. Try again in a few seconds; if it lasts, tell the operator.",
        code="database_away",
    )


def _nul() -> HarnessError:
    return Invalid("A text holds a NUL character; nothing was changed.", hint="Remove it and try again.")


def _refuse_nul(request: HttpRequest) -> HttpResponse:
    if request.path.startswith("/api/"):
        from harness.api.errors import error_response

        return error_response(_nul())
    from harness.pages.web import error_answer

    return error_answer(request, _nul())


def _form_holds_nul(request: HttpRequest) -> bool:
    """SQLite would keep it, and PostgreSQL refuse the backup that it came in. Files travel by other forms than this."""
    is_form = request.method == "POST" and request.content_type == "application/x-www-form-urlencoded"
    return is_form and (b"%00" in request.body or b"\0" in request.body)


def _is_nul(error: BaseException) -> bool:
    """PostgreSQL stores no NUL in a text, nor its escape in JSON; SQLite takes both."""
    return isinstance(error, DataError) and any(word in str(error) for word in ("NUL (0x00)", "\\u0000"))


class TroubleMiddleware:
    """Answers such errors of pages in words; the API has its own handler."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """No address and no form of ours holds a NUL: it reaches neither database nor disk."""
        if "\0" in request.path or "%00" in request.META.get("QUERY_STRING", "") or _form_holds_nul(request):
            return _refuse_nul(request)
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        """A readable page; plain text where not even that can be made."""
        return trouble_page(request, error)


def trouble_page(request: HttpRequest, error: Exception) -> HttpResponse | None:
    """The page that says so, or the API's answer; None where it is a fault of ours."""
    trouble = trouble_of(error)
    if trouble is None:
        return None
    if request.path.startswith("/api/"):
        from harness.api.errors import crash_answer

        return crash_answer(request, error)
    trouble_log(_log, request, error, trouble)
    try:
        from harness.pages.web import error_answer

        return error_answer(request, trouble)
    except Exception as second:
        _log.error("no page for it either: %s", second)
        text = f"{trouble.message}\n{trouble.hint}\n"
        return HttpResponse(text, status=trouble.status, content_type="text/plain; charset=utf-8")


def trouble_log(log: logging.Logger, request: HttpRequest, error: Exception, trouble: HarnessError) -> None:
    """One line; what a person gave wrong is none for whoever looks for errors.

    A number out of range is mostly such, but may be a fault of ours in reckoning.
    """
    is_ours = trouble.status >= HTTPStatus.INTERNAL_SERVER_ERROR
    is_doubtful = any(isinstance(link, OverflowError) for link in links_of(error))
    level = logging.ERROR if is_ours else logging.WARNING if is_doubtful else logging.INFO
    log.log(level, "%s %s: %s", request.method, request.path, error)


class ToldSessionMiddleware(SessionMiddleware):
    """Django's, which takes each write that a session's row refuses for a session that was deleted meanwhile: "Bad
    Request" to who signs in while the disk is full."""

    def process_response(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        """Keep the session; what hinders it is told as elsewhere."""
        try:
            return super().process_response(request, response)
        except (SessionInterrupted, DatabaseError, *DATABASE_AWAY) as error:
            if told := trouble_page(request, error):
                return told
            raise
