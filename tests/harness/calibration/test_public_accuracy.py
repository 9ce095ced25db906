"""How good the estimates are, for who is not signed in: means alone, read seldom, and closed where that is wished."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Barrier, Thread
from types import SimpleNamespace
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from harness.calibration.models import FinishedJobRow
from harness.pages import accuracy_public
from harness.pages.figures import NONE
from tests.factory_calibration import DEVICE, calibration_make, finished_make

pytestmark = pytest.mark.django_db
URL = "/accuracy/"


@pytest.fixture(autouse=True)
def nothing_kept() -> Iterator[None]:
    cache.clear()
    yield
    cache.clear()


def text_of(client: Client, url: str = URL) -> str:
    return " ".join(client.get(url).content.decode().split())


def test_it_is_read_without_signing_in_and_says_how_far_estimates_were_off(
    client: Client, people: SimpleNamespace
) -> None:
    calibration_make(people.admin)
    text = text_of(client)
    assert "60 finished jobs" in text and "Time of a step" in text and "Error by family" in text
    assert "What the estimates rest on" in text and DEVICE in text
    assert "Account menu" not in text and 'href="/login?next=/accuracy/"' in text


def test_it_names_nobody_and_nothing_of_theirs_and_tells_no_figure_of_one_job(
    client: Client, people: SimpleNamespace, job: Any, node_make: Any
) -> None:
    node = node_make("secret-node")
    calibration_make(people.admin)
    row = FinishedJobRow.objects.latest("pk")
    row.job, row.own_code, row.author, row.run_s = job, True, people.owner, 1234.5678
    row.save()
    text = text_of(client)
    hidden = [job.name, job.pk, job.project.name, job.project.slug, job.dataset.name, people.owner.username, node.name]
    assert [name for name in hidden if name and name in text] == []
    assert "1234" not in text and row.finished_at.isoformat()[:19] not in text
    assert ".csv" not in text


def test_figures_of_single_jobs_stay_behind_the_sign_in(client: Client, people: SimpleNamespace) -> None:
    calibration_make(people.admin)
    for chart in ("jobs", "run_s", "over_time", "by_family"):
        answer = client.get(reverse("accuracy_chart", args=[chart]))
        assert answer.status_code == 302 and answer["Location"].startswith("/login")
    client.force_login(people.viewer)
    assert "All figures as CSV" in text_of(client)


def test_a_mean_over_few_jobs_is_not_shown(client: Client) -> None:
    finished_make(accuracy_public.LEAST_JOBS - 1)
    assert "Too few estimated jobs have finished yet" in text_of(client)
    cache.clear()
    interval = {"low": 8.0, "mid": 10.0, "high": 12.0}
    for family in ["cnn"] * 8 + ["mlp"] * 6 + ["transformer"]:
        FinishedJobRow.objects.create(
            kind="cpu", family=family, predicted={"run_s": interval}, run_s=9.0, finished_at=timezone.now()
        )
    figures = accuracy_public.public_accuracy()
    (by_family,) = [chart for chart in figures["charts"] if chart["id"] == "by_family"]
    assert len(by_family["rows"]) == 2


def finish(family: str, count: int, run_s: float = 9.0) -> None:
    for _ in range(count):
        FinishedJobRow.objects.create(
            kind="cpu", family=family, predicted={"run_s": {"low": 8.0, "mid": 10.0, "high": 12.0}}, run_s=run_s,
            finished_at=timezone.now(),
        )  # fmt: skip


def test_a_median_or_percentile_of_few_jobs_which_is_the_figure_of_one_is_not_shown() -> None:
    for family, count in (("cnn", 7), ("mlp", 12), ("transformer", 25)):
        finish(family, count)
    figures = accuracy_public.public_accuracy()
    (chart,) = [chart for chart in figures["charts"] if chart["id"] == "by_family"]
    shown = [[value is not None for value in row[1:4]] for row in sorted(chart["rows"], key=lambda row: row[4])]
    assert shown == [[True, False, False], [True, True, False], [True, True, True]]


def test_the_page_says_from_how_many_jobs_on_a_median_is_shown(client: Client) -> None:
    finish("cnn", 7)
    text = text_of(client)
    assert "medians and 90th percentiles only from 10 and 20 jobs on" in text
    assert f'<td class="num" data-label="Median error">{NONE}</td>' in text


def test_one_job_that_made_its_steps_on_many_devices_is_no_mean_over_jobs(client: Client, job: Any) -> None:
    interval = {"low": 0.8, "mid": 1.0, "high": 1.2}
    for part in range(1, accuracy_public.LEAST_JOBS + 1):  # those that it had last nobody had foretold
        FinishedJobRow.objects.create(
            job=job, part=part, kind="cpu", predicted={"step_s": interval}, step_s=0.9, finished_at=timezone.now()
        )
    assert "Too few estimated jobs have finished yet" in text_of(client)
    job.delete()
    FinishedJobRow.objects.update(finished_at=timezone.now())
    cache.clear()
    assert "Too few estimated jobs have finished yet" in text_of(client)
    assert accuracy_public.public_accuracy()["jobs"] == 1


def test_whoever_asks_again_and_again_reads_no_row_by_it(
    client: Client, people: SimpleNamespace, django_assert_num_queries: Any
) -> None:
    calibration_make(people.admin)
    first = text_of(client)
    with django_assert_num_queries(0):
        again = text_of(Client())
    assert "60 finished jobs" in first and "60 finished jobs" in again


def test_of_many_who_ask_at_once_one_has_the_figures_made(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    here = Barrier(8)

    def figures() -> dict[str, Any]:
        made.append(1)
        return {"jobs": len(made)}

    def ask() -> None:
        here.wait()
        accuracy_public.public_accuracy()

    monkeypatch.setattr(accuracy_public, "_made", figures)
    askers = [Thread(target=ask) for _ in range(8)]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join()
    assert made == [1]


def test_the_sign_in_page_leads_there_and_an_operator_may_close_it(client: Client, settings: Any) -> None:
    assert f'href="{URL}"' in client.get("/login").content.decode()
    settings.PUBLIC_ACCURACY = False
    answer = client.get(URL)
    assert answer.status_code == 302 and answer["Location"].startswith("/login?next=")
    assert f'href="{URL}"' not in client.get("/login").content.decode()


def test_it_takes_nothing_but_reading(client: Client) -> None:
    assert client.head(URL).status_code == 200
    assert {client.generic(method, URL).status_code for method in ("POST", "PUT", "DELETE")} == {405}
