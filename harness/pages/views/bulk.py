"""Many jobs at once, as they were ticked in a list: compare, tag, to the trash, back, gone for good."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse

from harness.accounts.models import User
from harness.errors import HarnessError, Invalid, NotFound
from harness.jobs.comparing import COMPARE_MAX
from harness.jobs.selectors import job_get
from harness.jobs.services import job_delete, job_purge, job_restore, job_update
from harness.pages.undo import undo_tag
from harness.pages.views.jobs import jobs_page
from harness.pages.web import form_page, person, with_query
from worker.words import counted

BULK_MAX = 200


@form_page("job_list")
def job_bulk(request: HttpRequest) -> HttpResponseBase:
    """Do one thing to the chosen jobs, and tell to which it could not be done; or compare them."""
    chosen = request.POST.getlist("job")[:BULK_MAX]
    act = _ACTS.get(request.POST.get("do", ""))
    if act is None:
        raise NotFound("There is no such action.")
    back = _back(request)
    if not chosen:
        messages.warning(request, "No job is selected.", extra_tags="Select jobs with the checkboxes first.")
        is_tagging = act in (_tag, _untag)  # the tags that were typed stay
        return jobs_page(request, tags=request.POST.get("tags", "")) if is_tagging else redirect(back)
    return act(request, chosen, back)


def _back(request: HttpRequest) -> str:
    """The list in which the jobs were ticked, as it was; what was just deleted is restored from the list of jobs."""
    do = request.POST.get("do")
    in_trash = do == "purge" or (do == "restore" and not request.POST.get("from"))
    return with_query(request, reverse("trash" if in_trash else "job_list"))


def _compare(request: HttpRequest, chosen: list[str], _: str) -> HttpResponse:
    if len(chosen) > COMPARE_MAX:
        messages.info(request, f"Showing the first {COMPARE_MAX} of the {len(chosen)} jobs you chose.")
    return redirect(f"{reverse('job_compare')}?{urlencode({'job': chosen[:COMPARE_MAX]}, doseq=True)}")


def _delete(request: HttpRequest, chosen: list[str], back: str) -> HttpResponse:
    moved, refused = _each(person(request), chosen, job_delete)
    again = urlencode({"do": "restore", "from": "undo", "job": moved}, doseq=True)
    _tell(request, moved, refused, "moved to the trash", extra=undo_tag(f"{reverse('job_bulk')}?{again}"))
    return redirect(back)


def _restore(request: HttpRequest, chosen: list[str], back: str) -> HttpResponse:
    _tell(request, *_each(person(request), chosen, job_restore), "restored")
    return redirect(back)


def _purge(request: HttpRequest, chosen: list[str], back: str) -> HttpResponse:
    _tell(request, *_each(person(request), chosen, job_purge), "deleted for good")
    return redirect(back)


def _tag(request: HttpRequest, chosen: list[str], back: str) -> HttpResponseBase:
    tags = _tags(request)
    return _tags_changed(request, chosen, back, lambda had: [*had, *tags], f"tagged {', '.join(tags)}")


def _untag(request: HttpRequest, chosen: list[str], back: str) -> HttpResponseBase:
    tags = _tags(request)
    left = f"freed of {', '.join(tags)}"
    return _tags_changed(request, chosen, back, lambda had: [tag for tag in had if tag not in tags], left)


def _tags_changed(
    request: HttpRequest, chosen: list[str], back: str, changed: Callable[[list[str]], list[str]], word: str
) -> HttpResponseBase:
    """Tags that are refused can be corrected: they come back with the jobs that do not have them."""
    if not _tags(request):
        messages.warning(request, "No tag is given.", extra_tags="Write one beside the button, such as baseline.")
        return jobs_page(request, ticked=chosen, tags="")
    done, refused = _each(person(request), chosen, _tagging(changed))
    refused.sort(key=lambda error: not isinstance(error, Invalid))  # first what can be corrected, which is told
    _tell(request, done, refused, word)
    if any(isinstance(error, Invalid) for error in refused):
        return jobs_page(request, ticked=set(chosen) - set(done), tags=request.POST.get("tags", ""))
    return redirect(back)


def _tagging(changed: Callable[[list[str]], list[str]]) -> Callable[..., object]:
    """The service that gives a job the tags that `changed` makes of those it has."""
    return lambda *, user, job: job_update(user=user, job=job, tags=changed(job.tags))


_ACTS: dict[str, Callable[[HttpRequest, list[str], str], HttpResponseBase]] = {
    "compare": _compare,
    "delete": _delete,
    "restore": _restore,
    "purge": _purge,
    "tag": _tag,
    "untag": _untag,
}


def _tags(request: HttpRequest) -> list[str]:
    """The tags that were typed, separated by commas."""
    return [tag for part in request.POST.get("tags", "").split(",") if (tag := part.strip())]


def _each(user: User, chosen: list[str], service: Callable[..., object]) -> tuple[list[str], list[HarnessError]]:
    """Do one thing to each job: ids of those it was done to, refusals of the others."""
    done: list[str] = []
    refused: list[HarnessError] = []
    for job_id in chosen:
        try:
            service(user=user, job=job_get(user=user, job_id=job_id))
            done.append(job_id)
        except HarnessError as error:
            refused.append(error)
    return done, refused


def _tell(request: HttpRequest, done: list[str], refused: list[HarnessError], word: str, *, extra: str = "") -> None:
    if done:
        messages.success(request, f"{counted(len(done), 'job')} {word}.", extra_tags=extra)
    if refused:
        messages.error(request, f"{len(refused)} could not be {word}: {refused[0].message}", extra_tags=refused[0].hint)
