"""What a budget is enough for is told before, while and after it is spent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.calibration.exchange import points_import, row_of
from harness.calibration.models import CalibrationPointRow, CalibrationRun
from harness.calibration.reach import points_coming, reach_words
from scheduler.estimation.calibration import to_csv
from tests.harness.calibration.lending import SOURCE, folder
from tests.harness.client.conftest import client, dlh, home, portal
from tests.scheduler.made_workloads import points

__all__ = ["client", "dlh", "folder", "home", "portal"]
TOO_FEW, WIDE, ENOUGH = "needs 6 at least", "with wide ranges", "held out."


@pytest.mark.parametrize(("budget_s", "words"), [(10.0, TOO_FEW), (60.0, WIDE), (600.0, ENOUGH)])
def test_before_the_first_point_the_plan_tells(start: Callable[..., Any], budget_s: float, words: str) -> None:
    told = reach_words(start(budget_s=budget_s))
    assert told.startswith("The budget is enough for about") and words in told


def test_then_its_own_pace_tells(start: Callable[..., Any]) -> None:
    run = start(budget_s=600.0)
    CalibrationRun.objects.filter(pk=run.pk).update(measured=1, used_s=200.0, state="running")
    run.refresh_from_db()
    assert len(points_coming(run)) == 2
    assert TOO_FEW in reach_words(run)


def test_points_on_several_devices_are_not_told_as_ones_that_models_are_fitted_to(start: Callable[..., Any]) -> None:
    run = start(budget_s=320.0)
    CalibrationRun.objects.filter(pk=run.pk).update(measured=2, used_s=20.0, state="running")
    run.refresh_from_db()
    assert reach_words(run).startswith("The budget is enough for about 32 points: enough for a model with wide ranges.")
    CalibrationRun.objects.filter(pk=run.pk).update(budget_s=400.0)
    run.refresh_from_db()
    assert ENOUGH in reach_words(run)
    made = [row_of(replace(one, model_name=run.model_name), run=run) for one in points(8)]
    for row in made:
        row.body["threads"] = 2
    CalibrationPointRow.objects.bulk_create(made)
    assert WIDE in reach_words(run), "those that are measured count as little"


def test_where_points_on_several_devices_would_make_the_sum_enough_they_are_said_not_to_count(
    start: Callable[..., Any],
) -> None:
    run = start()
    made = [row_of(replace(one, model_name=run.model_name), run=run) for one in points(7)]
    for row in made[:3]:
        row.body["threads"] = 2
    CalibrationPointRow.objects.bulk_create(made)
    CalibrationRun.objects.filter(pk=run.pk).update(state="finished", measured=7)
    run.refresh_from_db()
    told = reach_words(run)
    assert told.startswith("It measured 7 points, 3 of them on several devices at once: too few for a model")
    assert "which needs 6 at least on one device" in told
    CalibrationRun.objects.filter(pk=run.pk).update(measured=5)
    run.refresh_from_db()
    assert "at once" not in reach_words(run), "all five would be too few as well"


def test_points_from_before_count(start: Callable[..., Any], people: SimpleNamespace) -> None:
    run = start(budget_s=10.0)
    made = points(8)
    kinds = {(point.kind, point.model_name) for point in made}
    points_import(user=people.admin, text=to_csv(made))
    CalibrationRun.objects.filter(pk=run.pk).update(model_name=kinds.pop()[1])
    run.refresh_from_db()
    assert "beside 8 from before: enough for a model" in reach_words(run)


def test_a_sweep_that_ended_with_too_few_says_how_to_go_on(start: Callable[..., Any]) -> None:
    run = start()
    CalibrationRun.objects.filter(pk=run.pk).update(state="finished", measured=4)
    run.refresh_from_db()
    assert reach_words(run).startswith("It measured 4 points: too few")
    CalibrationRun.objects.filter(pk=run.pk).update(measured=30)
    run.refresh_from_db()
    assert reach_words(run) == ""
    made = [row_of(replace(one, model_name=run.model_name), run=run) for one in points(30)]
    made[0].body["threads"] = 2
    CalibrationPointRow.objects.bulk_create(made)
    assert "enough for a model with wide ranges" in reach_words(run)
    CalibrationPointRow.objects.filter(pk=made[0].pk).update(body=made[1].body)
    assert reach_words(run) == ""


def test_where_a_calibration_ships_fewer_points_say_what_they_lack_for_that_one(
    start: Callable[..., Any], folder: Path
) -> None:
    run = start(budget_s=10.0)
    own = "A model of its own needs 30 points on one device."
    lacks = f"too few to correct the calibration of {SOURCE} that ships with the harness, which needs 6 at least"
    assert lacks in reach_words(run) and own in reach_words(run)
    CalibrationRun.objects.filter(pk=run.pk).update(state="finished", measured=3)
    run.refresh_from_db()
    assert reach_words(run).startswith(f"It measured 3 points: {lacks}") and own in reach_words(run)


def test_where_a_calibration_ships_a_short_sweep_says_that_its_points_correct_that_one(
    start: Callable[..., Any], folder: Path
) -> None:
    run = start()
    CalibrationPointRow.objects.bulk_create(
        row_of(replace(one, model_name=run.model_name), run=run) for one in points(23)
    )
    CalibrationRun.objects.filter(pk=run.pk).update(state="finished", measured=23)
    run.refresh_from_db()
    told = reach_words(run)
    assert told.startswith(f"It measured 23 points: they correct the calibration of {SOURCE} that ships")
    assert "A model of its own needs 30 points on one device." in told and "dlh pool calibrate" in told


def test_a_short_sweep_that_is_followed_tells_its_reach_and_how_far_it_is(
    portal: SimpleNamespace, dlh: Callable[..., Any], node_make: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from harness.client.cli import calibration

    states: list[dict[str, Any]] = [
        {"message": ""},
        {"measured": 2, "used_s": 20.0, "state": "running"},
        {"state": "finished"},
    ]

    def gets_on(_: float) -> None:
        CalibrationRun.objects.update(**states.pop(0))

    monkeypatch.setenv("DLH_TOKEN", portal.token_of("admin"))
    # Its name for the module, not time.sleep itself: the portal's threads sleep as well.
    monkeypatch.setattr(calibration, "time", SimpleNamespace(sleep=gets_on))
    node_make("node-1")
    done = dlh("pool", "calibrate", "--budget", "30s", "--follow")
    assert done.code == 0
    assert "The budget is enough for about" in done.err
    assert "at most 30 s of measuring" in done.err and "2 points measured; about 10 s left" in done.err
    assert "Finished: 2 points measured." in done.out and "needs 6 at least" in done.out
