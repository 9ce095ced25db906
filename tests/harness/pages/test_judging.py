"""Which jobs are judged alike, so that one of them may be called the best."""

from __future__ import annotations

from typing import Any

import pytest

from harness.jobs.models import Job
from harness.pages.compare_view import compare_rows
from harness.pages.judging import judged_apart, judging_note

RANDOM = {"validation": 0.15, "test": 0.15, "stratify": True, "by": "random"}


def job(key: str, score: float | None, **more: Any) -> Job:
    """A job with a score; `more`: its target, split, seed and guesses, else columns."""
    data = {"target": more.pop("target", "y"), "split": more.pop("split", RANDOM)}
    spec = {"data": data, "training": {"seed": more.pop("seed", 0)}}
    resolved = {"spec": spec, "guesses": more.pop("guesses", [])}
    columns = {"metric_name": "accuracy", "dataset_sha256": "a" * 64, "metric_best": score, "metric_test": score}
    return Job(pk=key, resolved=resolved, **columns | more)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("other", "name"),
    [
        ({"dataset_sha256": "b" * 64}, "dataset"),
        ({"target": "z"}, "target"),
        ({"split": RANDOM | {"test": 0.3}}, "split"),
        ({"metric_name": "macro_f1"}, "metric"),
    ],
)
def test_none_is_the_best_of_jobs_that_are_not_judged_alike(other: dict[str, Any], name: str) -> None:
    jobs = [job("a", 0.9), job("b", 0.8, **other)]
    assert judged_apart(jobs) == [name] and judging_note(jobs).endswith(f"they differ in {name}.")
    assert not any(row["best"] or row["best_test"] for row in compare_rows(jobs))


def test_all_in_which_they_differ_is_named() -> None:
    others = [job("b", 0.8, target="z"), job("c", 0.7, dataset_sha256="b" * 64, split=None)]
    assert judging_note([job("a", 0.9), *others]).endswith("they differ in dataset, target and split.")


@pytest.mark.django_db
def test_a_job_without_a_score_is_in_nobodys_way() -> None:
    jobs = [job("a", 0.9), job("b", 0.8), job("c", None, dataset_sha256="b" * 64, metric_name="")]
    assert judging_note(jobs) == ""
    assert [row["best"] for row in compare_rows(jobs)] == [True, False, False]


def test_other_seeds_are_other_test_rows_where_they_are_drawn_by_it() -> None:
    def note(**more: Any) -> str:
        return judging_note([job("a", 0.9, **more), job("b", 0.8, seed=1, **more)])

    assert note().startswith("Their seeds differ, and with them the rows")
    assert note(split={"by": "group", "column": "person"}) and note(split={"validation": 0.1, "test": 0.1})
    assert note(split={"by": "time", "column": "day"}) == ""
    assert note(guesses=[{"field": "data.split", "value": "given", "reason": "the upload comes with it"}]) == ""
    assert judging_note([job("a", 0.9), job("b", 0.8)]) == ""
