"""What every view shares: sign-in, errors as readable pages, messages after a change."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any
from urllib.parse import urlsplit

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_http_methods

from harness.accounts.access import project_refused, projects_with_role, role_of, role_rank
from harness.accounts.models import Project, Role, User
from harness.csv import csv_chunks
from harness.errors import Conflict, Forbidden, HarnessError, NotFound
from harness.pages.undo import undo_tag
from harness.responses import chunks_response

View = Callable[..., HttpResponseBase]
SHOWN = frozenset({400, 403, 404, 409, 413, 422})
"""Statuses of refusals that app.js puts into the page: what comes with any other may be a proxy's own page."""


def page(*methods: str) -> Callable[[View], View]:
    """Mark a view: signed-in people only, these HTTP methods only, `HarnessError` becomes a readable answer."""

    def mark(view: View) -> View:
        @wraps(view)
        def answer(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            try:
                return view(request, *args, **kwargs)
            except HarnessError as error:
                return error_answer(request, error, in_part=part_status(error))

        return _for_signed_in(require_http_methods(methods or ("GET", "HEAD"))(answer))

    return mark


def form_page(shown_on: str, look: Callable[..., object] | None = None, **fixed: str) -> Callable[[View], View]:
    """Mark a view that takes a form and may answer with a whole page, such as the form as it was refused. That page
    stands at the form's own address: loaded anew, or opened by its link, it leads to the page that the form is on.

    `look`: what has to be there and seen for that page, by the arguments that both addresses have; `fixed`: its others.
    """

    def mark(view: View) -> View:
        @wraps(view)
        def answer(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            if request.method == "POST":
                return view(request, *args, **kwargs)
            if look is not None:
                look(user=person(request), **kwargs)
            to = reverse(shown_on, kwargs={**(kwargs if look is not None else {}), **fixed})
            return redirect(with_query(request, to))

        return page("GET", "HEAD", "POST")(answer)

    return mark


def _for_signed_in(view: View) -> View:
    """Like `login_required`; after the session has ended a part of a page loads the page anew instead: the way to sign
    in would else be drawn inside that part. A form that is sent then leads back to its page: its own address may show
    nothing."""
    whole = login_required(view)

    @wraps(view)
    def answer(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if request.user.is_authenticated or (request.method in ("GET", "HEAD") and not asks_part(request)):
            return whole(request, *args, **kwargs)
        if asks_part(request):
            return HttpResponse(status=401, headers={"HX-Refresh": "true"})
        if "text/html" not in request.headers.get("Accept", "text/html"):  # of a script, which would take that for done
            error = Forbidden(
                _SIGNED_OUT, hint="What you typed is still here: copy it, then sign in.", code="signed_out"
            )
            return JsonResponse({"error": error.to_dict()}, status=401)
        messages.warning(request, _SIGNED_OUT, extra_tags="Sign in, then do it again.")
        return redirect_to_login(_sent_from(request))

    return answer


_SIGNED_OUT = "You are not signed in any more: nothing was changed."


def _sent_from(request: HttpRequest) -> str:
    """The page of this portal that a form stands on; the home page where the browser does not say."""
    page_of_form = urlsplit(request.headers.get("Referer", ""))
    if page_of_form.netloc != request.get_host():
        return reverse("home")
    return page_of_form.path + (f"?{page_of_form.query}" if page_of_form.query else "")


def number_read(text: str, digits_max: int = 6) -> int | None:
    """The whole number from 0 that was typed or stands in the address; none for anything else."""
    return int(text) if text.isdecimal() and len(text) <= digits_max else None


def page_number(request: HttpRequest, key: str = "page") -> int:
    """Which page of a list the address asks for; the first one for what is no page. `key`: of a page's second list."""
    return number_read(request.GET.get(key, "")) or 1


def with_query(request: HttpRequest, to: str) -> str:
    """The address with what the request's own says besides: which page of a list, by which filter."""
    return to + (f"?{request.GET.urlencode()}" if request.GET else "")


def next_address(request: HttpRequest) -> str:
    """Where to go on to afterwards, as the address says; empty where it names nothing of this portal."""
    to = request.GET.get("next", "")
    known = url_has_allowed_host_and_scheme(to, allowed_hosts={request.get_host()}, require_https=request.is_secure())
    return to if known else ""


def person(request: HttpRequest) -> User:
    """The signed-in person."""
    if not isinstance(request.user, User):
        raise NotFound("Not found, or not visible to you.")
    return request.user


def asks_part(request: HttpRequest) -> bool:
    """Whether a page asks for a part of itself; a browser that opens the address asks for the whole."""
    return "HX-Request" in request.headers


def show(
    request: HttpRequest, template: str, context: dict[str, Any], *, nav: str = "", status: int = 200
) -> HttpResponse:
    """Render a page inside the shell."""
    shell = {"nav": nav, "can_create": any_writable(person(request))}
    return render(request, template, {**shell, **context}, status=status)


def part_status(refused: HarnessError | None) -> int:
    """Of a part of a page that says what was refused, if anything: one with which the browser shows it."""
    if refused is None:
        return 200
    return refused.status if refused.status in SHOWN else Conflict.status


def error_answer(request: HttpRequest, error: HarnessError, *, in_part: int = 0) -> HttpResponse:
    """The error as a fragment for htmx (with the status `in_part`, where one is given), else as a page; says what, why
    and what to do."""
    if asks_part(request):
        return render(request, "parts/error.html", {"error": error}, status=in_part or error.status)
    name = {403: "403.html", 404: "404.html"}.get(error.status, "error.html")
    return render(request, name, {"error": error}, status=error.status)


def change(
    request: HttpRequest,
    action: Callable[[], Any],
    *,
    done: str,
    to: str,
    failed_to: str | None = None,
    undo: str = "",
) -> HttpResponse:
    """Do one change, say how it went, and send the browser on. Refusals keep their own pages.

    `undo`: address that takes it back, for a button beside what was done.
    """
    try:
        action()
    except (Forbidden, NotFound):
        raise
    except HarnessError as error:
        messages.error(request, error.message, extra_tags=error.hint)
        return redirect(failed_to or to)
    if done:
        messages.success(request, done, extra_tags=undo_tag(undo) if undo else "")
    return redirect(to)


def chart_csv(request: HttpRequest, charts: list[dict[str, Any]], name: str) -> HttpResponseBase:
    """The figures of one of a page's charts (`chart_card`). Raises `NotFound`."""
    chart = next((chart for chart in charts if chart["id"] == name), None)
    if chart is None:
        raise NotFound("There is no such chart here.")
    chunks = csv_chunks(chart["columns"], chart["data"]["rows"])
    return chunks_response(request, chunks, content_type="text/csv; charset=utf-8", filename=f"{name}.csv")


def can(user: User, project: Project, role: Role) -> bool:
    """Whether to offer a button; the service decides again."""
    held = role_of(user, project)
    return held is not None and role_rank(held) >= role_rank(role)


def can_delete(user: User, project: Project, owner_id: int) -> bool:
    """Whether to offer, to who may change things there, to delete what belongs to this person; the service decides
    again."""
    return owner_id == user.pk or can(user, project, Role.ADMIN)


def any_writable(user: User) -> bool:
    """Whether the person may add things anywhere."""
    return projects_with_role(user, Role.MEMBER).exists()


def writable_check(user: User) -> None:
    """Pass for whoever may add things anywhere. Raises `Forbidden`."""
    if not any_writable(user):
        raise Forbidden(
            "You are not a member of any project that you can add things to.",
            hint=f"{'Ask' if project_refused(user) else 'Create your own project, or ask'} a project admin for the "
            "role member.",
        )
