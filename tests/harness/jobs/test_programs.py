"""The program of a draft: made from a spec, edited, checked, cloned, downloaded."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import json
import threading
import zipfile
from pathlib import Path
from unittest.mock import Mock

import pytest
from django.conf import settings
from django.db import connection
from django.utils import timezone

from harness.errors import Conflict, Invalid, NotFound
from harness.jobs import drafts, program_checks, programs, selectors, services
from harness.jobs.models import Job
from harness.rates.submitting import job_submit
from harness.store import ByteRange
from tests.harness.jobs.helpers import queue

pytestmark = pytest.mark.django_db
OWN_MODEL = "import torch\n\n\ndef build(spec):\n    return torch.nn.Linear(3, spec.shape.outputs)\n"


def test_a_draft_has_a_program_on_disk_and_a_resolved_spec(job):
    names = [file["name"] for file in selectors.program_files(job)]
    assert names == ["model.py", "data.py", "train.py", "predict.py", "spec.yaml", "README.md"]
    training = job.resolved["spec"]["training"]
    assert training.pop("precision") == "auto", "the device that it runs on decides"
    assert "auto" not in json.dumps(training)
    assert job.task == "tabular_classification"
    assert job.family and job.metric_name and job.program_sha256 and not job.program_edited
    assert job.suggestions[0]["rank"] == 1


def test_a_wrong_spec_names_the_field_and_leaves_nothing(people, dataset):
    before = set(settings.STORE.jobs.iterdir()) if settings.STORE.jobs.is_dir() else set()
    with pytest.raises(Invalid) as caught:
        services.job_create(
            user=people.owner, project=people.project, dataset=dataset, spec={"training": {"epochs": -1}}
        )
    assert caught.value.field == "training.epochs"
    assert not Job.objects.exists()
    assert (set(settings.STORE.jobs.iterdir()) if settings.STORE.jobs.is_dir() else set()) == before


def test_spec_check_tells_all_problems_and_raises_none(people, dataset):
    answer = services.spec_check(user=people.owner, spec="tasc: x\ntraining: {epochs: many}\n", dataset=dataset)
    assert {problem["field"] for problem in answer["problems"]} == {"tasc", "training.epochs"}
    good = services.spec_check(user=people.owner, spec={}, dataset=dataset)
    assert good["problems"] == [] and good["resolved"]["spec"]["task"] == "tabular_classification"


def test_a_deadline_that_has_passed_or_that_nobody_means_is_a_problem_while_it_is_written(people, dataset):
    def problems(deadline):
        answer = services.spec_check(user=people.owner, spec={"budget": {"deadline": deadline}}, dataset=dataset)
        assert answer["resolved"]["guesses"]
        return [problem["field"] for problem in answer["problems"]]

    assert problems("2020-01-31T18:00:00Z") == ["budget.deadline"]
    assert problems("2020-01-31T18:00:00") == ["budget.deadline"]
    assert problems("9999-01-31T18:00:00Z") == ["budget.deadline"]
    assert problems(f"{timezone.now().year + 1}-01-31T18:00:00+02:00") == [] == problems("auto")


def test_an_edited_program_is_marked_shown_as_diff_and_can_be_put_back(job, people):
    text = selectors.program_files(job)[0]["text"]
    services.program_file_write(user=people.owner, job=job, name="model.py", text=text + "# mine\n")
    services.program_file_write(user=people.owner, job=job, name="extra.py", text="x = 1")
    assert job.program_edited
    diff = selectors.program_diff(job)
    assert "+# mine" in diff and "program/extra.py" in diff
    services.program_reset(user=people.owner, job=job, name="extra.py")
    services.program_reset(user=people.owner, job=job)
    assert not job.program_edited and selectors.program_diff(job) == ""


@pytest.mark.parametrize(
    "name", ["../x.py", "/etc/x.py", "a/b.py", ".hidden.py", "x.sh", "worker.py", "x.py\0", "", "..", "x.PY"]
)
def test_a_program_takes_no_odd_file_names(name, job, people):
    with pytest.raises(Invalid):
        services.program_file_write(user=people.owner, job=job, name=name, text="x = 1")


@pytest.mark.parametrize("text", ["x" * (2 << 20), "a\0b", "\ud800"])
def test_a_program_takes_no_odd_texts(text, job, people):
    with pytest.raises(Invalid):
        services.program_file_write(user=people.owner, job=job, name="model.py", text=text)


def test_a_program_that_does_not_parse_is_not_submitted(job, people):
    services.program_file_write(user=people.owner, job=job, name="model.py", text="def build(spec:\n    pass\n")
    with pytest.raises(Invalid) as caught:
        job_submit(user=people.owner, job=job)
    assert caught.value.details["file"] == "model.py" and caught.value.details["line"] == 1
    job.refresh_from_db()
    assert job.state == "draft"


def test_a_submitted_job_cannot_be_edited(job, people):
    queue(job)
    with pytest.raises(Conflict, match="queued"):
        services.program_file_write(user=people.owner, job=job, name="model.py", text="x = 1")
    with pytest.raises(Conflict):
        services.job_spec_update(user=people.owner, job=job, spec={})


@pytest.mark.django_db(transaction=True)
def test_no_edit_slips_into_a_job_that_is_submitted_at_the_same_moment(job, people, tasks_sent, monkeypatch):
    """What is edited runs at the level of edited programs: a file must not come after the mark was looked at."""
    writes, submitted = programs.file_write, threading.Event()
    threads = []

    def submit():
        try:
            job_submit(user=people.mate, job=Job.objects.get(pk=job.pk))
        finally:
            submitted.set()
            connection.close()

    def write_late(*args):
        threads.append(threading.Thread(target=submit))
        threads[0].start()
        submitted.wait(0.5)  # it must not get through
        writes(*args)

    monkeypatch.setattr(programs, "file_write", write_late)
    with contextlib.suppress(Conflict):
        services.program_file_write(user=people.owner, job=job, name="extra.py", text="x = 1\n")
    threads[0].join()
    job.refresh_from_db()
    assert job.state == "queued"
    assert job.program_edited == programs.program_is_edited(settings.STORE.job(job.pk)) is True


def test_a_clone_keeps_spec_edits_and_own_model(job_make, people):
    first = job_make(own_model=OWN_MODEL, training={"epochs": 3})
    services.program_file_write(user=people.owner, job=first, name="extra.py", text="x = 1\n")
    clone = services.job_clone(user=people.mate, job=first)
    assert (clone.owner, clone.parent, clone.state) == (people.mate, first, "draft")
    files = {file["name"]: file["text"] for file in selectors.program_files(clone)}
    assert files["model.py"] == OWN_MODEL and files["extra.py"] == "x = 1\n"
    assert clone.program_edited and clone.resolved["spec"]["training"]["epochs"] == 3


def test_a_new_spec_makes_a_new_program_and_keeps_edits(job, people):
    services.program_file_write(user=people.owner, job=job, name="README.md", text="mine\n")
    services.job_spec_update(user=people.owner, job=job, spec={"training": {"epochs": 7}, "name": "Seven"})
    files = {file["name"]: file["text"] for file in selectors.program_files(job)}
    assert files["README.md"] == "mine\n" and "epochs: 7" in files["spec.yaml"]
    assert (job.name, job.epochs) == ("Seven", 7)


def _kept(job):
    """All of a draft that a change which did not come about may not touch."""
    paths = settings.STORE.job(job.pk)
    folders = {
        folder.name: {path.name: path.read_text() for path in folder.iterdir()} for folder in paths.root.iterdir()
    }
    return folders, Job.objects.filter(pk=job.pk).values().get()


def test_a_spec_that_is_refused_leaves_the_program_as_it_is(job, people):
    before = _kept(job)
    spec = {"model": {"weights": "nothing"}, "training": {"epochs": 7}}
    with pytest.raises(Invalid, match="no weights file"):
        services.job_spec_update(user=people.owner, job=job, spec=spec)
    assert _kept(job) == before


@pytest.mark.parametrize("change", ["a file", "the spec"])
def test_a_change_that_was_cut_off_before_it_was_noted_is_mended_when_the_draft_is_submitted(
    job, people, monkeypatch, node_make, change
):
    """As a portal leaves it that is killed between the files and the row."""
    node_make()
    with monkeypatch.context() as patch, pytest.raises(SystemExit):
        patch.setattr(drafts, "_draft_save", Mock(side_effect=SystemExit))
        if change == "a file":
            services.program_file_write(user=people.owner, job=job, name="extra.py", text="x = 1\n")
        else:
            services.job_spec_update(user=people.owner, job=job, spec={"training": {"epochs": 7}})
    job = Job.objects.get(pk=job.pk)
    paths, epochs = settings.STORE.job(job.pk), job.epochs
    assert not job.program_edited and job.program_sha256 != programs.program_of(paths).sha256
    job_submit(user=people.owner, job=job)
    job.refresh_from_db()
    assert (job.state, job.program_sha256) == ("queued", programs.program_of(paths).sha256)
    assert job.program_edited == job.own_code == programs.program_is_edited(paths) == (change == "a file")
    assert f"epochs: {epochs}" in programs.files_read(paths.program)["spec.yaml"] and job.epochs == epochs
    assert job.events.filter(message__startswith="A change of its program was cut off").count() == 1


def test_a_disk_that_gets_full_while_a_program_is_made_anew_leaves_it_as_it_is(job, people, monkeypatch):
    before, write = _kept(job), Path.write_text

    def full(path, text, **given):
        if path.parent.name == "program" and "README" in path.name:
            write(path, text[:10], **given)
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(path, text, **given)

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError, match="No space"):
        services.job_spec_update(user=people.owner, job=job, spec={"training": {"epochs": 7}})
    assert _kept(job) == before


@pytest.mark.parametrize("how", ["cloned", "renamed"])
def test_a_new_spec_with_the_old_name_in_it_takes_back_no_later_name(job_make, people, how):
    job = job_make(name="first")
    if how == "cloned":
        job = services.job_clone(user=people.owner, job=job)
    else:
        services.job_update(user=people.owner, job=job, name="first (copy)")
    services.job_spec_update(user=people.owner, job=job, spec={**job.spec, "training": {"epochs": 7}})
    job.refresh_from_db()
    assert (job.name, job.epochs) == ("first (copy)", 7)
    services.job_spec_update(user=people.owner, job=job, spec={**job.spec, "name": "second"})
    assert job.name == "second"


def zip_of(job, **options):
    body = selectors.program_zip(job, **options)
    return b"".join(body.read(ByteRange(start=0, stop=body.size_bytes)))


def test_the_zip_holds_program_and_runtime_and_is_the_same_each_time(job):
    body = zip_of(job)
    assert body == zip_of(job)
    names = zipfile.ZipFile(io.BytesIO(body)).namelist()
    assert f"program-{job.pk}/train.py" in names
    assert f"program-{job.pk}/worker/runtime/run.py" in names
    assert not any("/data/" in name for name in names)


def test_the_zip_with_data_holds_what_the_program_trains_on(job):
    packed = selectors.data_file(job)
    body = zip_of(job, with_data=True)
    assert zipfile.ZipFile(io.BytesIO(body)).read(f"program-{job.pk}/data/{packed.name}") == packed.read_bytes()
    packed.unlink()
    with pytest.raises(NotFound, match="is gone"):
        selectors.program_zip(job, with_data=True)


@pytest.mark.parametrize("limit", [zipfile.ZIP64_LIMIT, 4_000_000, "at the list"])
def test_the_size_of_a_zip_is_told_without_reading_the_data(job, monkeypatch, limit):
    packed = selectors.data_file(job)
    packed.write_bytes(bytes(5_000_000))
    if limit == "at the list":  # as where the data end below 2 GiB, and the list begins above
        limit = 5_100_000
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", limit)
    body = selectors.program_zip(job, with_data=True)
    made = zip_of(job, with_data=True)
    assert len(made) == body.size_bytes
    assert hashlib.sha256(made).hexdigest() == body.sha256()
    assert b"".join(body.read(ByteRange(start=700, stop=901))) == made[700:901]
    assert b"".join(body.read(ByteRange(start=len(made) - 9, stop=len(made)))) == made[-9:]


def test_a_zip_of_other_bytes_has_another_version(job, people):
    versions = {selectors.program_zip(job).version, selectors.program_zip(job, with_data=True).version}
    selectors.data_file(job).write_bytes(b"other rows")
    versions.add(selectors.program_zip(job, with_data=True).version)
    services.program_file_write(user=people.owner, job=job, name="README.md", text="mine\n")
    versions.add(selectors.program_zip(job).version)
    assert len(versions) == 4


def test_a_spec_of_a_program_that_is_no_yaml_is_refused_by_line(job, people):
    services.program_file_write(user=people.owner, job=job, name="spec.yaml", text="name: x\ntraining: [\n")
    with pytest.raises(Invalid, match=r"spec\.yaml, line 3: not YAML: ") as caught:
        job_submit(user=people.owner, job=job)
    assert caught.value.code == "program_syntax"


@pytest.mark.parametrize(
    ("text", "is_taken"),
    [
        ("sex,length\n1,2\n", False),
        ("builder = 1\nprint(build)\n", False),
        (OWN_MODEL, True),
        ("from extra import build\n", True),
        ("from extra import *\n", True),
        ("import extra\nbuild = extra.net\n", True),
    ],
)
def test_a_model_without_build_such_as_a_table_that_parses_is_not_queued(job, people, text, is_taken):
    services.program_file_write(user=people.owner, job=job, name="model.py", text=text)
    program_checks.program_syntax_check({"model.py": text})
    if is_taken:
        assert job_submit(user=people.owner, job=job).state == "queued"
        return
    with pytest.raises(Invalid, match="no function build") as caught:
        job_submit(user=people.owner, job=job)
    assert (caught.value.code, Job.objects.get(pk=job.pk).state) == ("model_no_build", "draft")


def test_a_file_that_is_saved_beside_a_change_of_the_spec_takes_none_of_it_back(job, people):
    other = Job.objects.get(pk=job.pk)
    services.job_spec_update(
        user=people.owner, job=job, spec={"training": {"epochs": 7}, "budget": {"deadline": "2099-01-01T00:00:00Z"}}
    )
    Job.objects.filter(pk=job.pk).update(name="renamed")
    services.program_file_write(user=people.owner, job=other, name="notes.py", text="")
    row = Job.objects.get(pk=job.pk)
    assert (row.epochs, row.name, row.deadline_at is None) == (7, "renamed", False)
