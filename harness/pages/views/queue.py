"""The queue, reservations, and what a drain would do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import partial

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone

from harness.accounts.access import require_admin
from harness.accounts.models import Project, User
from harness.accounts.selectors import project_get, project_list
from harness.errors import Conflict, HarnessError, Invalid, NotFound
from harness.jobs.consequences import (
    change_consequences,
    reservation_cancel_told,
    reservation_create_told,
)
from harness.jobs.drain import Affected, RunningThere, drain_consequences
from harness.jobs.models import Job
from harness.jobs.queueing import queue_rows
from harness.jobs.readers import standstill
from harness.jobs.reservation_preview import reservation_consequences, reservation_outlasting
from harness.jobs.selectors import job_get
from harness.moments import moment_words
from harness.pages.pool_forms import ReservationForm
from harness.pages.queue_wish import QueueWish, queue_wish
from harness.pages.web import asks_part, change, form_page, page, page_number, person, show, with_query
from harness.pool.models import Node, NodeState, Reservation
from harness.pool.reservations import ReservationWish, reservation_list
from harness.pool.services import pool_setting_get

PAGE_SIZE = 25
"""Rows of a page: on a phone each takes a third of the screen."""


@page("GET", "HEAD")
def queue(request: HttpRequest) -> HttpResponseBase:
    """What waits and what runs, or for htmx its live part."""
    return _queue(request)


def _queue(
    request: HttpRequest, wish: QueueWish | None = None, delayed: tuple[Affected, ...] | None = None
) -> HttpResponseBase:
    """`delayed`: what the wish would do, which is only looked at."""
    user = person(request)
    mine = request.GET.get("of") == "mine"
    waiting, running = queue_rows(user=user, mine=mine)
    context = {
        "waiting": Paginator(waiting, PAGE_SIZE).get_page(page_number(request)),
        "running": Paginator(running, PAGE_SIZE).get_page(page_number(request, "held")),
        "mine": mine,
        "standstill": standstill(),
        "is_admin": user.is_superuser,
        "policy": pool_setting_get().get_policy_display(),
        "delayed": delayed,
        "wish": wish,
        "looked": wish.condition if wish else "",
    }
    template = "queue/rows.html" if asks_part(request) else "queue/page.html"
    return show(request, template, context, nav="queue")


def _admin_job(user: User, job_id: str) -> Job:
    require_admin(user)
    return job_get(user=user, job_id=job_id)


@form_page("queue")
def queue_act(request: HttpRequest, job_id: str) -> HttpResponseBase:
    """Move a job (`to` a place, or `before` another one), or set its priority; back to the part of the queue that was
    shown.

    With `look` only tell who would wait longer or finish sooner, and offer to carry it out.
    """
    user = person(request)
    job = _admin_job(user, job_id)
    back = with_query(request, reverse("queue"))
    try:
        wish = queue_wish(user=user, job=job, given=request.POST)
        if "look" in request.POST:
            return _queue(request, wish, wish.look())
    except HarnessError as error:
        return change(request, partial(fail, error), done="", to=back)
    return change_told(request, partial(change_consequences, wish.act), done=wish.done, to=back)


def change_told(
    request: HttpRequest, action: Callable[[], Iterable[Affected]], *, done: str, to: str
) -> HttpResponseBase:
    """Like `change`, of what tells its consequences; beside it stands which jobs wait longer, broken promises first."""
    found: list[Affected] = []
    answer = change(request, lambda: found.extend(action()), done=done, to=to)
    _held_back_tell(request, found)
    return answer


def _held_back_tell(request: HttpRequest, found: Iterable[Affected]) -> None:
    delayed = sorted((row for row in found if not row.gains), key=lambda row: not row.breaks_promise)
    if delayed:
        messages.warning(request, render_to_string("pool/held_back.html", {"delayed": delayed}))


@page("GET", "HEAD")
def reservations(request: HttpRequest) -> HttpResponseBase:
    """Devices that are kept, and a form to keep some."""
    return _reservations(request, ReservationForm(), None)


def _reservations(
    request: HttpRequest, form: ReservationForm, delayed: tuple[Affected, ...] | None, *, status: int = 200
) -> HttpResponseBase:
    user = person(request)
    form.set_choices(user, _targets())
    rows = Paginator(reservation_list(), PAGE_SIZE).get_page(page_number(request))
    context = {"reservations": rows, "form": form, "is_admin": user.is_superuser, "part": "reservations"}
    context |= {"seen": {project.pk for project in project_list(user=user)}, "delayed": delayed}
    return show(request, "pool/reservations.html", context, nav="pool", status=status)


def _targets() -> list[tuple[str, str]]:
    found = []
    for node in Node.objects.order_by("name").prefetch_related("devices"):
        found.append((node.name, f"{node.name}, all devices"))
        for device in sorted(node.devices.all(), key=lambda device: (device.kind, device.index)):
            word = "GPU" if device.kind == "cuda" else "CPU core"
            found.append((f"{node.name}/{device.kind}:{device.index}", f"{node.name}, {word} {device.index}"))
    return found


@form_page("reservations")
def reservation_new(request: HttpRequest) -> HttpResponseBase:
    """Keep devices, and say whose runs outlast that and who waits longer; with `look` only tell who would."""
    user = person(request)
    require_admin(user)
    look = "look" in request.POST
    form = _reservation_form(request, user, look=look)
    if not form.is_valid():
        return _reservations(request, form, None, status=422)
    try:
        wish = _reservation_wish(request, user, form)
        outlasting = reservation_outlasting(user=user, wish=wish)
        if look:
            delayed = reservation_consequences(user=user, wish=wish)
            _outlasting_tell(request, outlasting)
            return _reservations(request, form, delayed)
        kept, found = reservation_create_told(user=user, wish=wish)
    except (Invalid, Conflict, NotFound) as error:
        messages.error(request, error.message, extra_tags=error.hint)
        return _reservations(request, form, None, status=422)
    messages.success(request, f"Reserved. {_holds_words(kept)}")
    _outlasting_tell(request, outlasting)
    _held_back_tell(request, found)
    return redirect(with_query(request, reverse("reservations")))


def _holds_words(kept: Reservation) -> str:
    jobs = f"jobs of other projects than {kept.project.name}" if kept.project else "jobs"
    if kept.starts_at <= timezone.now():
        return f"It holds for {jobs} that start from now on."
    at = moment_words(kept.starts_at)
    return f"It holds from {at} on: until then {jobs} start there only if they end before."


def _outlasting_tell(request: HttpRequest, running: Sequence[RunningThere]) -> None:
    if running:
        messages.warning(request, render_to_string("pool/outlasting.html", {"running": running}))


def _reservation_form(request: HttpRequest, user: User, *, look: bool) -> ReservationForm:
    """As it was sent; what is only looked at needs no purpose."""
    form = ReservationForm(request.POST)
    form.set_choices(user, _targets())
    form.fields["purpose"].required = not look
    return form


def fail(error: HarnessError) -> None:
    """For `change`, of what was refused before."""
    raise error


def _reservation_wish(request: HttpRequest, user: User, form: ReservationForm) -> ReservationWish:
    """What the form asks to keep. Raises `Invalid`, `NotFound`."""
    node, _, device = form.cleaned_data["target"].partition("/")
    starts_at, ends_at = _moment(request, "starts_at"), _moment(request, "ends_at")
    assert ends_at is not None  # noqa: S101 - the form asks for one
    return ReservationWish(
        node=node,
        device=device,
        starts_at=starts_at,
        ends_at=ends_at,
        purpose=form.cleaned_data["purpose"],
        project=_project(user, form.cleaned_data["project"]),
    )


def _project(user: User, slug: str) -> Project | None:
    return project_get(user=user, slug=slug) if slug else None


def _moment(request: HttpRequest, name: str) -> datetime | None:
    """In UTC as the page computed it; without scripts what was typed is taken for UTC. Raises `Invalid`."""
    text = request.POST.get(f"{name}_utc") or request.POST.get(name, "")
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise Invalid(f"{text[:40]!r} is not a valid time.", field=name) from error
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


@page("POST")
def reservation_end(request: HttpRequest, reservation_id: str) -> HttpResponseBase:
    """Give kept devices back, and say who waits longer for it: those whom they were kept for."""
    user = person(request)
    require_admin(user)
    done, to = "Cancelled: its devices accept jobs again.", with_query(request, reverse("reservations"))
    cancel = partial(reservation_cancel_told, user=user, reservation_id=reservation_id)
    return change_told(request, cancel, done=done, to=to)


@page("GET", "HEAD")
def node_drain_page(request: HttpRequest, name: str) -> HttpResponseBase:
    """What draining the node would do, before it is done."""
    user = person(request)
    found = drain_consequences(user=user, name=name)
    if found.node.state != NodeState.UP:  # drained by somebody else, or in another tab, meanwhile
        drains = found.node.state == NodeState.DRAIN
        messages.info(
            request, f"{name} accepts no new jobs already." if drains else f"{name} is down: it accepts no jobs."
        )
        return redirect("pool")
    return show(request, "pool/drain.html", {"found": found}, nav="pool")
