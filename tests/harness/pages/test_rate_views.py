"""The learning rate on the program tab: not tested, being tested, found, unclear, used."""

from __future__ import annotations

import csv
import json
import re
from types import SimpleNamespace
from typing import Any

from django.conf import settings
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from harness.jobs.drafts import job_spec_update
from harness.jobs.models import Job, JobEvent
from harness.rates.models import RateTest
from harness.rates.tasks import rate_range_done
from tests.factory_rates import record_make, report_make, trials_report_make


def tab(client: Client, job: Job) -> str:
    return client.get(reverse("job_tab", args=[job.pk, "program"])).content.decode()


def ask(client: Client, job: Job) -> Any:
    return client.post(reverse("job_rates_new", args=[job.pk]), headers={"HX-Request": "true"})


def test_a_found_rate_is_shown_with_its_interval_picture_and_alternatives(owner: Client, draft: Job) -> None:
    text = tab(owner, draft)
    assert "are usable; take" in text
    for reading in ("Centre of the interval", "Valley", "Steepest", "Linear rule", "Square-root rule"):
        assert reading in text
    test = draft.rate_tests.get()
    data = json.loads(re.search(rf'id="chart-rates-{test.pk}" type="application/json">(.*?)</script>', text)[1])
    assert data["kind"] == "rates" and data["low"] < data["high"]
    assert len(data["rows"]) > 50 and "training accuracy" in data["score"]
    rows = list(csv.reader(owner.get(reverse("job_rates_csv", args=[draft.pk, test.pk])).getvalue().decode().split()))
    assert len(rows) > 50


def test_a_test_is_asked_for_awaited_and_shown(owner: Client, draft: Job) -> None:
    draft.rate_tests.all().delete()
    assert "Find the learning rate" in tab(owner, draft)
    shown = ask(owner, draft)
    assert shown.status_code == 200 and "trains with rising learning rates" in shown.content.decode()
    test = draft.rate_tests.get()
    show = reverse("job_rates_show", args=[draft.pk, test.pk])
    rate_range_done({"request_id": test.pk, "progress": 0.5})
    assert 'value="0.500"' in owner.get(show).content.decode()
    rate_range_done(report_make(test.pk))
    assert "are usable; take" in owner.get(show).content.decode()


def test_trials_are_announced_with_their_cost_and_shown_with_their_losses(owner: Client, draft: Job) -> None:
    draft.rate_tests.all().delete()
    new = reverse("job_rates_new", args=[draft.pk])
    owner.post(new, {"trials": "always"}, headers={"HX-Request": "true"})
    test = draft.rate_tests.get()
    show = reverse("job_rates_show", args=[draft.pk, test.pk])
    rate_range_done(report_make(test.pk, run_s=40.0))
    waiting = owner.get(show).content.decode()
    assert "tries rates around" in waiting and "2 min 55 s" in waiting
    rate_range_done(trials_report_make(test.pk))
    text = owner.get(show).content.decode()
    test.refresh_from_db()
    assert f"take\n          {float(format(test.trials['rate'], '.3g'))}" in text
    assert "<h3>Trials</h3>" in text and text.count('data-label="Validation loss"') == 6
    data = json.loads(re.search(rf'id="chart-rates-{test.pk}" type="application/json">(.*?)</script>', text)[1])
    assert len(data["trials"]) == 6 and data["marks"][0][0] == "Trials"
    assert owner.post(new, {"trials": "often"}, headers={"HX-Request": "true"}).status_code == 422


def test_a_page_says_why_there_are_no_trials(owner: Client, draft: Job) -> None:
    draft.rate_tests.all().delete()
    ask(owner, draft)
    test = draft.rate_tests.get()
    rate_range_done(report_make(test.pk, run_s=100.0))
    text = owner.get(reverse("job_rates_show", args=[draft.pk, test.pk])).content.decode()
    assert "No trials were made" in text and "ask for them" in text and "Expected: 7 min 18 s" in text


def test_trials_that_would_not_be_made_if_asked_for_are_told_as_too_long(owner: Client, draft: Job) -> None:
    draft.rate_tests.all().delete()
    ask(owner, draft)
    test = draft.rate_tests.get()
    rate_range_done(report_make(test.pk, run_s=3600.0))
    text = owner.get(reverse("job_rates_show", args=[draft.pk, test.pk])).content.decode()
    assert "too long on this device" in text and "ask for them" not in text and "Expected: 4 h 23 min" in text


