"""The table that `dlh jobs` prints: its usual columns, or those of a view."""

from __future__ import annotations

from typing import Any

from harness.client.cli.output import duration, number, table_print, when
from harness.client.client import Json
from worker.words import percent_words

_USUAL = ("Id", "Name", "State", "Done", "Best (validation)", "Model", "Dataset", "Owner", "Created")
_HEADS = {
    "family": "Model",
    "run_s": "Run time",
    "energy_j": "Energy (J)",
    "predicted_run_s": "Run time (predicted)",
    "predicted_energy_j": "Energy (predicted, J)",
    "energy_basis": "Energy rests on",
    "predicted_energy_basis": "Energy (predicted) rests on",
    "samples_per_s": "Samples/s",
    "metric_best": "Best (validation)",
    "metric_test": "Test",
}


def jobs_print(jobs: list[Json], *, has_columns: bool) -> None:
    """One line per job; `has_columns`: the portal was asked for columns, which are shown in place of the usual ones."""
    if not has_columns:
        table_print(_USUAL, map(_usual, jobs))
        return
    keys = [key for key in (jobs[0]["columns"] if jobs else ()) if key != "id"]
    rows = ((job["id"], job["name"], *(_written(key, job["columns"][key]) for key in keys)) for job in jobs)
    table_print(("Id", "Name", *map(_head, keys)), rows)


def groups_print(page: Json) -> None:
    """One line per group of a page of groups."""
    judged = any(group["metric"] for group in page["items"])
    based = any(group.get("basis") for group in page["items"])
    heads = (_head(page["by"]), *(("Metric",) if judged else ()), "Jobs", "n", f"{_head(page['of'])}: mean", "sd")
    rows = (
        (
            _written(page["by"], group["value"]) or "none",
            *((group["metric"] or "none",) if judged else ()),
            group["jobs"],
            group["n"],
            *(_written(page["of"], group[name]) for name in ("mean", "sd")),
            *((group["basis"],) if based else ()),
            _written(page["of"], group["best"]),
            (group["best_job"] or {}).get("id", ""),
        )
        for group in page["items"]
    )
    table_print((*heads, *(("Basis",) if based else ()), "Best", "Best job"), rows)


def _usual(job: Json) -> tuple[object, ...]:
    metric = f"{job['metric_name']} {number(job['metric_best'])}" if job["metric_best"] is not None else ""
    done = percent_words(job["progress"], 0)
    who = (job["family"], job["dataset"]["name"], job["owner"], when(job["created_at"]))
    return job["id"], job["name"], job["state"], done, metric, *who


def _head(key: str) -> str:
    plain = key.partition(":")[2]
    return plain or _HEADS.get(key, key.removesuffix("_at").replace("_", " ").capitalize())


def _written(key: str, value: Any) -> str:
    if value is None:
        return ""
    if key.endswith("_at") and ":" not in key:
        return when(value)
    if key in {"run_s", "predicted_run_s"}:
        return duration(value) if value else ""  # nothing ran yet
    if isinstance(value, list):
        return ", ".join(map(str, value))
    is_figure = isinstance(value, int | float) and not isinstance(value, bool)
    return number(value) if is_figure else str(value)
