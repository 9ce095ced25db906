"""What compared jobs can be drawn by: the spec fields in which they differ, and every figure that they told."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from codegen.spec import Metric
from harness.jobs.columns import SPEC, Column, columns_values
from harness.jobs.comparing import COLUMNS
from harness.jobs.models import Job
from harness.pages.figures import is_number
from harness.pages.job_columns import column_head
from harness.pages.judging import judged_apart
from harness.pages.named import task_word, words
from harness.pages.spec_diff import spec_differences
from harness.pages.templatetags.dlh import plain
from worker.merit import SMALLER_IS_BETTER, larger_is_better

_OWN = {"data.dataset"}
"""Told by a field of its own, in words."""
_IN_WORDS: dict[str, Callable[[Any], str]] = {"task": task_word, "model.family": words}
_PARTS = {"train": "training", "val": "validation"}
_SCORES = {str(metric) for metric in Metric} | SMALLER_IS_BETTER
_COSTS = (("run_s", "Run time (s)", -1), ("energy_j", "Energy (J)", -1), ("samples_per_s", "Samples/s", 1))
Field = dict[str, Any]


def compare_specs(jobs: Sequence[Job]) -> list[dict[str, Any]]:
    """The spec of each job, as it was resolved where it was; a dataset that it leaves open is that of the job."""
    specs = [job.resolved.get("spec") or job.spec for job in jobs]
    return [
        {**spec, "data": {**(spec.get("data") or {}), "dataset": job.dataset.name}}
        for spec, job in zip(specs, jobs, strict=True)
    ]


def compare_fields(jobs: Sequence[Job]) -> list[Field]:
    """`{key, label, is_number, is_figure, better, apart, values}`, a value for each job, None where it has none.

    `better` is 1 where more is better, -1 where less is, 0 where neither is known; `apart` marks scores of jobs that
    are not judged alike, of which none is the best. Spec fields come first, each only where the jobs differ in it; of
    figures, each that at least one job told.
    """
    return [*_settings(jobs), *_figures(jobs)]


def _settings(jobs: Sequence[Job]) -> Iterable[Field]:
    datasets = [job.dataset.name for job in jobs]
    if len({job.dataset_id for job in jobs}) > 1:
        yield _category("dataset", "Dataset", datasets)
    for row in spec_differences(compare_specs(jobs)):
        path, values = row["field"], row["values"]
        if path in _OWN:
            continue
        label = column_head(Column(f"{SPEC}{path}")).label
        if all(value is None or is_number(value) for value in values):
            yield _numbers(path, label, values)
        else:
            write = _IN_WORDS.get(path, plain)
            yield _category(path, label, [None if value is None else write(value) for value in values])


def _figures(jobs: Sequence[Job]) -> Iterable[Field]:
    named = dict.fromkeys(job.metric_name for job in jobs if job.metric_name)
    for part, title, column in (("best", "Best {} (validation)", "metric_best"), ("test", "Test {}", "metric_test")):
        for name in sorted(named):
            values = [getattr(job, column) if job.metric_name == name else None for job in jobs]
            better = 1 if larger_is_better(name) else -1
            yield from _told(f"{part}:{name}", title.format(words(name)), values, better, jobs)
    for key in sorted({key for job in jobs for key in job.last_values if not key.startswith("rank")}):
        values = [job.last_values.get(key) for job in jobs]
        yield from _told(f"last:{key}", _newest(key), values, _better(key), jobs)
    computed = [columns_values(job, COLUMNS) for job in jobs]
    for key, label, better in _COSTS:
        values = [row[key] if key in row else getattr(job, key) for job, row in zip(jobs, computed, strict=True)]
        if key == "energy_j":
            label += _bases_words(row["energy_basis"] for row in computed)
        yield from _told(key, label, [value or None for value in values], better)


def _newest(key: str) -> str:
    """What a curve ends with, in words: `train/log_loss` as `Newest log loss (training)`."""
    part, _, name = key.partition("/")
    return f"Newest {words(name)} ({_PARTS[part]})" if part in _PARTS and name else f"Newest {key}"


def _bases_words(bases: Iterable[str | None]) -> str:
    """`, measured`; of jobs that differ in it `, assumed or measured`."""
    known = sorted({basis for basis in bases if basis})
    return f", {' or '.join(known)}" if known else ""


def _better(key: str) -> int:
    name = key.rpartition("/")[2]
    if name not in _SCORES:
        return 0
    return 1 if larger_is_better(name) else -1


def _told(key: str, label: str, values: Sequence[Any], better: int, judged: Sequence[Job] = ()) -> Iterable[Field]:
    """`judged`: the jobs, where the figure is a score, which only says which is better of those on the same rows."""
    if any(is_number(value) for value in values):
        those = [job for job, value in zip(judged, values, strict=False) if is_number(value)]
        apart = any(name != "metric" for name in judged_apart(those))
        yield _numbers(key, label, values) | {"is_figure": True, "better": better, "apart": apart}


def _numbers(key: str, label: str, values: Sequence[Any]) -> Field:
    return _field(key, label, [value if is_number(value) else None for value in values], numeric=True)


def _category(key: str, label: str, values: Sequence[str | None]) -> Field:
    return _field(key, label, list(values), numeric=False)


def _field(key: str, label: str, values: list[Any], *, numeric: bool) -> Field:
    kind = {"is_number": numeric, "is_figure": False, "better": 0, "apart": False}
    return {"key": key, "label": label, **kind, "values": values}