def test_a_curve_without_any_loss_is_not_drawn(owner: Client, draft: Job) -> None:
    draft.rate_tests.all().delete()
    ask(owner, draft)
    test = draft.rate_tests.get()
    record = record_make().to_dict() | {"sweeps": [{"losses": [None], "scores": [None]}]}
    rate_range_done(report_make(test.pk, record=record))
    text = owner.get(reverse("job_rates_show", args=[draft.pk, test.pk])).content.decode()
    assert "not a finite number from step 1" in text and "Test again" in text
    assert f"chart-rates-{test.pk}" not in text


def test_a_rate_is_told_to_be_in_the_spec_only_while_it_is(owner: Client, draft: Job) -> None:
    test = draft.rate_tests.get()
    owner.post(reverse("job_rates_use", args=[draft.pk, test.pk]), {"rate": "valley"})
    assert "in the spec</span>" in tab(owner, draft)
    draft.refresh_from_db()
    spec = {**draft.spec, "training": {**draft.spec["training"], "learning_rate": 0.0123}}
    job_spec_update(user=test.by, job=draft, spec=spec)
    assert "in the spec</span>" not in tab(owner, draft)


def test_a_draft_in_the_trash_is_not_told_to_be_submitted(owner: Client, draft: Job) -> None:
    test = draft.rate_tests.get()
    Job.objects.filter(pk=draft.pk).update(deleted_at=timezone.now())
    text = owner.get(reverse("job_rates_show", args=[draft.pk, test.pk])).content.decode()
    assert "in the trash: restore it" in text and "was submitted" not in text


def test_a_look_at_trials_that_go_on_reads_no_history_of_the_job(owner: Client, draft: Job) -> None:
    """A page asks each second."""
    draft.rate_tests.all().delete()
    ask(owner, draft)
    test = draft.rate_tests.get()
    rate_range_done(report_make(test.pk, run_s=5.0))
    with CaptureQueriesContext(connection) as asked:
        text = owner.get(reverse("job_rates_show", args=[draft.pk, test.pk])).content.decode()
    assert "tries rates around" in text
    assert not any(JobEvent._meta.db_table in query["sql"] for query in asked.captured_queries)


def test_an_unclear_curve_is_shown_with_its_reason(owner: Client, draft: Job) -> None:
    draft.rate_tests.all().delete()
    ask(owner, draft)
    test = draft.rate_tests.get()
    rate_range_done(report_make(test.pk, record=record_make(noise=50.0, seed=3).to_dict()))
    text = owner.get(reverse("job_rates_show", args=[draft.pk, test.pk])).content.decode()
    assert "nothing can be concluded" in text and "Test again" in text and "Use this rate" not in text
    assert f"chart-rates-{test.pk}" in text


def test_a_chosen_rate_goes_into_the_spec(owner: Client, draft: Job) -> None:
    test = draft.rate_tests.get()
    use = reverse("job_rates_use", args=[draft.pk, test.pk])
    answer = owner.post(use, {"rate": "valley"}, follow=True).content.decode()
    test.refresh_from_db()
    draft.refresh_from_db()
    assert draft.spec["training"]["learning_rate"] == test.used_rate
    assert "learning_rate:" in answer and "in the spec" in answer
    refused = owner.post(use, {"rate": "nonsense"}, follow=True).content.decode()
    assert "reports no rate" in refused


def test_an_edit_that_gives_way_to_a_chosen_rate_is_told(owner: Client, draft: Job) -> None:
    test = draft.rate_tests.get()
    text = settings.STORE.job(draft.pk).program.joinpath("spec.yaml").read_text()
    edited = re.sub(r"  learning_rate: .*", "  learning_rate: 0.77", text)
    owner.post(reverse("program_save", args=[draft.pk]), {"name": "spec.yaml", "text": edited})
    use = reverse("job_rates_use", args=[draft.pk, test.pk])
    answer = owner.post(use, {"rate": "valley"}, follow=True).content.decode()
    assert "1 edit of spec.yaml gave way to its spec." in answer and "on the tab Program" in answer
    answer = owner.post(use, {"rate": "valley"}, follow=True).content.decode()
    assert "gave way" not in answer, "told once"


def test_a_viewer_sees_it_but_is_offered_nothing(world: SimpleNamespace, draft: Job) -> None:
    client = Client()
    client.force_login(world.viewer)
    text = tab(client, draft)
    assert "are usable; take" in text
    assert "Use this rate" not in text and "Test again" not in text


def test_a_test_of_another_job_is_not_found(owner: Client, world: SimpleNamespace, draft: Job) -> None:
    test = draft.rate_tests.get()
    other = world.jobs["running"]
    assert owner.get(reverse("job_rates_show", args=[other.pk, test.pk])).status_code == 404
    assert owner.post(reverse("job_rates_use", args=[other.pk, test.pk])).status_code == 404
    assert RateTest.objects.get(pk=test.pk).used_rate is None
