"""What the pages of one job say: errors, curves, speed-up, a draft's spec."""

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

from codegen.profile.types import ColumnProfile, ColumnType, DataKind, DatasetProfile
from harness.accounts.models import AuditEvent
from harness.jobs.models import DeviceUse, Job, JobAttempt
from harness.jobs.timelines import job_energy
from harness.pages.job_view import first_error_line, job_actions
from harness.pages.prediction_view import prediction_context, single_answer
from harness.pages.spec_fields import spec_groups
from harness.pages.speed import speedup_rows
from harness.pages.views.predict import input_fields


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


def results_write(job: Job, rate: float) -> None:
    path = settings.STORE.job(job.pk).root / "work" / "results" / "results.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"charts": [], "metrics": {}, "timing": {"samples_per_s": rate}}))


def test_speed_up_compares_the_same_work_on_other_numbers_of_ranks(world: SimpleNamespace, owner: Client) -> None:
    one = world.jobs["succeeded"]
    one.attempts.all().delete()
    JobAttempt.objects.create(job=one, number=1, world_size=1, plan={})
    results_write(one, 1000.0)
    assert speedup_rows(one) == []
    two = Job.objects.get(pk=one.pk)
    two.pk = "tworanks0001"
    Job.objects.bulk_create([two])
    JobAttempt.objects.create(job=two, number=1, world_size=2, plan={})
    results_write(two, 1800.0)
    assert [(row["ranks"], row["speedup"]) for row in speedup_rows(one)] == [(1, 1.0), (2, 1.8)]
    lines = b"".join(owner.get(reverse("job_speedup", args=[one.pk]))).decode().splitlines()
    assert lines[0] == "ranks,job,name,samples_per_s,speedup,ideal" and len(lines) == 3
    assert "Speed-up by ranks" in owner.get(reverse("job_tab", args=[one.pk, "results"])).content.decode()


def test_a_refused_spec_is_shown_again_as_it_was_typed(world: SimpleNamespace, owner: Client) -> None:
    url = reverse("spec_save", args=[world.jobs["draft"].pk])
    response = owner.post(url, {"spec": "training:\n  epochs: 0\n"})
    assert response.status_code == 422 and "epochs: 0" in response.content.decode()


def test_a_new_spec_warns_of_edited_files_and_undoes_them_on_request(world: SimpleNamespace, owner: Client) -> None:
    job = world.jobs["draft"]
    owner.post(reverse("program_save", args=[job.pk]), {"name": "model.py", "text": "import os\n"})
    assert "You changed model.py by hand" in owner.get(reverse("job_tab", args=[job.pk, "spec"])).content.decode()
    url = reverse("spec_save", args=[job.pk])
    page = owner.post(url, {"spec": "training:\n  epochs: 3\n"}, follow=True).content.decode()
    assert "edited files were kept" in page
    job.refresh_from_db()
    assert job.program_edited and job.epochs == 3
    owner.post(url, {"spec": "training:\n  epochs: 4\n", "reset": "1"})
    job.refresh_from_db()
    assert not job.program_edited and job.epochs == 4


def test_the_form_knows_the_limits_of_the_schema(world: SimpleNamespace) -> None:
    from harness.datasets.selectors import dataset_profile

    fields = {field.path: field for group in spec_groups(dataset_profile(world.wine)) for field in group.fields}
    assert dict(fields["training.epochs"].bounds)["ge"] == 1
    assert dict(fields["training.learning_rate"].bounds)["gt"] == 0
    assert {"ge": 0, "lt": 1}.items() <= dict(fields["data.split.test"].bounds).items()


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


def test_one_row_is_read_as_an_answer_with_falling_shares() -> None:
    columns = ["row", "prediction", "confidence", "probability of a", "probability of b"]
    answer = single_answer(columns, [1, "b", 0.9, 0.1, 0.9])
    assert answer == {"prediction": "b", "shares": [("b", 0.9), ("a", 0.1)]}
    assert single_answer(["text"], ["x"]) is None


def test_a_prediction_stands_beside_its_probabilities_and_its_input() -> None:
    output = {
        "columns": ["row", "prediction", "confidence", "probability of a", "probability of b"],
        "rows": [[1, "b", 0.9, 0.1, 0.9], [2, "a", 0.75, 0.75, 0.25]],
        "inputs": {"columns": ["size", "note"], "rows": [["5.1", "small"], ["6"]]},
    }
    shown = prediction_context(output, "rows.csv")
    assert shown["groups"] == [("Answer", 3), ("Probability of", 2), ("Input", 2)]
    assert shown["heads"][3:] == [("a", True), ("b", True), ("size", True), ("note", False)]
    assert [text for text, _ in shown["rows"][0]] == ["1", "b", "90.0 %", "10.0 %", "90.0 %", "5.1", "small"]
    assert shown["rows"][1][-1] == ("–", False)  # noqa: RUF001
    assert shown["has_input"] and shown["single"] is None and shown["notes"] == []
    assert prediction_context({**output, "notes": ["'?' is none"]}, "rows.csv")["notes"] == ["'?' is none"]
    assert prediction_context({**output, "notes": "odd"}, "rows.csv")["notes"] == []
    many = {"columns": ["row", *(f"probability of {name}" for name in range(30))], "rows": [[1, *[0.0] * 30]]}
    assert prediction_context(many, "rows.csv")["classes_left_out"] == 10
    picture = {"columns": ["name", "prediction"], "rows": [["input.png", "cat"]], "inputs": "none"}
    assert prediction_context(picture, "mine.png")["rows"][0][0][0] == "mine.png"


