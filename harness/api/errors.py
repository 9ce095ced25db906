"""Every error of the API in one shape: `{"error": {"code", "message", "hint", "field", "details"}}`."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import Any

from django.core.exceptions import RequestDataTooBig, SuspiciousOperation
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.http.multipartparser import MultiPartParserError
from django.http.request import RawPostDataException
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, HttpError, Throttled, ValidationError

from harness.errors import HarnessError, Invalid, TooLarge, Unavailable
from harness.ids import new_id
from harness.trouble import trouble_log, trouble_of

RETRY_AFTER_S = 5
_SEND_JSON = "Send JSON, with the header Content-Type: application/json."
_log = logging.getLogger(__name__)
_CODES = {400: "bad_request", 401: "unauthenticated", 403: "forbidden", 404: "not_found", 405: "method_not_allowed"}
_HINTS = {
    400: "Send strict JSON: names and texts in double quotes, no comments; /api/v1/docs describes each address.",
    401: "Sign in, or send `Authorization: Bearer <token>`; make a token on the page *Account*.",
}


def error_response(error: HarnessError) -> JsonResponse:
    """The error as a response with its own status."""
    return JsonResponse({"error": error.to_dict()}, status=error.status)


def plain_error(status: int, message: str, *, code: str = "", hint: str = "") -> JsonResponse:
    """An error that is no `HarnessError`, in the same shape."""
    body = HarnessError(
        message, hint=hint or _HINTS.get(status, ""), code=code or _CODES.get(status, "error")
    ).to_dict()
    return JsonResponse({"error": body}, status=status)


def _validation(_: HttpRequest, error: ValidationError) -> HttpResponse:
    problems: list[dict[str, Any]] = error.errors
    first = problems[0] if problems else {"field": None, "message": "The request is not valid.", "hint": ""}
    field, message = first["field"], str(first["message"])
    return error_response(
        Invalid(f"{field}: {message}" if field else message, hint=str(first["hint"]), field=field, details=problems)
    )


def _http(_: HttpRequest, error: HttpError) -> HttpResponse:
    cause = error.__cause__
    unread = error.status_code == 400 and isinstance(cause, ValueError)
    response = plain_error(error.status_code, f"The request's body cannot be read: {cause}." if unread else str(error))
    if isinstance(error, AuthenticationError):
        response["WWW-Authenticate"] = 'Bearer realm="deep learning harness"'
    return response


def _throttled(_: HttpRequest, error: Throttled) -> HttpResponse:
    wait_s = math.ceil(error.wait or 1)
    response = plain_error(429, "Too many requests.", code="throttled", hint=f"Try again in {wait_s} s.")
    response["Retry-After"] = str(wait_s)
    return response


def crash_answer(request: HttpRequest, error: Exception) -> HttpResponse:
    """For what was not foreseen: its known cause in words, else a number under which the log tells it."""
    if (trouble := trouble_of(error)) is not None:
        trouble_log(_log, request, error, trouble)
        response = error_response(trouble)
        if isinstance(trouble, Unavailable):
            response["Retry-After"] = str(RETRY_AFTER_S)
        return response
    mark = new_id()
    _log.error("request %s: %s %s", mark, request.method, request.path, exc_info=error)
    return plain_error(
        500,
        "Something went wrong on our side; it is not your fault.",
        code="internal",
        hint=f"Give the operator the number {mark}: the log has the details.",
    )


def _too_big(_: HttpRequest, error: Exception) -> HttpResponse:
    return error_response(TooLarge("The request body is too large.", hint="Send large files through /uploads."))


def _suspicious(_: HttpRequest, error: Exception) -> HttpResponse:
    return plain_error(400, "This request is not allowed.")


def _missing(_: HttpRequest, error: Exception) -> HttpResponse:
    return plain_error(404, "Not found, or not visible to you.")


def _no_form(_: HttpRequest, error: Exception) -> HttpResponse:
    return plain_error(400, "The body does not match its content type.", hint=_SEND_JSON)


def _no_json(_: HttpRequest, error: Exception) -> HttpResponse:
    return plain_error(415, "This address takes JSON.", code="content_type", hint=_SEND_JSON)


def error_handlers_add(api: NinjaAPI) -> None:
    """Register all handlers on the API."""
    handlers: dict[type[Exception], Callable[[HttpRequest, Any], HttpResponse]] = {
        HarnessError: lambda _, error: error_response(error),
        ValidationError: _validation,
        Throttled: _throttled,
        HttpError: _http,
        Http404: _missing,
        RequestDataTooBig: _too_big,
        MultiPartParserError: _no_form,
        RawPostDataException: _no_json,
        SuspiciousOperation: _suspicious,
        Exception: crash_answer,
    }
    for kind, handler in handlers.items():
        api.add_exception_handler(kind, handler)
