"""What a job's spec is once a line of an offer is taken, and what of it came with the line alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from codegen.modes import STAGED, without_effect
from codegen.spec import TaskSpec
from harness.estimates.models import OfferRow
from harness.jobs.models import Job
from harness.jobs.taken import TAKEN, spec_named
from scheduler.estimation.pipelines import PIPELINES
from scheduler.estimation.values import Allocation
from scheduler.offers.staged import why_staged
from scheduler.offers.values import Offer, OfferLine


def spec_with(job: Job, chosen: OfferLine, offer: OfferRow) -> dict[str, Any]:
    """The job's spec with the devices, the mode and the deadline of the offer; what was priced is pinned.

    What the mode has no use for is left open again. A rate that follows a rule, or waits for its test, still does.
    """
    spec = TaskSpec.model_validate(job.spec).model_dump(mode="json")
    resolved = job.resolved.get("spec") or {}
    way = chosen.allocation
    spec["resources"] |= {"device": way.kind, "count": way.count}
    if spec["resources"]["device_model"] not in ("auto", way.model_name):
        spec["resources"]["device_model"] = "auto" if way.parts else way.model_name
    spec["mode"] = way.mode
    spec["pipeline"]["stages"] = _stages(spec_named(spec, job.taken)["pipeline"]["stages"], way)
    spec["budget"]["deadline"] = offer.deadline_at.isoformat() if offer.deadline_at else "auto"
    wished = {name: spec["training"][name] for name in ("learning_rate", "rate_rule")}
    for part in ("training", "model"):
        spec[part] |= {key: value for key, value in resolved.get(part, {}).items() if key in spec[part]}
    if wished["learning_rate"] == "auto":
        spec["training"] |= wished
    for field, _ in without_effect(TaskSpec.model_validate(spec), way.mode):
        part, _, name = field.partition(".")
        spec[part][name] = "auto"
    return spec


def _stages(named: int | str, way: Allocation) -> int | str:
    """`pipeline.stages` of a spec that takes this way; one pipeline alone has a stage on each of its devices."""
    if way.mode == PIPELINES:
        return way.stages or named
    return named if way.mode not in STAGED or named == way.count else "auto"


def taken_of(job: Job, spec: Mapping[str, Any], chosen: OfferLine, priced: Offer) -> dict[str, Any]:
    """What the spec has of the line that nobody named, and why: it stays open in the next offer."""
    named, way, wish = spec_named(job.spec, job.taken), chosen.allocation, priced.wish
    mode, stages, resources = way.mode, spec["pipeline"]["stages"], named.get("resources") or {}
    taken: dict[str, Any] = {}
    model, named_model = spec["resources"]["device_model"], resources.get("device_model", "auto")
    # A model that is named brings its kind, which nobody named then.
    wished_kind = wish.kind if named_model == "auto" else None
    if way.kind not in (wished_kind, resources.get("device")):
        taken["device"] = way.kind
    if model not in ("auto", named_model):
        taken["device_model"] = model
    if way.count not in (wish.count, resources.get("count")):
        taken["count"] = way.count
    if mode not in (wish.mode, named.get("mode")):
        taken["mode"] = mode
    if stages not in ("auto", (named.get("pipeline") or {}).get("stages")):
        taken["stages"] = stages
    read = TaskSpec.model_validate(job.spec)
    dropped = sorted(field for field, _ in without_effect(read, mode))
    left = f"It leaves {' and '.join(dropped)} open." if dropped else ""
    said = (TAKEN, why_staged(chosen, priced.lines, wish), left)
    return taken and {**taken, "reason": " ".join(filter(None, said))}
