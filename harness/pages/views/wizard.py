"""A new job: choose a dataset, say what to learn, choose a model; ends in a draft."""

from __future__ import annotations

from typing import Any

from django.db.models.fields.json import KeyTransform
from django.http import HttpRequest, HttpResponseBase, JsonResponse
from django.shortcuts import redirect
from django.views.decorators.debug import sensitive_post_parameters

from codegen.spec import TaskSpec
from codegen.spec_yaml import dump
from codegen.task import task_guessed
from harness.accounts.access import projects_with_role
from harness.accounts.models import Role
from harness.datasets.models import Dataset, DatasetState
from harness.datasets.samples import SAMPLES
from harness.datasets.selectors import dataset_get, dataset_list, dataset_profile
from harness.datasets.weights import weights_of
from harness.errors import HarnessError, Invalid
from harness.jobs.copying import job_copy, left_out
from harness.jobs.selectors import job_get
from harness.jobs.services import job_create, job_suggest, spec_check
from harness.pages.project_choice import project_shown
from harness.pages.spec_fields import spec_groups
from harness.pages.views.program import tab_wanted
from harness.pages.web import page, person, show
from harness.plain import json_read
from harness.pool.hardware import hardware

BODY_BYTES_MAX = 1 << 20
SHOWN_MAX = 60


@page("GET", "HEAD")
def job_new(request: HttpRequest) -> HttpResponseBase:
    """Choose a dataset that is ready."""
    user = person(request)
    project_shown(user, request.GET.get("project", ""))
    query = request.GET.get("q", "").strip()
    usable = dataset_list(user=user, query=query).filter(project__in=projects_with_role(user, Role.MEMBER))
    # Of a profile, which may have thousands of columns, two words are shown.
    told = {"task": KeyTransform("task", "profile"), "rows": KeyTransform("rows", "profile")}
    ready = usable.filter(state=DatasetState.READY).defer("profile").annotate(**told)[: SHOWN_MAX + 1]
    context = {
        "datasets": ready[:SHOWN_MAX],
        "has_more": len(ready) > SHOWN_MAX,
        "unready": usable.filter(state=DatasetState.PROFILING)[:SHOWN_MAX],
        "query_text": query,
        "samples": [(name, words) for name, (_, _, words) in SAMPLES.items()],
    }
    return show(request, "jobs/new.html", context, nav="jobs")


@page("GET", "HEAD", "POST")
@sensitive_post_parameters()
def job_new_spec(request: HttpRequest, dataset_id: str) -> HttpResponseBase:
    """The spec as form and YAML, models to choose from; POST makes the draft."""
    user = person(request)
    dataset = dataset_get(user=user, dataset_id=dataset_id, role=Role.MEMBER)
    profile = dataset_profile(dataset)
    error: HarnessError | None = None
    if request.method == "POST":
        typed = {name: request.POST.get(name, "") for name in ("spec", "own_model", "parent")}
        try:
            return _draft(request, dataset, typed["spec"], typed["own_model"])
        except HarnessError as problem:  # whatever it is: what was typed stays
            error = problem
        first = {"yaml_text": typed["spec"], "own_model": typed["own_model"], "parent": typed["parent"]}
    else:
        first = _first(request, dataset)
    groups = spec_groups(profile, weights_of(dataset.project), hardware().models)
    context: dict[str, Any] = {"dataset": dataset, "profile": profile, "groups": groups, "error": error, **first}
    context["task_guessed"] = task_guessed(profile)
    return show(request, "jobs/spec.html", context, nav="jobs", status=error.status if error else 200)


def _first(request: HttpRequest, dataset: Dataset) -> dict[str, Any]:
    """What the form begins with: nothing, or all of the job that the address names (`from`) but what is told."""
    parent = request.GET.get("from", "")
    if not parent:
        return {"yaml_text": dump(TaskSpec.model_validate({"data": {"dataset": dataset.name}}))}
    job = job_get(user=person(request), job_id=parent)
    source = job_copy(job)
    edited = [name for name in source.files if name != "model.py" or source.own_model is None]
    return {
        "yaml_text": dump(TaskSpec.model_validate(source.spec)),
        "own_model": source.own_model or "",
        "parent": parent,
        "parent_job": job,
        "left_out": left_out(job),
        "edited_files": edited,
    }


def _draft(request: HttpRequest, dataset: Dataset, yaml_text: str, own_model: str) -> HttpResponseBase:
    user = person(request)
    parent = request.POST.get("parent", "")
    job = job_create(
        user=user,
        project=dataset.project,
        dataset=dataset,
        spec=yaml_text,
        own_model=own_model.replace("\r\n", "\n") if own_model.strip() else None,
        parent=job_get(user=user, job_id=parent) if parent else None,
    )
    return redirect("job_tab", job_id=job.pk, tab=tab_wanted(request))


def _body(request: HttpRequest) -> dict[str, Any]:
    if len(request.body) > BODY_BYTES_MAX:
        raise Invalid("This spec is too large.", hint="A spec is only a few kilobytes.")
    try:
        body = json_read(request.body)
    except ValueError as error:
        raise Invalid("This is not JSON.") from error
    if not isinstance(body, dict):
        raise Invalid("This is not a JSON object.")
    return body


def _spec_given(body: dict[str, Any]) -> str | dict[str, Any]:
    wish = body.get("yaml", body.get("spec"))
    if not isinstance(wish, str | dict):
        raise Invalid("Give `yaml` as text or `spec` as an object.", field="spec")
    return wish


@page("POST")
def job_new_check(request: HttpRequest, dataset_id: str) -> HttpResponseBase:
    """Check a spec given as `yaml` text or `spec` values, for a model.py of the person's where `own_model` is true;
    answer both forms, guesses with reasons, problems."""
    try:
        dataset = dataset_get(user=person(request), dataset_id=dataset_id)
        body = _body(request)
        wish = _spec_given(body)
        is_own = body["own_model"] if isinstance(body.get("own_model"), bool) else None
        checked = spec_check(user=person(request), spec=wish, dataset=dataset, is_own=is_own)
    except HarnessError as error:
        return JsonResponse({"error": error.to_dict()}, status=error.status)
    spec = checked["spec"]
    text = dump(TaskSpec.model_validate(spec)) if spec else None
    return JsonResponse({**checked, "yaml": text})


@page("POST")
def job_new_models(request: HttpRequest, dataset_id: str) -> HttpResponseBase:
    """Suggested models as cards and a picture, as a fragment."""
    dataset = dataset_get(user=person(request), dataset_id=dataset_id)
    models = job_suggest(spec=_spec_given(_body(request)), dataset=dataset)
    pictures = [
        ("parameters", "Parameters", "parameters"),
        ("flops_per_sample", "Work per row (FLOPs)", "FLOPs"),
        ("memory_bytes", "Memory while training (KiB)", "KiB"),
    ]
    charts = [
        {
            "id": f"compare-{key}",
            "title": title,
            "kind": "bars",
            "scale": "log",
            "columns": ["model", unit],
            "rows": [[model["title"], max(1, model[key] / (2**10 if unit == "KiB" else 1))] for model in models],
        }
        for key, title, unit in pictures
    ]
    return show(request, "jobs/models.html", {"models": models, "charts": charts, "dataset": dataset})
