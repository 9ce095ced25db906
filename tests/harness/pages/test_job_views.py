"""What the pages of one job say: errors, curves, a draft's spec."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from codegen.spec import MODE_WORDS
from harness.accounts.models import AuditEvent
from harness.jobs.mode import job_mode
from harness.jobs.models import DeviceUse, Job, MetricPoint
from harness.jobs.options import job_options_set, options_of
from harness.jobs.promises import PromiseState, promise_told
from harness.jobs.timelines import job_energy
from harness.pages.figures import NONE
from harness.pages.job_view import first_error_line, job_actions
from harness.pages.words import SANDBOX_WORDS
from harness.pool.models import Node, Quota
from harness.pool.reservations import reservation_hold
from scheduler.types import Option


@pytest.fixture
def owner(world: SimpleNamespace, client: Client) -> Client:
    client.force_login(world.owner)
    return client


def write_log(job: Job, text: str) -> None:
    folder = settings.STORE.job(job.pk).logs / "attempt-9"
    folder.mkdir(parents=True)
    (folder / "rank-0.log").write_text(text)


def test_a_failed_run_points_at_its_first_error_line_in_words(world: SimpleNamespace, owner: Client) -> None:
    job = world.jobs["failed"]
    write_log(job, "epoch 1\nTraceback (most recent call last):\n  File x\nValueError: no such column\n")
    line = first_error_line(job)
    assert line is not None and (line["line"], line["text"]) == (2, "ValueError: no such column")
    page = owner.get(reverse("job_tab", args=[job.pk, "live"])).content.decode()
    assert "?rank=0&amp;attempt=9&amp;line=2" in page and "ValueError: no such column" in page


def test_resume_is_offered_only_where_there_is_a_checkpoint(world: SimpleNamespace) -> None:
    job = world.jobs["failed"]
    job.checkpoints.all().delete()
    assert "resume" not in job_actions(job)
    assert "resume" in job_actions(world.jobs["paused"])


def test_a_closer_look_at_curves_gives_only_its_keys_and_steps(world: SimpleNamespace, owner: Client) -> None:
    url = reverse("job_curves", args=[world.jobs["running"].pk])
    body = owner.get(url, {"keys": "train/loss", "start": "20", "stop": "40"}).json()
    assert list(body["curves"]) == ["train/loss"]
    steps = body["curves"]["train/loss"]["step"]
    assert steps and min(steps) >= 20 and max(steps) <= 40
    assert owner.get(url, {"start": "nan"}).status_code == 422


@pytest.mark.parametrize(("metric", "better", "worse"), [("accuracy", 0.99, 0.9), ("log_loss", 0.01, 0.2)])
def test_more_epochs_are_advised_only_where_the_last_one_improved(
    world: SimpleNamespace, owner: Client, metric: str, better: float, worse: float
) -> None:
    """Of equal epochs the last is the best checkpoint: one that has long been perfect gets no better."""
    job, advised = world.jobs["succeeded"], "Its last epoch was its best"
    Job.objects.filter(pk=job.pk).update(metric_name=metric)
    told = MetricPoint.objects.filter(job=job, key="val/accuracy")
    told.update(key=f"val/{metric}", value=worse)
    last = MetricPoint.objects.filter(job=job, key=f"val/{metric}").latest("step")

    def page() -> str:
        return owner.get(reverse("job_tab", args=[job.pk, "results"])).content.decode()

    assert advised not in page()
    last.value = better
    last.save()
    assert advised in page()
    MetricPoint.objects.filter(job=job, key=f"val/{metric}", step__lt=last.step).update(value=None)
    assert advised not in page(), "nobody knows"


def test_a_form_with_a_nul_is_refused_whichever_database_there_is(owner: Client) -> None:
    answer = owner.post(reverse("project_add"), "name=a%00b", "application/x-www-form-urlencoded")
    assert answer.status_code == 422 and "NUL" in answer.content.decode()


def test_a_range_of_the_expected_finish_is_told_where_its_ends_read_differently(
    world: SimpleNamespace, owner: Client
) -> None:
    job, noon = world.jobs["running"], timezone.now().replace(hour=12, minute=7, second=10, microsecond=0)
    for spread_s, told in ((40.0, False), (60.0, True)):
        later = noon + timedelta(seconds=spread_s)
        Job.objects.filter(pk=job.pk).update(
            expected_low_at=noon, expected_finish_at=noon, expected_high_at=later, expected_start_at=noon
        )
        page = owner.get(reverse("job_header", args=[job.pk])).content.decode()
        assert "Expected finish" in page and ("<small>between" in page) is told


def test_who_changes_the_own_password_stays_signed_in_and_it_is_noted(world: SimpleNamespace, owner: Client) -> None:
    world.owner.set_password("before-7391")
    world.owner.save()
    owner.force_login(world.owner)
    given = {"old_password": "before-7391", "new_password1": "after-482-x", "new_password2": "after-482-x"}
    assert owner.post("/account/password/", given)["Location"] == "/account/"
    assert owner.get("/account/").status_code == 200
    world.owner.refresh_from_db()
    assert world.owner.check_password("after-482-x")
    noted = AuditEvent.objects.get(action="user_update")
    assert noted.target == world.owner.username and noted.data == {"password": "changed"}


def test_results_of_a_program_that_writes_nonsense_still_show(world: SimpleNamespace, owner: Client) -> None:
    job = world.jobs["succeeded"]
    path = settings.STORE.job(job.pk).root / "work" / "results" / "results.json"
    charts = [{"id": "x", "kind": "table", "columns": ["a"], "rows": [[None], [{}], ["b", 1]]}]
    body = {"charts": charts, "metrics": {"val": {"accuracy": "high"}}, "timing": {"train_s": "long", "parameters": []}}
    path.write_text(json.dumps(body))
    assert owner.get(reverse("job_tab", args=[job.pk, "results"])).status_code == 200


def test_the_pages_say_how_long_the_trash_keeps_things(world: SimpleNamespace, owner: Client, settings: Any) -> None:
    settings.TRASH_DAYS = 3
    job = reverse("job_page", args=[world.jobs["succeeded"].pk])
    for url in ("/trash/", "/jobs/", job, reverse("dataset_page", args=[world.wine.pk])):
        page = owner.get(url, follow=True).content.decode()
        assert "3 days" in page and "14 days" not in page, url


def test_the_summary_of_a_draft_names_an_own_model_and_no_size_of_ours(world: SimpleNamespace, owner: Client) -> None:
    job = world.jobs["draft"]
    address = reverse("job_tab", args=[job.pk, "program"])
    assert "<dt>Size</dt>" in owner.get(address).content.decode()
    Job.objects.filter(pk=job.pk).update(family="own")
    page = re.sub(r">\s+<", "><", owner.get(address).content.decode())
    assert "<dt>Model</dt><dd>own model</dd>" in page and "<dt>Size</dt>" not in page


def test_a_draft_stands_on_the_way_to_a_job_and_a_running_one_does_not(world: SimpleNamespace, owner: Client) -> None:
    page = owner.get(reverse("job_tab", args=[world.jobs["draft"].pk, "program"])).content.decode()
    flat = re.sub(r"\s+", " ", page)
    assert '<li aria-current="step"> <span>The program, if you like</span> </li>' in flat
    assert ">Goal and model</a>" in flat
    assert "steps-line" not in owner.get(reverse("job_page", args=[world.jobs["running"].pk])).content.decode()


def test_a_clone_says_what_it_is(world: SimpleNamespace, owner: Client) -> None:
    job = world.jobs["succeeded"]
    page = owner.post(reverse("job_act", args=[job.pk, "clone"]), follow=True).content.decode()
    assert f"This is a copy of {job.name}." in page


def test_the_energy_of_a_job_counts_what_ended_and_what_goes_on(world: SimpleNamespace, owner: Client) -> None:
    job = world.jobs["running"]
    before = job_energy(job)
    assert before.energy_j > 0 and before.power_w > 0 and before.basis == "assumed"
    now = timezone.now()
    DeviceUse.objects.create(
        job=job, job_name=job.name, project=job.project, project_name="p", owner=job.owner, owner_name="o",
        node_name="node-1", device_kind="cpu", device_index=0, token=1, started_at=now - timedelta(hours=1),
        ended_at=now, energy_j=7.2e6, energy_basis="measured",
    )  # fmt: skip
    after = job_energy(job)
    assert after.energy_j >= before.energy_j + 7.2e6 and after.basis == "measured"
    page = owner.get(reverse("job_header", args=[job.pk])).content.decode()
    assert "Energy so far" in page and "W now, measured" in page
    assert "Energy" not in owner.get(reverse("job_header", args=[world.jobs["queued"].pk])).content.decode()


def test_the_off_by_of_a_prediction_carries_a_plus_or_a_minus(world: SimpleNamespace, owner: Client) -> None:
    pages = [owner.get(reverse("job_tab", args=[job.pk, "cost"])).content.decode() for job in world.jobs.values()]
    shown = [text.strip() for page in pages for text in re.findall(r'data-label="Off by">([^<]*)', page)]
    unsigned = [text for text in shown if not re.fullmatch(rf"[+-]\d+\.\d %|0\.0 %|{NONE}", text)]
    assert not unsigned
    assert {"+", "-"} <= {text[0] for text in shown}


def header_of(owner: Client, job: Job) -> str:
    return owner.get(reverse("job_header", args=[job.pk])).content.decode()


def test_the_mode_and_the_sandbox_level_are_said_in_place_where_nothing_can_hover(
    world: SimpleNamespace, owner: Client
) -> None:
    job = world.jobs["running"]
    Job.objects.filter(pk=job.pk).update(sandbox_level=2)
    mode, _ = job_mode(job)
    told = header_of(owner, job).split("<summary>What this means</summary>")[1].split("</details>")[0]
    assert f"Mode {mode}: {MODE_WORDS[mode]}." in told and f"Sandbox {SANDBOX_WORDS[2]}." in told
    Job.objects.filter(pk=job.pk).update(sandbox_level=None)
    assert "Sandbox " not in header_of(owner, job)


@pytest.mark.parametrize(
    ("state", "told"),
    [(PromiseState.BEING_MEASURED, "its time is being measured"), (PromiseState.NOT_PROMISED, "not promised")],
)
def test_a_wished_finish_says_whether_its_time_is_still_being_measured(
    world: SimpleNamespace, owner: Client, state: PromiseState, told: str
) -> None:
    job = world.jobs["queued"]
    Job.objects.filter(pk=job.pk).update(
        deadline_at=timezone.now() + timedelta(hours=1), promised_at=None, promise=promise_told(state)
    )
    page = owner.get(reverse("job_page", args=[job.pk])).content.decode()
    assert told in " ".join(page.split())


def test_a_job_that_stopped_early_says_so_above_and_with_its_results(world: SimpleNamespace, owner: Client) -> None:
    job = world.jobs["succeeded"]
    results = reverse("job_tab", args=[job.pk, "results"])
    assert "stopped early" not in owner.get(results).content.decode()
    Job.objects.filter(pk=job.pk).update(epoch=7.0, epochs=60)
    page = " ".join(owner.get(results).content.decode().split())
    assert "steps; stopped early, after epoch 7 of 60" in page
    assert "Its training stopped early, after epoch 7 of 60." in page


def test_what_was_said_of_a_promise_while_a_job_waited_does_not_stand_once_it_has_ended(
    world: SimpleNamespace, owner: Client
) -> None:
    job, now = world.jobs["succeeded"], timezone.now()
    Job.objects.filter(pk=job.pk).update(
        deadline_at=now, finished_at=now, promised_at=None, promise=promise_told(PromiseState.NO_ESTIMATE)
    )
    page = " ".join(header_of(owner, job).split())
    assert "not promised, kept with" in page and "as soon as possible" not in page


def test_what_borrows_says_that_it_may_be_put_back(world: SimpleNamespace, owner: Client) -> None:
    job = world.jobs["queued"]
    now = timezone.now()
    Job.objects.filter(pk=job.pk).update(
        promised_at=None, expected_start_at=now, expected_finish_at=now, expected_low_at=now, expected_high_at=now
    )
    kind = options_of(job)[0].kind
    Quota.objects.update_or_create(project=job.project, device_kind=kind, defaults={"devices": 0, "may_borrow": True})
    for address in (reverse("job_page", args=[job.pk]), reverse("queue")):
        assert "it may be put back when the lender needs them" in owner.get(address).content.decode()


def test_a_job_that_waits_shows_no_clock_and_no_step_of_none(world: SimpleNamespace, owner: Client) -> None:
    waits, starts = world.jobs["queued"], world.jobs["placed"]
    page = header_of(owner, waits)
    assert "Elapsed" not in page and "time left" not in page and 'data-ticking="1"' not in page
    page = header_of(owner, starts)
    assert 'data-ticking="1"' in page and '<span data-live="stepping" hidden>' in page
    Job.objects.filter(pk=starts.pk).update(state="running", steps_total=240)
    assert '<span data-live="stepping" >' in header_of(owner, starts)


def test_a_start_that_should_have_been_is_not_announced_for_a_moment_ago(world: SimpleNamespace, owner: Client) -> None:
    job = world.jobs["queued"]
    for minutes, words in ((5, "It should start"), (-5, "It was expected to start by now")):
        Job.objects.filter(pk=job.pk).update(expected_start_at=timezone.now() + timedelta(minutes=minutes))
        assert words in header_of(owner, job)
        assert ("starts <time" in owner.get("/queue/").content.decode()) == (minutes > 0)


def test_a_job_that_the_scheduler_has_not_looked_at_yet_is_told_nothing_about_its_start(
    world: SimpleNamespace, owner: Client
) -> None:
    job = world.jobs["queued"]
    address = reverse("job_tab", args=[job.pk, "live"])
    Job.objects.filter(pk=job.pk).update(expected_start_at=None)
    assert "Its start cannot be predicted" in owner.get(address).content.decode()
    Job.objects.filter(pk=job.pk).update(waiting_text="", phase="training")
    page = owner.get(address).content.decode()
    assert "Waiting to be placed" in page and "cannot be predicted" not in page
    assert 'data-live="phase"' not in page  # of the attempt before a pause


def test_the_time_left_is_that_until_the_expected_finish_on_every_page(world: SimpleNamespace, owner: Client) -> None:
    job, finish = world.jobs["running"], timezone.now() + timedelta(hours=2, seconds=5)
    Job.objects.filter(pk=job.pk).update(expected_finish_at=finish, eta_s=61.0)
    page = " ".join(header_of(owner, job).split())
    assert re.search(r'data-left="720\d\.\d" ?>about 2 h<', page) and "Expected finish" in page
    assert "2 h" in owner.get("/").content.decode() and "1 min 01 s" not in owner.get("/").content.decode()
    Job.objects.filter(pk=job.pk).update(expected_finish_at=None)
    page = header_of(owner, job)
    assert "measuring…" in page and "data-left" not in page


def test_a_run_without_progress_is_told_so_on_every_page(world: SimpleNamespace, owner: Client) -> None:
    job, now = world.jobs["running"], timezone.now()
    run = {"phase": "training", "step": 5, "steps_total": 100, "eta_s": 95.0, "expected_finish_at": now}
    Job.objects.filter(pk=job.pk).update(**run, moved_at=now - timedelta(minutes=3, seconds=1))
    page = " ".join(header_of(owner, job).split())
    assert "no progress for 3 min" in page and "data-left" not in page and "Expected finish" not in page
    assert "no progress for 3 min" in owner.get("/").content.decode()


def test_a_job_that_waits_for_a_sweep_is_told_when_that_is_expected_to_be_over(
    world: SimpleNamespace, owner: Client
) -> None:
    job, over = world.jobs["queued"], timezone.now() + timedelta(minutes=40)
    node = Node.objects.filter(devices__reservations=None).first()
    reservation_hold(
        target=node, ends_at=timezone.now() + timedelta(minutes=10), planned_until=over, purpose="Calibration of n",
        open_ended=True,
    )  # fmt: skip
    reason = "What is free on n is reserved (Calibration of n), now or before it would end."
    gone = {"expected_start_at": None, "expected_finish_at": None}
    Job.objects.filter(pk=job.pk).update(waiting_code="reserved", waiting_text=reason, **gone)
    page = header_of(owner, job)
    assert "(Calibration of n)" in page and "What is reserved is expected back" in page
    assert over.isoformat(timespec="seconds") in page and "cannot be predicted" not in page
    Job.objects.filter(pk=job.pk).update(deadline_at=timezone.now() + timedelta(hours=1), promised_at=None)
    for run_s, is_said in ((60.0, True), (7200.0, False)):
        job_options_set(job, [Option(kind="cpu", count=1, rate_per_s=1 / run_s)], slowdown=1.0)
        assert ("can be promised only after that" in header_of(owner, job)) == is_said


def test_a_job_that_can_never_start_is_not_told_that_an_estimate_is_missing(
    world: SimpleNamespace, owner: Client
) -> None:
    job = world.jobs["queued"]
    Job.objects.filter(pk=job.pk).update(expected_start_at=None)
    for code, is_said in (("devices_busy", True), ("too_many_devices", False), ("quota_too_small", False)):
        Job.objects.filter(pk=job.pk).update(waiting_code=code)
        assert ("Its start cannot be predicted" in header_of(owner, job)) == is_said, code


@pytest.mark.parametrize("state", ["cancelled", "failed"])
def test_a_run_that_ended_without_results_leads_to_what_it_left(
    world: SimpleNamespace, owner: Client, state: str
) -> None:
    job = world.jobs[state]
    address = reverse("job_tab", args=[job.pk, "results"])
    page = owner.get(address).content.decode()
    assert "This run has no results" in page and "no results yet" not in page
    assert f'class="btn btn-primary" href="{reverse("job_tab", args=[job.pk, "checkpoints"])}"' in page
    job.checkpoints.all().delete()
    assert "before its first checkpoint" in owner.get(address).content.decode()


def test_a_draft_in_the_trash_says_why_it_is_read_only_and_not_when_it_would_start(
    world: SimpleNamespace, owner: Client
) -> None:
    job = world.jobs["draft"]
    address = reverse("job_tab", args=[job.pk, "program"])
    assert "Before you submit" in owner.get(address).content.decode()
    Job.objects.filter(pk=job.pk).update(deleted_at=timezone.now())
    page = owner.get(address).content.decode()
    assert "the job is in the trash" in page and "the job was submitted" not in page and "Before you submit" not in page
