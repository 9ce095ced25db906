"""Jobs that are alike but for the seed: who belongs together, and their curves as a mean with a band."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from django.utils import timezone

from harness.jobs.models import Job, MetricPoint
from harness.jobs.seeds import seed_curves, seed_curves_csv, seed_groups
from tests.factory_runs import runs_make

pytestmark = [pytest.mark.usefixtures("tasks_sent"), pytest.mark.django_db]


@pytest.fixture
def runs(job_make: Any) -> list[Job]:
    """The first three differ in the seed alone; of the next two, which do so as well, the second broke at step 21."""
    like = job_make(name="like")
    like.running_at = timezone.now()
    jobs = runs_make(like, 6)
    return list(Job.objects.filter(pk__in=[job.pk for job in jobs]).order_by("name"))


def numbers(groups: list[list[Job]]) -> list[list[int]]:
    return [[int(job.name.split()[1]) for job in group] for group in groups]


def test_jobs_that_differ_in_the_seed_alone_belong_together(runs: list[Job]) -> None:
    assert numbers(seed_groups(runs)) == [[0, 1, 2], [3, 4]]
    runs[1].resolved["spec"]["training"]["epochs"] = 99
    runs[4].running_at = None
    assert numbers(seed_groups(runs)) == [[0, 2]]


def test_jobs_on_other_data_or_with_other_code_of_a_person_do_not(
    runs: list[Job], tmp_path: Any, settings: Any
) -> None:
    runs[2].dataset_sha256 = "0" * 64
    for job in runs[:2]:
        job.program_edited = True
        folder = settings.STORE.job(job.pk).program
        folder.mkdir(parents=True)
        (folder / "model.py").write_text("x = 1\n")
        (folder / "spec.yaml").write_text(f"training: {{seed: {job.name[-1]}}}\n")
    assert numbers(seed_groups(runs[:3])) == [[0, 1]]
    (folder / "model.py").write_text("x = 2\n")
    assert seed_groups(runs[:3]) == []


def test_jobs_that_start_from_other_weights_of_the_same_name_do_not(runs: list[Job]) -> None:
    for job, weights in zip(runs[:3], ("first", "first", "second"), strict=True):
        job.resolved["spec"]["model"]["weights"] = "mine"
        job.weights_id = weights
    assert numbers(seed_groups(runs[:3])) == [[0, 1]]


def test_the_same_seed_counts_once(runs: list[Job]) -> None:
    runs[2].resolved = copy.deepcopy(runs[0].resolved)
    assert numbers(seed_groups(runs[:3])) == [[0, 1]]


def test_the_mean_and_the_band_are_of_every_value(runs: list[Job]) -> None:
    curve = seed_curves(jobs=runs[:3], points=100)["train/loss"]
    told = [list(MetricPoint.objects.filter(job=job, key="train/loss").order_by("step")) for job in runs[:3]]
    for at, points in enumerate(zip(*told, strict=True)):
        values = [point.value for point in points]
        assert curve["value"][at] == pytest.approx(sum(values) / 3)
        assert (curve["low"][at], curve["high"][at]) == (min(values), max(values)) and min(values) < max(values)
    assert curve["step"] == list(range(1, 31)) and curve["total"] == 30 and not curve["reduced"]


def test_a_mean_ends_where_one_of_them_has_no_value_any_more(runs: list[Job]) -> None:
    curves = seed_curves(jobs=runs[3:5], points=100)
    assert curves["train/loss"]["step"] == list(range(1, 21)) and curves["val/loss"]["step"] == [5, 10, 15, 20]
    MetricPoint.objects.filter(job=runs[4], key="val/loss").delete()
    assert set(seed_curves(jobs=runs[3:5], points=100)) == {"train/loss"}
    lines = b"".join(seed_curves_csv(jobs=runs[3:5])).decode().splitlines()
    assert lines[0] == "key,step,epoch,low,high,mean,seeds" and len(lines) == 21 and lines[1].endswith(",2")


def test_times_are_those_after_the_start_as_if_all_had_started_with_the_first(runs: list[Job]) -> None:
    later = list(MetricPoint.objects.filter(job=runs[1]))
    for point in later:
        point.time_s += 1000
    MetricPoint.objects.bulk_update(later, ["time_s"])
    curve = seed_curves(jobs=runs[:2], points=100)["train/loss"]
    first = MetricPoint.objects.filter(job=runs[0], key="train/loss").order_by("step")
    assert curve["time_s"] == pytest.approx([point.time_s for point in first])


def test_a_long_mean_is_cut_to_a_part_and_to_few_points(runs: list[Job]) -> None:
    curve = seed_curves(jobs=runs[:3], keys=["train/loss"], points=8)["train/loss"]
    assert curve["reduced"] and curve["total"] == 30 and len(curve["step"]) <= 8
    part = seed_curves(jobs=runs[:3], keys=["train/loss"], points=100, start=10, stop=12)["train/loss"]
    assert part["step"] == [10, 11, 12]
