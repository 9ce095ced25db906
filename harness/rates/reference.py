"""The family's own batch and rate, from which scaling rules start."""

from __future__ import annotations

from codegen.catalog.rates import rate_factor
from harness.datasets.selectors import dataset_profile
from harness.errors import HarnessError
from harness.jobs import programs
from harness.jobs.models import Job
from harness.pool.selectors import hardware

RULES = ("linear", "sqrt")


def rates_by_rules(job: Job) -> dict[str, float]:
    """`{linear, sqrt, reference, reference_batch}` of the job's batch; empty where its spec cannot be resolved anew."""
    given = job.spec.get("training", {})
    open_fields = {"batch_size": "auto", "learning_rate": "auto", "rate_rule": "none"}
    model = job.spec.get("model", {})
    params = {name: value for name, value in model.get("params", {}).items() if name != "batch_size"}
    spec = {**job.spec, "training": {**given, **open_fields}, "model": {**model, "params": params}}
    try:
        resolved = programs.resolve_spec(programs.spec_read(spec), dataset_profile(job.dataset), hardware())
    except HarnessError:
        return {}
    usual = resolved.spec["training"]
    batch = int((job.resolved.get("spec") or {}).get("training", {}).get("batch_size") or usual["batch_size"])
    rate, reference = float(usual["learning_rate"]), int(usual["batch_size"])
    rates = {rule: rate * rate_factor(rule, batch, reference) for rule in RULES}
    return {**rates, "reference": rate, "reference_batch": reference}
