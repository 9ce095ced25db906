"""What each device, job, person or project used over time."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from harness.errors import Invalid
from harness.jobs.naming import job_update
from harness.jobs.timelines import job_energy
from harness.jobs.use_rows import HIDDEN, use_grouped, use_rows
from harness.jobs.use_timeline import OTHERS, use_point_cells, use_series, use_timeline
from harness.jobs.uses import uses_read
from harness.jobs.windows import window_of
from harness.pool.models import Device
from tests.harness.jobs.helpers import run_now
from tests.harness.jobs.test_queueing import use_make

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("by", ["device", "job", "person", "project"])
def test_points_add_up_to_the_use(job, people, node_make, by):
    first, second = node_make(cpus=2).devices.order_by("index")
    use_make(people, job, first, hours_ago=26, hours=4)
    use_make(people, job, second, hours_ago=3, hours=2.2)
    window = window_of("day")
    points = use_timeline(user=people.owner, window=window, by=by)
    rows = {row.name: row for row in use_rows(user=people.owner, window=window, by=by)}
    assert {point.name for point in points} == set(rows)
    for name, row in rows.items():
        mine = [point for point in points if point.name == name]
        assert sum(point.kwh for point in mine) == pytest.approx(row.kwh)
        assert sum(point.device_hours for point in mine) == pytest.approx(row.device_hours)


def test_of_one_device_the_share_of_the_time_that_it_worked_is_told(job, people, node_make):
    use_make(people, job, node_make(cpus=1).devices.get(), hours_ago=6, hours=1.25)
    points = use_timeline(user=people.owner, window=window_of("day"), by="device")
    # The window ends a moment after the use was noted, so it begins a moment before a bucket does.
    assert [round(point.devices, 1) for point in points if point.devices > 0.01] == [1.0, 1.0, 0.5]
    assert [point.starts_at for point in points] == sorted(point.starts_at for point in points)


def test_what_a_wide_run_takes_is_read_in_as_many_queries_as_what_one_core_takes(
    job_make, node_make, django_assert_num_queries
):
    node_make(cpus=5)
    for count in (1, 4):
        job = job_make(resources={"device": "cpu", "count": count})
        run_now(job)
        with django_assert_num_queries(8):
            assert job_energy(job).power_w > 0


def test_projects_that_a_person_does_not_see_are_nameless(job, people, node_make):
    use_make(people, job, node_make(cpus=1).devices.get(), hours_ago=2, hours=1)
    for by in ("job", "person", "project"):
        points = use_timeline(user=people.outsider, window=window_of("day"), by=by)
        assert {(point.name, point.job_id) for point in points} == {(HIDDEN, "")}
    with pytest.raises(Invalid):
        use_timeline(user=people.owner, window=window_of("day"), by="colour")


def test_a_use_that_ended_in_the_last_moment_of_the_window_has_a_point(job, people, node_make):
    use_make(people, job, node_make(cpus=1).devices.get(), hours_ago=1, hours=1)
    window = window_of("day", timezone.now() - timedelta(seconds=1))
    points = use_timeline(user=people.owner, window=window, by="project")
    assert sum(point.device_hours for point in points) == pytest.approx(1.0, rel=0.01)
    assert max(point.starts_at for point in points) < window.until


def test_the_lesser_ones_are_one_series_and_two_of_one_name_are_told_apart(job_make, people, node_make):
    device = node_make(cpus=1).devices.get()
    jobs = [job_make(name=name) for name in ("twin", "twin", "small", "smaller")]
    for number, one in enumerate(jobs):
        use_make(people, one, device, hours_ago=10 - number, hours=0.5, energy_j=4e6 - 1e6 * number)
    window = window_of("day")
    series = use_series(use_grouped(people.owner, uses_read(window, "job")), 3)
    assert [one.name for one in series] == [f"twin ({jobs[0].pk})", f"twin ({jobs[1].pk})", OTHERS]
    assert [round(sum(one.kwh) * 3.6e6) for one in series] == [4_000_000, 3_000_000, 3_000_000]
    assert all(len(one.devices) == window.buckets for one in series)


def test_a_row_of_the_csv_has_the_co2_by_the_factor(job, people, node_make):
    use_make(people, job, node_make(cpus=1).devices.get(), hours_ago=2, hours=0.4)
    points = use_timeline(user=people.owner, window=window_of("day"), by="project")
    rows = [use_point_cells(point, "project", 250.0) for point in points]
    assert sum(row[-2] for row in rows) == pytest.approx(250.0)
    assert sum(row[-3] for row in rows) == pytest.approx(1.0)
    assert {row[-1] for row in rows} == {"measured"}
    (series,) = use_series(use_grouped(people.owner, uses_read(window_of("day"), "project")), 3)
    assert series.basis == "measured"


def test_what_a_job_used_is_found_under_the_name_that_it_has_now(job, people, node_make):
    use_make(people, job, node_make(cpus=1).devices.get(), hours_ago=3, hours=1)
    job_update(user=people.owner, job=job, name="spruces")
    use_make(people, job, Device.objects.get(), hours_ago=1, hours=1)
    rows = use_rows(user=people.owner, window=window_of("day"), by="job")
    assert [(row.name, row.job_id) for row in rows] == [("spruces", job.pk)]


@pytest.mark.parametrize("of", ["use.csv?by=device&", "use/timeline.csv?by=job&", "timeline.csv?", "history.csv?"])
def test_a_month_in_which_nothing_was_is_a_csv_of_names_of_columns(people, client, of):
    client.force_login(people.owner)
    answer = client.get(f"/api/v1/pool/{of}span=month")
    assert answer.status_code == 200
    assert len(b"".join(answer.streaming_content).decode().splitlines()) == 1
