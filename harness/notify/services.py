"""Write what a person chose: where they are told, of what, and tests of it. Everybody chooses for themselves alone."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone
from django.utils.crypto import salted_hmac

from harness.accounts.access import require_write, token_of, visible_projects
from harness.accounts.models import Project, User
from harness.errors import Conflict, Forbidden, Invalid, NotFound, TooMany
from harness.ids import new_id
from harness.moments import moment_words
from harness.notify.messages import Message
from harness.notify.models import KINDS_CHOSEN, Channel, Delivery, Kind, NotifyChoice
from harness.notify.outbox import channels_of, deliveries_add, email_possible
from harness.notify.webhook import webhook_rules
from harness.outward.address import AddressRefused, number_check, url_read

SECRET_PREFIX = "dlhw_"  # noqa: S105  (marks our secrets for scanners; no secret itself)
TESTS_MAX, TESTS_IN = 5, timedelta(minutes=10)
_SWITCHES = ("by_email", *(kind.value for kind in KINDS_CHOSEN))


def require_whole(user: User) -> None:
    """Pass unless it is asked with a token for one project: this is about all of the person's. Raises `Forbidden`."""
    token = token_of(user)
    if token and token.project_id:
        raise Forbidden("This token is for one project only.", hint="Use a token without a project, or sign in.")


def choice_update(*, user: User, changes: Mapping[str, Any]) -> tuple[NotifyChoice, str]:
    """Change what is given of `by_email`, the kinds, `webhook_url` and `projects` (slugs of those to watch).

    The second value is the secret of a webhook that is new, shown once; else empty. Raises `Forbidden`, `Invalid`,
    `NotFound`.
    """
    require_write(user)
    require_whole(user)
    switches = {name: bool(value) for name, value in changes.items() if name in _SWITCHES}
    if switches.get("by_email") and not email_possible(user):
        message, hint = _no_email(user)
        raise Invalid(message, field="by_email", hint=hint)
    url = changes.get("webhook_url")
    if url:
        url = _url_checked(str(url).strip())
    watched = _projects(user, changes["projects"]) if "projects" in changes else None
    with transaction.atomic():
        NotifyChoice.objects.get_or_create(user=user)
        choice = NotifyChoice.objects.select_for_update().select_related("user").get(pk=user.pk)
        for name, value in switches.items():
            setattr(choice, name, value)
        is_new = bool(url) and url != choice.webhook_url
        if url is not None:
            choice.webhook_url = url
        if is_new:
            choice.webhook_nonce = secrets.token_urlsafe(32)
        choice.save()
        if watched is not None:
            # Those in the trash, which are not offered, are watched again once they are restored.
            choice.projects.set([*watched, *choice.projects.exclude(deleted_at=None)])
    return choice, webhook_secret(choice) if is_new else ""


def _no_email(user: User) -> tuple[str, str]:
    if settings.SMTP is None:
        return (
            "This installation does not send e-mail.",
            "Ask an admin to set a mail server (DLH_SMTP_HOST), or use a webhook.",
        )
    return "Your account has no e-mail address.", f"An admin gives it one: dlh people email {user.username} ADDRESS."


def email_obstacle(user: User) -> str:
    """Why the person cannot be told by e-mail, and who changes it; empty: they can."""
    return "" if email_possible(user) else " ".join(_no_email(user))


def _url_checked(url: str) -> str:
    rules = webhook_rules(settings.WEBHOOK_NETWORKS, http_too=settings.WEBHOOK_HTTP)
    try:
        number_check(url_read(url, rules), rules)
    except AddressRefused as error:
        raise Invalid(str(error), field="webhook_url", hint="Copy the address that the receiver gives you.") from error
    return url


def _projects(user: User, slugs: Iterable[str]) -> list[Project]:
    wanted = set(slugs)
    found = list(visible_projects(user).filter(slug__in=wanted))
    if missing := sorted(wanted - {project.slug for project in found}):
        raise NotFound(f"There is no project {missing[0]}.", field="projects", hint="Check the list of your projects.")
    return found


def webhook_origin(choice: NotifyChoice) -> str:
    """Where the webhook is, without what may be secret in its URL; empty: there is none."""
    try:
        return url_read(choice.webhook_url, webhook_rules((), http_too=True)).origin if choice.webhook_url else ""
    except AddressRefused:  # what was allowed may not be any more
        return choice.webhook_url.partition("://")[0]


def webhook_secret(choice: NotifyChoice) -> str:
    """What the person's webhooks are signed with."""
    digest = salted_hmac("harness.notify.webhook", choice.webhook_nonce, algorithm="sha256").digest()
    return SECRET_PREFIX + base64.urlsafe_b64encode(digest).decode().rstrip("=")


def webhook_secret_renew(*, user: User) -> str:
    """Make a new secret and return it; the old one signs nothing any more. Raises `Forbidden`, `NotFound`."""
    require_write(user)
    require_whole(user)
    nonce = secrets.token_urlsafe(32)
    if not NotifyChoice.objects.filter(pk=user.pk).exclude(webhook_url="").update(webhook_nonce=nonce):
        raise NotFound("You have no webhook yet.", hint="Give its URL first.")
    return webhook_secret(NotifyChoice.objects.get(pk=user.pk))


def delivery_test(*, user: User) -> list[Delivery]:
    """Have control send a test by each channel that is on; each is tried once, and says how that went.

    Raises `Forbidden`, `Conflict` where nothing is on, `TooMany`.
    """
    require_write(user)
    require_whole(user)
    with transaction.atomic():
        choice = NotifyChoice.objects.select_for_update().select_related("user").filter(pk=user.pk).first()
        channels = channels_of(choice) if choice else []
        if not channels:
            raise Conflict(
                "No e-mail address or webhook is turned on yet.",
                hint="Turn on e-mail or give a webhook's URL, and save (`dlh notifications set`).",
            )
        tests = Delivery.objects.filter(user=user, kind=Kind.TEST, created_at__gt=timezone.now() - TESTS_IN)
        if tests.values("about").distinct().count() >= TESTS_MAX:
            raise TooMany(f"You have sent {TESTS_MAX} tests in ten minutes.", hint="Wait a while.")
        rows = _tests(user, channels)
        deliveries_add(rows)
    return rows


def _tests(user: User, channels: Iterable[Channel]) -> list[Delivery]:
    about = f"test:{new_id()}"
    message = Message(
        title="Test message of the deep learning harness",
        detail=f"You asked for it at {moment_words(timezone.now())}. What you chose to be told of arrives like this.",
        url=f"{settings.PORTAL_URL}/account/notifications/",
    )
    return [
        Delivery(user=user, channel=channel, kind=Kind.TEST, about=about, body=message.to_dict(), due_at=timezone.now())
        for channel in channels
    ]
