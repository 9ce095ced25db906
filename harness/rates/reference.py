"""The family's own batch and rate, from which scaling rules start."""

from __future__ import annotations

from codegen.catalog.rates import rate_factor
from harness.datasets.selectors import dataset_profile
from harness.errors import HarnessError
from harness.estimates.rate_wishes import RULES, step_rows
from harness.jobs import programs
from harness.jobs.models import Job
from harness.pool.hardware import hardware


def rates_by_rules(job: Job) -> dict[str, float]:
    """`{linear, sqrt, reference, reference_batch}` of the job's batch; empty where its spec cannot be resolved anew."""
    given = job.spec.get("training", {})
    open_fields = {"batch_size": "auto", "learning_rate": "auto", "rate_rule": "none"}
    model = job.spec.get("model", {})
    params = {name: value for name, value in model.get("params", {}).items() if name != "batch_size"}
    resources = {**job.spec.get("resources", {}), "memory_gib": "auto"}
    changed = {"training": {**given, **open_fields}, "model": {**model, "params": params}, "resources": resources}
    # What memory has room for changes the batch, but not the one that the rate is for.
    boundless = hardware().boundless
    try:
        wish = programs.spec_read({**job.spec, **changed})
        resolved = programs.resolve_spec(wish, dataset_profile(job.dataset), boundless)
    except HarnessError:
        return {}
    usual = resolved.spec["training"]
    rate, reference = float(usual["learning_rate"]), int(usual["batch_size"])
    rates = {rule: rate * rate_factor(rule, step_rows(job), reference) for rule in RULES}
    return {**rates, "reference": rate, "reference_batch": reference}
