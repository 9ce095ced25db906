"""Groups of jobs in words: a line for each, as the page and its CSV have them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from harness.jobs.columns import METRIC, SPEC, Column, spec_fields
from harness.jobs.grouping import DEFAULT_FIGURE, FIGURES, GROUPS, Grouping, JobGroup
from harness.pages.job_columns import Head, column_head
from harness.pages.named import task_word, words
from harness.pages.templatetags.dlh import plain
from harness.pages.words import STATE_WORDS

GROUPS_SHOWN = 200
CSV_COLUMNS = ("group", "metric", "jobs", "n", "mean", "sd", "best", "best_job", "basis")
_UNITS = {"run_s": " (s)", "energy_j": " (J)"}


def groups_shown(groups: Sequence[JobGroup], grouping: Grouping) -> dict[str, Any]:
    """Context of `jobs/groups.html`."""
    by, of = column_head(grouping.by), column_head(grouping.of)
    return {
        "groups": [(group, value_words(grouping.by, group.value)) for group in groups[:GROUPS_SHOWN]],
        "groups_more": max(0, len(groups) - GROUPS_SHOWN),
        "group_label": "Tag" if by.key == "tags" else by.label,
        "figure_label": of.label + _UNITS.get(of.key, ""),
        "groups_based": any(group.basis for group in groups),
        "groups_judged": any(group.metric for group in groups),
        "groups_overlap": by.key == "tags",
        "opened": next((value_words(grouping.by, group.value) for group in groups if group.key == grouping.opened), ""),
        "opened_key": grouping.opened,
    }


def groups_csv(groups: Iterable[JobGroup], grouping: Grouping) -> Iterable[list[Any]]:
    """Rows below `CSV_COLUMNS`."""
    for group in groups:
        best = group.best or (None, None, None)
        figures = [group.count, len(group.figures), group.mean, group.deviation, best[0], best[1], group.basis]
        yield [value_words(grouping.by, group.value), group.metric, *figures]


def group_choices(grouping: Grouping | None, metric_keys: Iterable[str]) -> dict[str, Any]:
    """What the form offers to group by, and of which figure; and what is chosen."""
    return {
        "group_columns": [column_head(Column(key)) for key in GROUPS],
        "group_fields": [column_head(Column(f"{SPEC}{path}")) for path in spec_fields()],
        "figure_columns": [*(column_head(Column(key)) for key in FIGURES), *_metrics(metric_keys)],
        "group_given": grouping.by.key if grouping else "",
        "figure_given": grouping.of.key if grouping else DEFAULT_FIGURE,
    }


def _metrics(keys: Iterable[str]) -> list[Head]:
    return [column_head(Column(f"{METRIC}{key}")) for key in keys]


def value_words(by: Column, value: Any) -> str:
    """A group's value as people read it."""
    if value is None:
        return "no tag" if by.key == "tags" else "none"
    if by.key == "state":
        return STATE_WORDS.get(value, (str(value), ""))[0]
    if by.key == "task":
        return task_word(value)
    return words(value) if by.key == "family" else plain(value)
