"""One job: header, tabs, what may be asked of it."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse

from codegen.spec import TaskSpec
from harness.accounts.models import Role, User
from harness.errors import Conflict, HarnessError, Invalid, NoSpace, NotFound, Unavailable
from harness.jobs import services
from harness.jobs.copying import left_out
from harness.jobs.models import Job
from harness.jobs.selectors import (
    checkpoint_open,
    export_get,
    job_attempts,
    job_checkpoints,
    job_events,
    job_get,
    job_results,
    program_diff,
    program_files,
    queue_position,
)
from harness.jobs.services import job_clone, job_delete, job_restore, job_resume, job_update
from harness.names import name_line
from harness.pages.check_view import check_last
from harness.pages.job_view import (
    curves_source,
    first_error_line,
    header,
    job_actions,
    spec_editor,
    submit_summary,
)
from harness.pages.log_view import logs_context
from harness.pages.offer_view import cost_context
from harness.pages.parent_view import parent_context
from harness.pages.ranks_view import ranks_of
from harness.pages.rate_view import rates_context
from harness.pages.results_view import results_context
from harness.pages.web import can, can_delete, change, form_page, page, page_number, person, show
from harness.pool.selectors import pool_overview
from harness.rates.submitting import job_submit
from harness.responses import file_response
from harness.trouble import trouble_told
from worker.states import JobState

TABS = ("live", "logs", "checkpoints", "results", "program", "spec", "cost", "events")
EVENTS_SHOWN = 50
"""Lines of a page of its history, and of its attempts."""
STEPS = {"spec": 2, "cost": 3, "program": 4}
"""Of the steps to a job, those that a draft's tabs are."""
_PLAIN = {
    "submit": (job_submit, "Submitted. It starts as soon as devices are free."),
    "cancel": (services.job_cancel, "Cancelling. Checkpoints made so far stay."),
    "pause": (services.job_pause, "Pausing. It saves a checkpoint and leaves its devices."),
    "delete": (job_delete, "The job is in the trash."),
    "restore": (job_restore, "The job is back."),
}


_BEFORE_A_START = {"cancel": "Cancelled.", "pause": "Paused. It starts once you resume it.", "resume": "Queued again."}
"""Of a job that has no attempt yet: there is no run to stop, and no checkpoint."""
_ALREADY = {
    ("cancel", JobState.CANCELLED): "It was cancelled already.",
    ("pause", JobState.PAUSED): "It is paused already.",
}
"""Asked for again, as in a second tab that is out of date: nothing is done."""


def default_tab(job: Job) -> str:
    """The tab people most likely came for."""
    if job.state == JobState.DRAFT:
        return "program" if job.deleted_at else "cost"
    return "results" if job.state == JobState.SUCCEEDED else "live"


@page("GET", "HEAD")
def job_page(request: HttpRequest, job_id: str, tab: str = "") -> HttpResponseBase:
    """The page of a job, on one of its tabs."""
    user = person(request)
    job = job_get(user=user, job_id=job_id)
    tab = tab or default_tab(job)
    if tab not in TABS:
        raise NotFound("A job has no such tab.", hint=f"Its tabs are {', '.join(TABS)}.")
    return _job_page(request, job, tab)


def _job_page(
    request: HttpRequest, job: Job, tab: str, *, edit: dict[str, Any] | None = None, status: int = 200
) -> HttpResponse:
    """`edit`: name, tags and notes as they were sent, with the `problem`."""
    context = {**_frame(person(request), job, tab), "tab": tab, "tabs": TABS, **_TAB_CONTEXT[tab](request, job)}
    context["edit"] = edit or _edit(job)
    response = show(request, f"jobs/tab_{tab}.html", context, nav="jobs", status=status)
    if tab in ("cost", "spec") and job.state == JobState.DRAFT:
        response["Cache-Control"] = "no-store"  # Back from what was submitted or saved here shows it as it is now
    return response


