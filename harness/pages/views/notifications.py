"""What the signed-in person is told of, and where."""

from __future__ import annotations

from datetime import timedelta

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone

from harness.accounts.models import User
from harness.accounts.selectors import project_list
from harness.errors import Invalid
from harness.notify import selectors, services
from harness.notify.models import KINDS_CHOSEN, NotifyChoice
from harness.pages.notify_form import NotifyForm
from harness.pages.web import asks_part, change, form_page, page, person, show

LOOKED_AT = timedelta(seconds=10)
"""The page asks again while a message is sent within this time; a later try is not waited for."""


@page("GET", "HEAD")
def notifications(request: HttpRequest) -> HttpResponseBase:
    """The choice as a form, and the newest messages; asked for as a part, the messages alone."""
    user = person(request)
    if asks_part(request):
        return show(request, "accounts/notifications_sent.html", _sent(request))
    choice = selectors.choice_get(user=user)
    return _shown(request, _form(user, choice), choice)


def _form(user: User, choice: NotifyChoice) -> NotifyForm:
    """The form as it was saved last."""
    names = ("by_email", "webhook_url", *(kind.value for kind in KINDS_CHOSEN))
    watched = [project.slug for project in selectors.projects_watched(user=user)]
    return NotifyForm(initial={**{name: getattr(choice, name) for name in names}, "projects": watched})


def _shown(
    request: HttpRequest, form: NotifyForm, choice: NotifyChoice, *, secret: str = "", status: int = 200
) -> HttpResponseBase:
    user = person(request)
    form.set_person(project_list(user=user), email=user.email, obstacle=services.email_obstacle(user))
    is_told = choice.by_email or bool(choice.webhook_url)
    context = {"form": form, "choice": choice, "secret": secret, "is_told": is_told, **_sent(request)}
    response = show(request, "accounts/notifications.html", context, status=status)
    response["Cache-Control"] = "no-store"
    return response


def _sent(request: HttpRequest) -> dict[str, object]:
    rows = list(selectors.delivery_list(user=person(request)))
    soon = timezone.now() + LOOKED_AT
    return {"deliveries": rows, "is_moving": any(row.ended_at is None and row.due_at < soon for row in rows)}


@form_page("notifications")
def notifications_save(request: HttpRequest) -> HttpResponseBase:
    """Keep what was chosen; the secret of a new webhook is in this answer and nowhere else."""
    user = person(request)
    form = NotifyForm(request.POST)
    form.set_person(project_list(user=user), email=user.email, obstacle=services.email_obstacle(user))
    if not form.is_valid():
        return _shown(request, form, selectors.choice_get(user=user), status=422)
    try:
        choice, secret = services.choice_update(user=user, changes=form.cleaned_data)
    except Invalid as error:
        form.add_error(error.field if error.field in form.fields else None, f"{error.message} {error.hint}")
        return _shown(request, form, selectors.choice_get(user=user), status=422)
    if secret:
        return _shown(request, form, choice, secret=secret)
    messages.success(request, "Saved.")
    return redirect("notifications")


@form_page("notifications")
def notifications_secret(request: HttpRequest) -> HttpResponseBase:
    """Make a new secret of the webhook; it is in this answer and nowhere else."""
    user = person(request)
    secret = services.webhook_secret_renew(user=user)
    choice = selectors.choice_get(user=user)
    return _shown(request, _form(user, choice), choice, secret=secret)


@page("POST")
def notifications_test(request: HttpRequest) -> HttpResponseBase:
    """Have a test sent; the page says what becomes of it."""
    return change(
        request,
        lambda: services.delivery_test(user=person(request)),
        done="A test is on its way; its outcome appears below.",
        to=reverse("notifications"),
    )
