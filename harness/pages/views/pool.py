"""The pool: nodes, devices, and what admins may do with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse

from harness.accounts.access import require_admin, visible_projects
from harness.bucket.status import bucket_status
from harness.calibration.paces_told import paces_told
from harness.errors import Conflict, Forbidden, HarnessError, NotFound, Unavailable
from harness.jobs.readers import reading_state
from harness.jobs.selectors import jobs_queued_count
from harness.measuring.node_links import links_want
from harness.pages.pool_forms import NodeForm, PoolForm, SlowForm
from harness.pages.web import asks_part, change, form_page, number_read, page, page_number, person, show
from harness.pool import services
from harness.pool.joining import join_command, join_token_make
from harness.pool.links import link_list
from harness.pool.models import Node, NodeState
from harness.pool.removing import node_remove
from harness.pool.reports import CLOCK_OFF, TWINS_AT
from harness.pool.selectors import NodeRow, pool_overview
from harness.pool.services import (
    node_add,
    node_drain,
    node_undrain,
    pool_setting_get,
    pool_setting_update,
)
from harness.release import release

NODES_SHOWN = 20
LINKS_SHOWN = 60
"""Of the slowest: a large pool has thousands."""


@page("GET", "HEAD")
def pool(request: HttpRequest) -> HttpResponseBase:
    """Nodes x devices; the names of jobs only for members of their projects."""
    return _pool(request)


def _pool(
    request: HttpRequest,
    form: NodeForm | None = None,
    *,
    slow_form: SlowForm | None = None,
    setting_form: PoolForm | None = None,
    joins: str = "",
    command: str = "",
) -> HttpResponseBase:
    """Forms: those that were refused, as sent. `command`: what lets the machine `joins` in, shown this once."""
    user = person(request)
    setting, overview, links = pool_setting_get(), pool_overview(), link_list()
    words, state = request.GET.get("q", "").strip(), request.GET.get("state", "")
    nodes = Paginator(overview.found(words, state), NODES_SHOWN).get_page(page_number(request))
    context = {
        "pool": overview,
        "nodes": nodes,
        "q": words,
        "state": state,
        "states": NodeState.choices,
        "is_large": len(overview.nodes) > NODES_SHOWN,
        "waiting": jobs_queued_count(),
        "paces": paces_told(),
        "portal_release": release(),
        "links": links[:LINKS_SHOWN],
        "more_links": len(links[LINKS_SHOWN:]),
        "visible": set(visible_projects(user).values_list("pk", flat=True)),
        "is_admin": user.is_superuser,
        "node_form": form or NodeForm(),
        "slow_form": _with_devices(slow_form or SlowForm(), nodes),
        "setting_form": setting_form
        or PoolForm(initial={name: getattr(setting, name) for name in PoolForm.base_fields}),
        "object_store": bucket_status() if user.is_superuser else None,
        "joins": joins,
        "join_command": command,
    }
    template = "pool/nodes.html" if asks_part(request) else "pool/page.html"
    response = show(request, template, context, nav="pool", status=422 if form or slow_form or setting_form else 200)
    if command:
        response["Cache-Control"] = "no-store"
    return response


def _with_devices(form: SlowForm, nodes: Iterable[NodeRow]) -> SlowForm:
    """The form with the devices of these nodes, and the one that was sent: the page it was sent from showed others."""
    sent = [form.data["device"]] if form.data.get("device") else []
    there = (f"{node.name} {device.kind}:{device.index}" for node in nodes for device in node.devices)
    form.set_devices(dict.fromkeys((*sent, *there)))
    return form


@page("GET", "HEAD")
def object_store(request: HttpRequest) -> HttpResponseBase:
    """How the copy in the object store stands now: a part of the page of the pool."""
    require_admin(person(request))
    if not asks_part(request):
        return redirect("pool")
    return show(request, "pool/object_store.html", {"object_store": bucket_status()})


@page("GET", "HEAD")
def readers(request: HttpRequest) -> HttpResponseBase:
    """How far the reading of events is now: a part of the page of the pool."""
    require_admin(person(request))
    if not asks_part(request):
        return redirect("pool")
    try:
        return show(request, "pool/readers.html", {"reading": reading_state()})
    except Unavailable as error:
        return show(request, "pool/readers.html", {"error": error})


@form_page("pool")
def node_new(request: HttpRequest) -> HttpResponseBase:
    """Expect a node and show, once, the command that lets it in; a node that is expected already gets a new one."""
    user, name = person(request), request.POST.get("name", "").strip()
    try:
        with suppress(Conflict):
            node_add(user=user, name=name)
        _, text = join_token_make(user=user, name=name)
    except (Forbidden, NotFound):
        raise
    except HarnessError as error:
        form = NodeForm({"name": name})
        form.add_error("name", f"{error.message} {error.hint}".strip())
        return _pool(request, form)
    return _pool(request, joins=name, command=join_command(text))


@page("POST")
def node_act(request: HttpRequest, name: str, action: str) -> HttpResponseBase:
    """Drain, undrain or remove a node."""
    if action not in _ACTIONS:
        raise NotFound("There is no such action.")
    service, done = _ACTIONS[action]
    return change(request, lambda: service(user=person(request), name=name), done=done(name), to=reverse("pool"))


def _let_in_words(name: str) -> str:
    """When a node takes jobs that an admin lets take them."""
    node = Node.objects.filter(name=name).first()
    if node is not None and node.state == NodeState.DOWN:
        return f"{name} is down: it accepts jobs once it is back."
    if node is not None and CLOCK_OFF in node.description:
        return f"{name} accepts jobs once its clock is right."
    if node is not None and TWINS_AT in node.description:
        return f"{name} accepts jobs once one machine alone reports as it."
    return f"{name} accepts jobs again."


_ACTIONS: dict[str, tuple[Callable[..., object], Callable[[str], str]]] = {
    "drain": (node_drain, "{} accepts no new jobs; running jobs finish normally.".format),
    "undrain": (node_undrain, _let_in_words),
    "remove": (node_remove, "{} is no longer in the pool.".format),
}


@page("POST")
def node_near(request: HttpRequest, name: str) -> HttpResponseBase:
    """Name the rack of a node."""
    near = request.POST.get("near", "").strip()
    return change(
        request,
        lambda: services.node_near_set(user=person(request), name=name, near=near),
        done=f"{name} is in {near}." if near else f"The rack of {name} is not known.",
        to=reverse("pool"),
    )


@page("POST")
def links_measure(request: HttpRequest) -> HttpResponseBase:
    """Have the links between all nodes timed anew."""
    return change(
        request,
        lambda: links_want(user=person(request)),
        done="The links are timed one after the other, each as soon as its two nodes are idle.",
        to=reverse("pool"),
    )


@form_page("pool")
def device_slow(request: HttpRequest) -> HttpResponseBase:
    """Emulate a slower device. What is refused can be corrected."""
    user = person(request)
    require_admin(user)
    form = _with_devices(SlowForm(request.POST), ())
    if not form.is_valid():
        return _pool(request, slow_form=form)
    name, _, device = form.cleaned_data["device"].partition(" ")
    kind, _, index = device.partition(":")
    factor, number = form.cleaned_data["factor"], number_read(index)
    try:
        services.device_slow(user=user, node=name, kind=kind, index=-1 if number is None else number, factor=factor)
    except HarnessError as error:
        form.add_error("factor" if error.field == "factor" else "device", f"{error.message} {error.hint}".strip())
        return _pool(request, slow_form=form)
    said = f"Runs that start on {device} of {name} from now on run {factor:g} times slower (emulated)."
    messages.success(request, f"{device} of {name} runs at full speed." if factor == 1.0 else said)
    return redirect("pool")


@form_page("pool")
def pool_settings(request: HttpRequest) -> HttpResponseBase:
    """Change settings of the pool. What is refused can be corrected."""
    user = person(request)
    require_admin(user)
    form = PoolForm(request.POST)
    if not form.is_valid():
        return _pool(request, setting_form=form)
    changes = form.changes()
    try:
        if changes:
            pool_setting_update(user=user, **changes)
    except HarnessError as error:
        form.add_error(error.field if error.field in form.fields else None, f"{error.message} {error.hint}".strip())
        return _pool(request, setting_form=form)
    if changes:
        messages.success(request, "The settings of the pool are saved. They hold for runs that start from now on.")
    else:
        messages.info(request, "Nothing was changed.")
    for overtaken in form.overtaken(pool_setting_get()):
        messages.warning(request, overtaken, extra_tags="Choose again to change it.")
    return redirect("pool")
