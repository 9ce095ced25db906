"""What is known of long ago is bounded: what a page shows stays, and what a model learns from, and what is a job's."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.db.models import Model
from django.utils import timezone

from harness import database
from harness.calibration import known
from harness.calibration.models import FinishedJobRow, RanOutRow
from harness.jobs.control import forgetting
from harness.jobs.control.forgetting import history_forget
from harness.jobs.control.retention import retention
from harness.jobs.models import DeviceUse, Job, JobAttempt
from harness.jobs.uses import uses_read
from harness.jobs.windows import window_of
from harness.pool.models import Reservation

pytestmark = pytest.mark.django_db
NOW = timezone.now()
RECENT = 3


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    """Two rows at a time, three lessons of each model of device."""
    settings.HISTORY_DAYS = 400
    for module in (database, forgetting):
        monkeypatch.setattr(module, "BATCH_ROWS", 2)
    monkeypatch.setattr(known, "RECENT", RECENT)


def days_ago(days: float) -> datetime:
    return NOW - timedelta(days=days)


def use_make(days: float, job: Job | None = None) -> DeviceUse:
    """A use of an hour that ended so long ago."""
    ended = days_ago(days)
    told = {"node_name": "node-1", "device_kind": "cpu", "device_index": 0, "job_name": "a", "project_name": "b"}
    told |= {"owner_name": "c", "token": 1, "energy_j": 5.0, "energy_basis": "modelled"}
    return DeviceUse.objects.create(job=job, started_at=ended - timedelta(hours=1), ended_at=ended, **told)


def test_use_goes_when_no_page_shows_it_and_its_job_is_gone(job: Job) -> None:
    old = [use_make(401 + number) for number in range(5)]
    kept = [use_make(399), use_make(364), use_make(800, job)]
    shown_s = uses_read(window_of("year")).seconds.sum()
    assert history_forget() == len(old)
    assert set(DeviceUse.objects.values_list("pk", flat=True)) == {use.pk for use in kept}
    assert uses_read(window_of("year")).seconds.sum() == shown_s == pytest.approx(3600.0), "of the second one"


def test_how_long_is_set_by_an_admin(settings: Any) -> None:
    settings.HISTORY_DAYS = 1000
    use_make(900)
    assert history_forget() == 0
    settings.HISTORY_DAYS = 366
    assert history_forget() == 1


def test_reservations_that_were_over_long_ago_go(node_make: Callable[..., Any]) -> None:
    node = node_make()
    for days, cancelled in ((401, None), (500, days_ago(501)), (399, None), (-3, None)):
        end = days_ago(days)
        Reservation.objects.create(
            node=node, starts_at=end - timedelta(hours=1), ends_at=end, purpose="a test", cancelled_at=cancelled
        )
    assert history_forget() == 2
    assert Reservation.objects.filter(ends_at__gte=days_ago(400)).count() == Reservation.objects.count() == 2


def finished_make(days: float, name: str, job: Job | None = None) -> FinishedJobRow:
    told = {"kind": "cpu", "model_name": name, "step_s": 0.1, "workload": {"a": 1}, "allocation": {"b": 1}}
    return FinishedJobRow.objects.create(finished_at=days_ago(days), job=job, predicted={"c": 1}, **told)


def ran_out_make(days: float, name: str, attempt: JobAttempt | None = None) -> RanOutRow:
    told = {"kind": "cpu", "model_name": name, "limit_bytes": 5, "workload": {"a": 1}, "allocation": {"b": 1}}
    return RanOutRow.objects.create(ended_at=days_ago(days), attempt=attempt, **told)


@pytest.mark.parametrize(
    ("make", "model", "teaching"),
    [(finished_make, FinishedJobRow, known.finished_teaching), (ran_out_make, RanOutRow, known.ran_out_teaching)],
    ids=["finished", "ran out"],
)
def test_what_teaches_stays_whole_however_old_and_all_else_is_emptied(
    make: Callable[..., Any], model: type[Model], teaching: Callable[..., Any], job: Job
) -> None:
    old = [make(500 + number, "often") for number in range(2)]
    older = [make(10 + number, "often") for number in range(4)]
    newest = [make(1 + number, "often") for number in range(RECENT)]
    seldom = [make(600 + number, "seldom") for number in range(RECENT)]
    before = [list(teaching("cpu", name)) for name in ("often", "seldom")]
    history_forget()
    assert [list(teaching("cpu", name)) for name in ("often", "seldom")] == before == [newest, seldom]
    rows = model._default_manager
    assert not rows.filter(pk__in=[row.pk for row in old]).exists()
    assert rows.filter(pk__in=[row.pk for row in older], workload={}).count() == len(older)
    assert rows.exclude(workload={}).count() == 2 * RECENT
    assert history_forget() == 0


def test_whoever_runs_many_programs_of_their_own_makes_the_lessons_of_nobody_else_old(
    monkeypatch: pytest.MonkeyPatch, people: SimpleNamespace
) -> None:
    monkeypatch.setattr(known, "OWN_RECENT", 1)
    generated = [finished_make(20 + number, "often") for number in range(RECENT)]
    own = [finished_make(days, "often") for days in (10, 1, 2, 3, 4)]
    for row, author in zip(own, [people.viewer, *[people.owner] * 4], strict=True):
        FinishedJobRow.objects.filter(pk=row.pk).update(own_code=True, author=author)
    history_forget()
    assert list(known.finished_teaching("cpu", "often")) == [own[1], own[0], *generated]
    assert FinishedJobRow.objects.exclude(workload={}).count() == RECENT + 2


@pytest.mark.parametrize(
    ("make", "name"),
    [(finished_make, "finished_teaching"), (ran_out_make, "ran_out_teaching")],
    ids=["finished", "ran out"],
)
def test_a_job_that_is_learnt_meanwhile_keeps_what_it_teaches(
    make: Callable[..., Any], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(RECENT + 3):
        make(1 + number, "often")
    teaching, learnt = getattr(known, name), []

    def and_then(kind: str, model_name: str) -> Any:
        newest = list(teaching(kind, model_name).values_list("pk", flat=True))
        learnt.append(make(0, "often"))
        return teaching(kind, model_name).model._default_manager.filter(pk__in=newest)

    monkeypatch.setattr(forgetting, name, and_then)
    history_forget()
    (row,) = learnt
    row.refresh_from_db()
    assert row.workload == {"a": 1}


def test_what_a_job_cost_stays_with_the_job(job: Job, people: SimpleNamespace) -> None:
    mine = finished_make(900, "often", job)
    for number in range(RECENT):
        finished_make(number, "often")
    history_forget()
    mine.refresh_from_db()
    assert mine.predicted == {"c": 1} and mine.step_s == 0.1 and mine.workload == {}


def test_it_is_a_part_of_retention(tasks_sent: Any) -> None:
    use_make(401)
    retention()
    assert not DeviceUse.objects.exists()
