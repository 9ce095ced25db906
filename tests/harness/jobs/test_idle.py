"""What devices draw while nobody holds them: told of each device, never charged to a job, never counted twice."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from harness.calibration.known import device_model, powers_known
from harness.jobs.control.metered import idle_power_of
from harness.jobs.idle import devices_idle
from harness.jobs.models import Allocation
from harness.jobs.timelines import bucket_cells, pool_timeline
from harness.jobs.use_rows import use_cells, use_columns, use_rows
from harness.jobs.use_timeline import idle_series, use_point_cells, use_point_columns, use_timeline
from harness.jobs.uses import uses_read
from harness.jobs.windows import KWH_J, window_of
from harness.pool.models import Device, IdlePower, Node, PoolSetting
from scheduler.estimation.device_table import figures_for
from tests.harness.jobs.helpers import run_now
from tests.harness.jobs.test_queueing import use_make

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("tasks_sent")]
IDLE_W, HOUR_S = 2.0, 3600.0


@pytest.fixture
def two(node_make):
    """Two cores that have been there for days, and draw 2 W while nothing runs on them."""
    PoolSetting.objects.update_or_create(pk=1, defaults={"power_table": {"cpu": {"idle_w": IDLE_W, "busy_w": 10.0}}})
    node = node_make("node-1", cpus=2)
    Node.objects.update(created_at=timezone.now() - timedelta(days=3))
    return node.devices.order_by("index")


def rows_by(people, by):
    return {row.name: row for row in use_rows(user=people.owner, window=window_of("day"), by=by)}


def test_a_device_is_told_at_work_and_idle_and_one_that_did_nothing_has_a_row(two, job, people):
    use_make(people, job, two[0], hours_ago=6, hours=5)
    rows = rows_by(people, "device")
    first, second = rows["node-1 CPU 0"], rows["node-1 CPU 1"]
    assert (first.device_hours, first.kwh, first.basis) == (pytest.approx(5.0), pytest.approx(1.0), "measured")
    assert first.idle_hours == pytest.approx(19.0) and second.idle_hours == pytest.approx(24.0)
    assert first.idle_kwh == pytest.approx(19 * HOUR_S * IDLE_W / KWH_J)
    assert first.together_kwh == pytest.approx(first.kwh + first.idle_kwh)
    assert (second.device_hours, second.kwh, second.basis, second.idle_basis) == (0.0, 0.0, "", "assumed")


@pytest.mark.parametrize("by", ["job", "person", "project"])
def test_the_totals_of_jobs_people_and_projects_stay_those_of_jobs(two, job, people, by):
    use_make(people, job, two[0], hours_ago=6, hours=5)
    (row,) = rows_by(people, by).values()
    assert (row.kwh, row.idle_j) == (pytest.approx(1.0), 0.0)
    assert use_columns(by)[-1] == "basis" and len(use_cells(row, by, 400.0)) == len(use_columns(by))


def test_what_a_job_is_charged_for_while_it_waits_for_its_files_is_not_idle_as_well(two, job_make, people):
    attempt = run_now(job_make())
    Allocation.objects.filter(attempt=attempt).update(created_at=timezone.now() - timedelta(hours=4))
    type(attempt).objects.filter(pk=attempt.pk).update(started_at=None, running_at=None)
    held = Allocation.objects.get().device
    rows = rows_by(people, "device")
    row = rows[f"node-1 CPU {held.index}"]
    assert row.device_hours == pytest.approx(4.0, rel=0.01) and row.idle_hours == pytest.approx(20.0, rel=0.01)
    assert row.together_kwh == pytest.approx(24 * HOUR_S * IDLE_W / KWH_J, rel=0.01), "all of the day, each hour once"


def test_while_a_device_is_away_off_or_not_there_yet_it_draws_nothing(two, people):
    now = timezone.now()
    Node.objects.update(created_at=now - timedelta(hours=20))
    Node.objects.get().absences.create(since=now - timedelta(hours=10), until=now - timedelta(hours=4))
    Device.objects.filter(index=1).update(away_since=now - timedelta(hours=1))
    rows = rows_by(people, "device")
    assert rows["node-1 CPU 0"].idle_hours == pytest.approx(14.0, rel=0.01)
    assert rows["node-1 CPU 1"].idle_hours == pytest.approx(13.0, rel=0.01)


def test_points_devices_and_the_pool_add_up_to_the_same_idle_energy(two, job, people):
    use_make(people, job, two[0], hours_ago=6, hours=5)
    window = window_of("day")
    uses = uses_read(window)
    idle_j = sum(one.idle_j.sum() for one in devices_idle(uses))
    points = use_timeline(user=people.owner, window=window, by="device")
    assert idle_j == pytest.approx(43 * HOUR_S * IDLE_W, rel=1e-3)
    assert sum(point.idle_j for point in points) == pytest.approx(idle_j, rel=1e-3)
    buckets = pool_timeline(window, uses)
    assert sum(bucket.idle_w for bucket in buckets) * window.bucket_s == pytest.approx(idle_j)
    series = idle_series(devices_idle(uses), window, 1)
    assert [(one.name, one.basis) for one in series] == [("all others", "assumed")]
    assert sum(series[0].kwh) * KWH_J == pytest.approx(idle_j)


def test_the_csv_has_work_idle_and_both_of_each_device(two, job, people):
    use_make(people, job, two[0], hours_ago=6, hours=5)
    window = window_of("day")
    row = use_rows(user=people.owner, window=window, by="device")[0]
    told = dict(zip(use_columns("device"), use_cells(row, "device", 400.0), strict=True))
    assert told["CO2 g together"] == pytest.approx(400.0 * (told["kWh"] + told["idle kWh"]))
    assert (told["basis"], told["idle basis"]) == ("measured", "assumed")
    point = use_timeline(user=people.owner, window=window, by="device")[0]
    cells = dict(zip(use_point_columns("device"), use_point_cells(point, "device", 400.0), strict=True))
    assert cells["kWh together"] == pytest.approx(cells["kWh"] + cells["idle kWh"])
    assert bucket_cells(pool_timeline(window)[0], window.bucket_s, 400.0)[-2:] == ("", "assumed")


def test_what_a_job_used_is_told_when_it_is_changed_and_when_it_is_gone(two, job, people):
    use_make(people, job, two[0], hours_ago=6, hours=5)
    use = job.uses.get()
    use.energy_j, use.energy_basis = 7.2e6, "modelled"
    use.save()
    (row,) = rows_by(people, "job").values()
    assert (row.kwh, row.basis, row.job_id) == (pytest.approx(2.0), "modelled", job.pk)
    use.job = None
    use.save()
    (row,) = rows_by(people, "job").values()
    assert (row.kwh, row.job_id) == (pytest.approx(2.0), "")


def read_make(node, watts, device=None):
    """What a meter has told of it."""
    name = device.model_name if device else "core"
    IdlePower.objects.create(node=node, device=device, model_name=name, watts=watts, read_at=timezone.now())


@pytest.fixture
def three(node_make):
    """Nodes of which the meter of the first alone can be read, and a GPU that nobody has read; no table of watts."""
    nodes = [node_make("node-1", cpus=2), node_make("node-2", cpus=1), node_make("node-3", cpus=0, gpus=1)]
    Node.objects.update(created_at=timezone.now() - timedelta(days=3))
    read_make(nodes[0], 1.25)
    return nodes


def test_idle_energy_goes_by_the_meter_of_a_device_by_others_like_it_or_by_the_table(three, people):
    rows = rows_by(people, "device")
    told = {name: (row.idle_kwh * KWH_J / row.idle_hours / HOUR_S, row.idle_basis) for name, row in rows.items()}
    assert told == {
        "node-1 CPU 0": (pytest.approx(1.25), "measured"),
        "node-1 CPU 1": (pytest.approx(1.25), "measured"),
        "node-2 CPU 0": (pytest.approx(1.25), "modelled"),
        "node-3 GPU 0": (pytest.approx(figures_for("cuda", "gpu").idle_w), "assumed"),
    }
    window = window_of("day")
    cpu, gpu = pool_timeline(window)[:2]
    assert cpu.idle_bases == {"measured": pytest.approx(2.5 * window.bucket_s), "modelled": pytest.approx(2250.0)}
    assert (cpu.idle_basis, gpu.idle_basis, cpu.idle_w) == ("measured", "assumed", pytest.approx(3.75))
    series = {one.name: one.basis for one in idle_series(devices_idle(uses_read(window)), window, 8)}
    assert series == {name: basis for name, (_, basis) in told.items()}


def test_the_watts_that_an_admin_entered_count_before_those_that_were_read(three, people):
    PoolSetting.objects.update_or_create(pk=1, defaults={"power_table": {"cpu": {"idle_w": IDLE_W, "busy_w": 10.0}}})
    row = rows_by(people, "device")["node-1 CPU 0"]
    assert (row.idle_kwh, row.idle_basis) == (pytest.approx(24 * HOUR_S * IDLE_W / KWH_J), "assumed")
    power = powers_known({("cpu", "core")})["cpu", "core"]
    assert (power.idle_w, power.idle_basis, power.source) == (IDLE_W, "assumed", "the pool's power table")


def test_offers_count_with_the_median_of_what_was_read_of_such_devices(three):
    read_make(three[1], 1.75)
    power = powers_known({("cpu", "core")})["cpu", "core"]
    assert (power.idle_w, power.idle_basis, power.basis) == (1.5, "measured", "assumed")
    assert power.source.endswith("; idle power: read on idle devices here")
    assert device_model("cpu", "core").power == power
    held = idle_power_of(power)
    assert (held.watts, held.basis) == (1.5, "modelled"), "of a device that a job holds nothing was read idle"


def test_who_works_draws_no_less_than_was_read_idle(three):
    gpu = three[2].devices.get()
    read_make(three[2], 500.0, gpu)
    power = powers_known({("cuda", "gpu")})["cuda", "gpu"]
    assert (power.idle_w, power.busy_w, power.basis, power.idle_basis) == (500.0, 500.0, "assumed", "measured")
    assert "nvidia-smi" not in power.source
    waiting = device_model("cuda", "gpu").power
    assert (waiting.idle_w, waiting.waiting_w, waiting.busy_w) == (500.0, 500.0, 500.0)
