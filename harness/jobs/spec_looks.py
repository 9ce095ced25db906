"""What would become of a spec that is still being written, and which models fit it. Reads only."""

from __future__ import annotations

from typing import Any

from django.utils import timezone

from codegen.catalog import OWN
from codegen.render import OWN_WITHOUT_MODEL
from codegen.spec import TaskSpec
from harness.accounts.access import require
from harness.accounts.models import Role, User
from harness.datasets.models import Dataset
from harness.datasets.selectors import dataset_profile
from harness.datasets.weights import weights_named
from harness.errors import Invalid
from harness.jobs import programs
from harness.jobs.options import deadline_check, wanted_deadline
from harness.pool.hardware import hardware


def spec_check(
    *, user: User, spec: str | dict[str, Any], dataset: Dataset | None, is_own: bool | None = None
) -> dict[str, Any]:
    """`{spec, resolved, problems}`: what would become of a spec; raises nothing for a bad one. With no dataset only
    the schema is checked. `is_own`: whether a person's model.py goes with it, where that is known."""
    if dataset is not None:
        require(user, dataset.project, Role.VIEWER)
    try:
        wish = programs.spec_read(spec)
    except programs.SpecInvalid as error:
        return {"spec": None, "resolved": None, "problems": error.problems}
    plain = wish.model_dump(mode="json")
    if dataset is None:
        return {"spec": plain, "resolved": None, "problems": []}
    try:
        resolved = programs.resolve_spec(wish, dataset_profile(dataset), hardware(), is_own=bool(is_own))
    except programs.SpecInvalid as error:
        return {"spec": plain, "resolved": None, "problems": error.problems}
    problems = _deadline_problems(wish) + _weights_problems(wish, dataset)
    if is_own is False and wish.model.family == OWN:
        problems.append({"field": "model.family", "message": OWN_WITHOUT_MODEL})
    return {"spec": plain, "resolved": resolved.to_dict(), "problems": problems}


def _deadline_problems(wish: TaskSpec) -> list[dict[str, str]]:
    """What submitting would refuse, said while it is written: a finish time that is over, or that nobody means."""
    deadline_at = wanted_deadline(wish)
    if deadline_at is None:
        return []
    field = "budget.deadline"
    if deadline_at <= timezone.now():
        return [{"field": field, "message": "This time has passed: give a later one, or auto for none."}]
    try:
        deadline_check(deadline_at, field=field)
    except Invalid as error:
        return [{"field": field, "message": f"{error.message} {error.hint}"}]
    return []


def _weights_problems(wish: TaskSpec, dataset: Dataset) -> list[dict[str, str]]:
    """Weights that the project of the dataset does not have, or several of one name."""
    if wish.model.weights == "auto":
        return []
    try:
        weights_named(dataset.project, wish.model.weights)
    except Invalid as error:
        return [{"field": "model.weights", "message": f"{error.message} {error.hint}"}]
    return []


def job_suggest(*, spec: str | dict[str, Any], dataset: Dataset) -> list[dict[str, Any]]:
    """Models for the data, best first, each with its reason. Raises `SpecInvalid`, `Conflict`."""
    return programs.suggestions_of(programs.spec_read(spec), dataset_profile(dataset), hardware())