def test_results_of_a_program_that_writes_nonsense_still_show(world: SimpleNamespace, owner: Client) -> None:
    job = world.jobs["succeeded"]
    path = settings.STORE.job(job.pk).root / "work" / "results" / "results.json"
    charts = [{"id": "x", "kind": "table", "columns": ["a"], "rows": [[None], [{}], ["b", 1]]}]
    body = {"charts": charts, "metrics": {"val": {"accuracy": "high"}}, "timing": {"train_s": "long", "parameters": []}}
    path.write_text(json.dumps(body))
    assert owner.get(reverse("job_tab", args=[job.pk, "results"])).status_code == 200


@pytest.mark.parametrize(("told", "shown"), [("All rows of one 'x' & more.", True), ({"a": 1}, False), ("", False)])
def test_results_tell_how_rows_were_split(world: SimpleNamespace, owner: Client, told: Any, shown: bool) -> None:
    job = world.jobs["succeeded"]
    path = settings.STORE.job(job.pk).root / "work" / "results" / "results.json"
    path.write_text(json.dumps({"charts": [], "metrics": {}, "split": told}))
    page = owner.get(reverse("job_tab", args=[job.pk, "results"])).content.decode()
    assert ("How rows were split" in page) is shown
    assert ("All rows of one &#x27;x&#x27; &amp; more." in page) is shown


def test_the_prediction_form_asks_for_every_column_that_the_model_takes() -> None:
    def column(name: str, kind: ColumnType, **more: Any) -> ColumnProfile:
        return ColumnProfile(name=name, type=kind, guessed_type=kind, reason="", missing=0, unique=9, **more)

    columns = (
        column("age", ColumnType.NUMERIC, mean=41.5, minimum=17.0, maximum=90.0),
        column("city", ColumnType.CATEGORY, top_values=(("Bern", 5), ("Lyon", 4))),
        column("when", ColumnType.DATE, examples=("2020-01-31 00:00:00", "2020-02-01 10:00:00")),
        column("note", ColumnType.TEXT, examples=("a long note",)),
    )
    profile = DatasetProfile(kind=DataKind.TABLE, rows=9, columns=columns)
    shape = {"numeric": ["age"], "categorical": ["city"], "dates": ["when"], "texts": ["note"]}
    fields = {field["name"]: field for field in input_fields(Job(resolved={"spec": {"shape": shape}}), profile)}
    typical = {name: field["typical"] for name, field in fields.items()}
    assert typical == {"age": "41.5", "city": "Bern", "when": "2020-01-31", "note": "a long note"}
    assert fields["city"]["choices"] == ["Bern", "Lyon"] and not fields["note"]["choices"]
    assert "2020-01-31" in fields["when"]["hint"]


def test_the_pages_say_how_long_the_trash_keeps_things(world: SimpleNamespace, owner: Client, settings: Any) -> None:
    settings.TRASH_DAYS = 3
    job = reverse("job_page", args=[world.jobs["succeeded"].pk])
    for url in ("/trash/", "/jobs/", job, reverse("dataset_page", args=[world.wine.pk])):
        page = owner.get(url, follow=True).content.decode()
        assert "3 days" in page and "14 days" not in page, url


def test_a_job_predicts_although_its_data_was_read_anew_since_and_cannot_be_used(
    world: SimpleNamespace, owner: Client
) -> None:
    job = world.jobs["succeeded"]
    problem = {"message": "No such target.", "hint": "Choose another."}
    type(job.dataset).objects.filter(pk=job.dataset_id).update(state="failed", profile=None, problem=problem)
    answer = owner.get(reverse("job_predict", args=[job.pk]))
    assert answer.status_code == 200 and "Pictures by file" in answer.content.decode()


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
    assert '<li aria-current="step"> <span>Look at the program</span> </li>' in flat and ">Goal and model</a>" in flat
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
    signs = {sign for page in pages for sign in re.findall(r'data-label="Off by">\s*([+-])\d', page)}
    assert "+" in signs


def header_of(owner: Client, job: Job) -> str:
    return owner.get(reverse("job_header", args=[job.pk])).content.decode()


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
        assert ("or before" in owner.get("/queue/").content.decode()) == (minutes > 0)
