"""Routes: the schema of task specs, checks, suggestions."""

from __future__ import annotations

from hashlib import sha256
from typing import Annotated, Any

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from ninja import Query, Router

from codegen.spec import TaskSpec
from codegen.task import task_guessed
from harness.accounts.models import User
from harness.api.auth import person
from harness.api.caching import json_if_changed
from harness.api.document import media, unless_same
from harness.api.schemas.jobs import SpecCheckIn, SpecCheckOut, SpecForDatasetIn, SuggestionsOut
from harness.datasets.models import Dataset
from harness.datasets.selectors import dataset_get, dataset_profile
from harness.errors import NotFound
from harness.jobs import services

router = Router()


def _yaml(spec: dict[str, Any]) -> str:
    from codegen.spec_yaml import dump

    return dump(TaskSpec.model_validate(spec))


def _dataset(user: User, dataset_id: str) -> Dataset:
    try:
        return dataset_get(user=user, dataset_id=dataset_id)
    except NotFound as error:
        raise NotFound(error.message, hint=error.hint, field="dataset") from error


@router.get("/spec/schema", response=dict[str, Any], summary="JSON Schema of a task spec", openapi_extra=unless_same())
def spec_schema(request: HttpRequest) -> HttpResponseBase:
    """The one schema behind form, YAML, API and command line. Has an ETag."""
    schema = TaskSpec.model_json_schema()
    return json_if_changed(request, sha256(str(schema).encode()).hexdigest(), lambda: schema)


@router.get("/spec/template", summary="A spec to start from", openapi_extra=media("application/yaml"))
def spec_template(
    request: HttpRequest,
    dataset: Annotated[str, Query(max_length=12, description="Id of a dataset to fill in.")] = "",
) -> HttpResponse:
    """Commented YAML with every field at `auto`; with a dataset its id, guessed task and target are filled in."""
    user = person(request)
    wish: dict[str, Any] = {}
    if dataset:
        found = _dataset(user, dataset)
        profile = dataset_profile(found)
        data = {"dataset": found.pk, **({"target": profile.target} if profile.target else {})}
        task, _ = task_guessed(profile)
        wish = {"data": data, **({"task": str(task)} if task else {})}
    return HttpResponse(_yaml(wish), content_type="application/yaml; charset=utf-8")


@router.post("/spec/check", response=SpecCheckOut, summary="Check a spec")
def spec_check(request: HttpRequest, body: SpecCheckIn) -> dict[str, Any]:
    """What each `auto` becomes and why, or everything that is wrong. A bad spec answers 200 with `ok: false`."""
    user = person(request)
    dataset = _dataset(user, body.dataset) if body.dataset else None
    found = services.spec_check(user=user, spec=body.wish, dataset=dataset, is_own=body.own_model)
    text = _yaml(found["spec"]) if found["spec"] else None
    return {"ok": not found["problems"], "yaml": text, **found}


@router.post("/suggest", response=SuggestionsOut, summary="Suggest models")
def suggest(request: HttpRequest, body: SpecForDatasetIn) -> dict[str, Any]:
    """Models that fit task, data and devices, best first, each with what speaks for and against it."""
    user = person(request)
    return {"items": services.job_suggest(spec=body.wish, dataset=_dataset(user, body.dataset))}
