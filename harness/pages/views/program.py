"""The program of a draft: save, put back, try."""

from __future__ import annotations

import time
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase, JsonResponse
from django.shortcuts import redirect
from django.urls import reverse

from harness.errors import Conflict, Forbidden, HarnessError, Invalid, NoSpace, NotFound, Unavailable
from harness.jobs.copying import edits_given_way, spec_kept
from harness.jobs.models import Job
from harness.jobs.program_checks import file_fault
from harness.jobs.programs import spec_read, text_sha256
from harness.jobs.selectors import job_get, program_diff, program_files
from harness.jobs.services import job_spec_update, program_check, program_file_write, program_reset
from harness.jobs.spec_marks import spec_mark
from harness.pages.check_view import check_context
from harness.pages.edits_told import edits_told
from harness.pages.views.job import spec_refused
from harness.pages.web import change, form_page, number_read, page, person, show
from harness.trouble import trouble_told
from worker.states import JobState


def _refusal(error: HarnessError) -> JsonResponse:
    return JsonResponse({"error": error.to_dict()}, status=error.status)


def tab_wanted(request: HttpRequest) -> str:
    """Of a draft whose spec is settled: what it costs, unless the button says that its program comes first."""
    return "program" if request.POST.get("look") == "program" else "cost"


@page("POST")
def program_save(request: HttpRequest, job_id: str) -> HttpResponseBase:
    """Write one file; JSON for the editor."""
    try:
        user = person(request)
        job = job_get(user=user, job_id=job_id)
        name = request.POST.get("name", "")
        text = request.POST.get("text", "").replace("\r\n", "\n").replace("\r", "\n")  # as it is read again
        expected = request.POST.get("sha256", "")
        job = program_file_write(user=user, job=job, name=name, text=text, expected_sha256=expected)
    except HarnessError as error:
        return _refusal(error)
    edited = any(file["edited"] for file in program_files(job) if file["name"] == name)
    told: dict[str, Any] = {"edited": job.program_edited, "file_edited": edited}
    told |= {"sha256": job.program_sha256, "file_sha256": text_sha256(text), "fault": file_fault(name, text)}
    return JsonResponse(told)


@page("POST")
def program_put_back(request: HttpRequest, job_id: str) -> HttpResponseBase:
    """Put one file, or all, back to what was generated."""
    user = person(request)
    job = job_get(user=user, job_id=job_id)
    name = request.POST.get("name") or None
    here = reverse("job_tab", args=[job_id, "program"]) + (f"?file={name}" if name else "")
    return change(
        request,
        lambda: program_reset(user=user, job=job, name=name),
        done=f"{name or 'The program'} is as it was generated.",
        to=here,
    )


@page("GET", "HEAD")
def program_changes(request: HttpRequest, job_id: str) -> HttpResponseBase:
    """The diff against the generated program, as a fragment."""
    job = job_get(user=person(request), job_id=job_id)
    return show(request, "jobs/diff.html", {"job": job, "diff": program_diff(job)})


@page("POST")
def program_try(request: HttpRequest, job_id: str) -> HttpResponseBase:
    """Have a node try the program; answers with the fragment that waits for the result."""
    user = person(request)
    job = job_get(user=user, job_id=job_id)
    check_id = program_check(user=user, job=job)
    return show(request, "jobs/check.html", {"job": job, "check": check_context(job, check_id, int(time.time()))})


@page("GET", "HEAD")
def program_try_result(request: HttpRequest, job_id: str, check_id: str) -> HttpResponseBase:
    """The node's answer, or the same waiting fragment."""
    job = job_get(user=person(request), job_id=job_id)
    asked_s = number_read(request.GET.get("asked", ""), digits_max=11)
    return show(request, "jobs/check.html", {"job": job, "check": check_context(job, check_id, asked_s)})


def _is_overtaken(job: Job, seen: str, text: str) -> bool:
    """Whether a spec that was opened as `seen` says otherwise than what was saved since; pressed twice it does not."""
    if job.state != JobState.DRAFT or seen in ("", spec_mark(job)):
        return False
    try:
        wish = spec_read(spec_kept(job, spec_read(text).model_dump(mode="json")))
    except Invalid:  # it is refused for what it is
        return False
    return bool(wish.model_dump(mode="json") != job.spec)


@form_page("job_tab", job_get, tab="spec")
def spec_save(request: HttpRequest, job_id: str) -> HttpResponseBase:
    """Give a draft another spec; its program is generated anew. A refused spec is shown again as it was typed; so is
    one that would take back what another tab has saved since (`seen`)."""
    user = person(request)
    job = job_get(user=user, job_id=job_id)
    text = request.POST.get("spec", "").replace("\r\n", "\n")
    told = "The spec was changed in another tab or by someone else since it was opened here."
    hint = "Save again to replace theirs by this one, or reload the page to see it first."
    if _is_overtaken(job, request.POST.get("seen", ""), text):
        return spec_refused(request, job, text, Conflict(told, hint=hint, code="changed"))
    try:
        with trouble_told():
            job = job_spec_update(user=user, job=job, spec=text, seen=spec_mark(job))
        lost = edits_given_way(job)
    except (Forbidden, NotFound):
        raise
    except Conflict as error:
        if error.code == "changed":  # while its program was generated
            error = Conflict(told, hint=hint, code="changed")
        return spec_refused(request, job_get(user=user, job_id=job_id), text, error)
    except HarnessError as error:  # what is wrong with it, or a disk that is full
        return spec_refused(request, job_get(user=user, job_id=job_id), text, error)
    if request.POST.get("reset"):
        try:
            with trouble_told():
                job, lost = program_reset(user=user, job=job), 0
        except (Conflict, Invalid, NoSpace, Unavailable) as error:  # the spec is saved all the same
            told = f"The spec is saved, but your edits were not undone. {error.message}"
            messages.error(request, told, extra_tags=error.hint)
            edits_told(request, job, lost)
            return redirect("job_tab", job_id=job_id, tab="program")
    edits_told(request, job, lost)
    if job.program_edited:
        kept = "Your edited files were kept, of spec.yaml the lines that the new spec leaves alone."
        hint = f"{kept} Check that they still work: press “Check that it runs”."
        messages.warning(request, "The spec is saved; the other files are generated again.", extra_tags=hint)
        return redirect("job_tab", job_id=job_id, tab="program")
    messages.success(request, "The spec is saved and the program is generated again.")
    return redirect("job_tab", job_id=job_id, tab=tab_wanted(request))
