"""Whether scores of jobs may be set against one another: the same metric of the same target on the same rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from harness.jobs.models import Job
from harness.plain import value_at


def _of_spec(path: str) -> Callable[[Job], Any]:
    return lambda job: value_at(job.resolved.get("spec"), path)


_JUDGED_BY: dict[str, Callable[[Job], Any]] = {
    "metric": lambda job: job.metric_name,
    "dataset": lambda job: job.dataset_sha256 or job.dataset_id,
    "target": _of_spec("data.target"),
    "split": _of_spec("data.split"),
}


def judged_apart(jobs: Sequence[Job]) -> list[str]:
    """In which of metric, dataset, target and split the jobs differ: where in any, none of them is the best."""
    return [name for name, read in _JUDGED_BY.items() if any(read(job) != read(jobs[0]) for job in jobs[1:])]


def judging_note(jobs: Sequence[Job]) -> str:
    """Why none of the jobs is called the best, or what to mind where one is; empty: they are judged alike."""
    judged = [job for job in jobs if job.metric_best is not None or job.metric_test is not None]
    if apart := judged_apart(judged):
        names = " and ".join(filter(None, (", ".join(apart[:-1]), apart[-1])))
        return (
            f"None is marked as the best, since their scores cannot be set against one another: they differ in {names}."
        )
    if any(map(_split_by_seed, judged)) and len(set(map(_of_spec("training.seed"), judged))) > 1:
        return (
            "Their seeds differ, and with them the rows that each is judged on: small differences may come from that."
        )
    return ""


def _split_by_seed(job: Job) -> bool:
    """Whether the seed draws the rows of each part: not in the order of time, nor where the data bring their split."""
    given = any(
        (guess.get("field"), guess.get("value")) == ("data.split", "given") for guess in job.resolved.get("guesses", ())
    )
    return not given and _of_spec("data.split.by")(job) != "time"