def _frame(user: User, job: Job, tab: str = "") -> dict[str, Any]:
    may_change = can(user, job.project, Role.MEMBER)
    return {
        "job": job,
        "header": header(job),
        "queue_place": queue_position(job),
        "step": STEPS.get(tab, 0),
        "error_line": first_error_line(job),
        "may_change": may_change,
        "actions": _actions(user, job) if may_change and not job.deleted_at else (),
    }


def _edit(job: Job) -> dict[str, Any]:
    """What the form of its name, tags and notes shows."""
    return {"name": name_line(job.name), "tags": ", ".join(job.tags), "notes": job.notes}


def _actions(user: User, job: Job) -> tuple[str, ...]:
    """What is offered to a member: others than its owner and admins delete no job."""
    actions = job_actions(job)
    if "delete" in actions and not can_delete(user, job.project, job.owner_id):
        return tuple(action for action in actions if action != "delete")
    return actions


@page("GET", "HEAD")
def job_header(request: HttpRequest, job_id: str) -> HttpResponseBase:
    """State, progress and buttons, as a fragment."""
    user = person(request)
    job = job_get(user=user, job_id=job_id)
    return show(request, "jobs/header.html", _frame(user, job))


def _live(request: HttpRequest, job: Job) -> dict[str, Any]:
    return {"live": {**curves_source(job), "job": job.pk, "state": job.state}, "ranks": ranks_of(job)}


def _logs(request: HttpRequest, job: Job) -> dict[str, Any]:
    return logs_context(job, request.GET)


def _checkpoints(request: HttpRequest, job: Job) -> dict[str, Any]:
    return {
        "checkpoints": job_checkpoints(job),
        "removed": job_checkpoints(job, removed=True).exclude(removed_at=None).count(),
    }


def _results(request: HttpRequest, job: Job) -> dict[str, Any]:
    try:
        return {**results_context(job, job_results(job)), "export": export_get(job)}
    except NotFound as error:
        return {"missing": error, "has_checkpoints": job_checkpoints(job).exists()}
    except (Conflict, Unavailable) as error:
        return {"broken": error}


def _program(request: HttpRequest, job: Job) -> dict[str, Any]:
    files = program_files(job)
    wished = request.GET.get("file", "")
    current = next((file for file in files if file["name"] == wished), files[0] if files else None)
    context: dict[str, Any] = {
        "files": files,
        "current": current,
        "editable": job.state == JobState.DRAFT and not job.deleted_at,
        "diff": program_diff(job) if job.program_edited else "",
        **rates_context(job),
    }
    if job.state == JobState.DRAFT and not job.deleted_at:
        context |= {"summary": submit_summary(job, pool_overview()), "check": check_last(job)}
    return context


def _spec(request: HttpRequest, job: Job) -> dict[str, Any]:
    spec = job.resolved.get("spec") or job.spec
    context = {
        "guesses": job.resolved.get("guesses", ()),
        # What was learnt of the data for the program is no wish: a spec that names it would be refused.
        "spec": {name: value for name, value in spec.items() if name in TaskSpec.model_fields},
        **parent_context(job),
    }
    may_edit = job.state == JobState.DRAFT and not job.deleted_at and can(person(request), job.project, Role.MEMBER)
    return {**context, **(spec_editor(job) if may_edit else {})}


def spec_refused(request: HttpRequest, job: Job, text: str, error: HarnessError) -> HttpResponse:
    """The spec tab again, with what was typed and what is wrong with it. It stays as old as it was opened, unless this
    tells that another was saved since: what is corrected asks before it takes that back."""
    frame = {**_frame(person(request), job, "spec"), "tab": "spec", "tabs": TABS, "edit": _edit(job)}
    context = {**frame, **_spec(request, job), "yaml_text": text, "error": error}
    if error.code != "changed" and request.POST.get("seen"):
        context["seen"] = request.POST["seen"]
    return show(request, "jobs/tab_spec.html", context, nav="jobs", status=error.status)


def _cost(request: HttpRequest, job: Job) -> dict[str, Any]:
    return cost_context(job)


def _events(request: HttpRequest, job: Job) -> dict[str, Any]:
    events, attempts = job_events(job).reverse(), job_attempts(job)
    return {
        "events": Paginator(events, EVENTS_SHOWN).get_page(page_number(request)),
        "attempts": Paginator(attempts, EVENTS_SHOWN).get_page(page_number(request, "tries")),
    }


_TAB_CONTEXT = {
    "live": _live,
    "logs": _logs,
    "checkpoints": _checkpoints,
    "results": _results,
    "program": _program,
    "spec": _spec,
    "cost": _cost,
    "events": _events,
}


@page("GET", "HEAD")
def checkpoint_file(request: HttpRequest, job_id: str, name: str) -> HttpResponseBase:
    """The state of one checkpoint, as PyTorch wrote it."""
    job = job_get(user=person(request), job_id=job_id)
    return file_response(request, checkpoint_open(job, name), filename=f"{job.pk}-{name}.pt")


@page("POST")
def job_act(request: HttpRequest, job_id: str, action: str) -> HttpResponseBase:
    """Submit, cancel, pause, resume, clone, delete, restore."""
    user = person(request)
    job = job_get(user=user, job_id=job_id)
    here = reverse("job_page", args=[job_id])
    if action == "clone":
        clone = job_clone(user=user, job=job)
        how = "Change what you like on the Spec and Program tabs, then submit it. The original stays as it is."
        hint = " ".join([*left_out(job, clone=clone), how])
        messages.success(request, f"This is a copy of {job.name}.", extra_tags=hint)
        return redirect("job_tab", job_id=clone.pk, tab="program" if clone.program_edited else "spec")
    if action == "resume":
        checkpoint = request.POST.get("checkpoint", "")
        newest = "Queued again, from the newest good checkpoint." if job.token else _BEFORE_A_START["resume"]
        done = f"Queued again, from {checkpoint}." if checkpoint else newest
        return change(request, lambda: job_resume(user=user, job=job, checkpoint=checkpoint), done=done, to=here)
    if action not in _PLAIN:
        raise NotFound("There is no such action.")
    service, done = _PLAIN[action]
    done = done if job.token else _BEFORE_A_START.get(action, done)
    done = _ALREADY.get((action, JobState(job.state)), done)
    deletes = action == "delete"
    return change(
        request,
        lambda: service(user=user, job=job),
        done=done,
        to=reverse("job_list") if deletes else here,
        failed_to=here,
        undo=reverse("job_act", args=[job_id, "restore"]) if deletes else "",
    )


@form_page("job_page", job_get)
def job_edit(request: HttpRequest, job_id: str) -> HttpResponseBase:
    """Name, notes, tags. What is refused can be corrected: notes may be the work of an hour."""
    user = person(request)
    job = job_get(user=user, job_id=job_id)
    name, notes, tags = map(request.POST.get, ("name", "notes", "tags"))
    if name == name_line(job.name):  # as the form showed it
        name = None
    try:
        with trouble_told():
            job_update(user=user, job=job, name=name, notes=notes, tags=None if tags is None else tags.split(","))
    except (Invalid, NoSpace, Unavailable) as problem:
        sent = {field: request.POST.get(field, kept) for field, kept in _edit(job).items()}
        edit = {**sent, "problem": problem}
        return _job_page(request, job, default_tab(job), edit=edit, status=problem.status)
    messages.success(request, "Saved.")
    return redirect("job_page", job_id=job_id)


@page("GET", "HEAD")
def job_log_lines(request: HttpRequest, job_id: str) -> HttpResponseBase:
    """Log lines for the filter in the address, as a fragment that goes on with lines shown before."""
    job = job_get(user=person(request), job_id=job_id)
    return show(request, "jobs/log_lines.html", {"job": job, **logs_context(job, request.GET, is_part=True)})
