from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
import time
from functools import partial
from pathlib import Path

import pytest
from django.conf import settings
from django.db import OperationalError
from django.db.models import QuerySet

from codegen.profile.types import PROFILE_FILE
from harness.datasets import profiling, purging, reading, selectors, services
from harness.datasets.content import content_key, content_source, file_sha256
from harness.datasets.models import Dataset
from harness.datasets.reading import dataset_read, datasets_resend
from harness.errors import Conflict, Forbidden, HarnessError, NotFound
from worker.sandbox import Completed

pytestmark = pytest.mark.django_db


@pytest.fixture
def unread(people, tmp_path, tasks_sent):
    """A dataset that waits to be read; its content is new."""
    path = tmp_path / "new.csv"
    mark = secrets.token_hex(8)
    path.write_text("size,kind\n" + "".join(f"{row * 1.5},{('a', mark)[row % 2]}\n" for row in range(60)))
    return services.dataset_create_from_file(user=people.owner, project=people.project, name="new", path=path)


def test_a_dataset_is_read_in_the_sandbox_and_becomes_ready(unread, broker):
    dataset_read(unread.pk)
    unread.refresh_from_db()
    assert unread.state == "ready", unread.problem
    profile = selectors.dataset_profile(unread)
    assert (profile.rows, [column.name for column in profile.columns]) == (60, ["size", "kind"])
    rows = selectors.dataset_rows(unread, offset=1, limit=2)
    assert rows["columns"] == ["size", "kind"] and rows["rows"][1] == [3.0, "a"]


def test_two_who_add_the_same_file_at_once_both_get_it(people, tmp_path, tasks_sent, monkeypatch):
    path = tmp_path / "same.csv"
    path.write_text(f"size,kind\n1,{secrets.token_hex(8)}\n")
    place, made = services.content_place, []

    def add():
        return services.dataset_create_from_file(user=people.owner, project=people.project, name="same", path=path)

    def placed_second(*args):
        if not made:
            made.append(None)
            made[0] = add()
        return place(*args)

    monkeypatch.setattr(services, "content_place", placed_second)
    first = add()
    assert first.sha256 == made[0].sha256 and content_source(first.sha256).read_text() == path.read_text()
    assert not list(settings.STORE.uploads.glob("copy-*"))


def test_data_that_cannot_be_used_names_its_problem(people, tmp_path, tasks_sent, broker):
    path = tmp_path / "bad.csv"
    path.write_text("a,b\n")
    bad = services.dataset_create_from_file(user=people.owner, project=people.project, name="bad", path=path)
    dataset_read(bad.pk)
    bad.refresh_from_db()
    assert bad.state == "failed" and bad.problem["message"] and bad.problem["hint"]
    with pytest.raises(Conflict):
        selectors.dataset_profile(bad)


def added(folder, user, project, file_name, text):
    path = folder / file_name
    path.write_text(text)
    return services.dataset_create_from_file(user=user, project=project, name="", path=path)


@pytest.mark.parametrize("text", ["a,b\n", "<html>no data</html>\n"])
def test_a_problem_names_the_uploader_s_own_file_not_that_of_whoever_brought_the_bytes_first(
    text, people, tmp_path, tasks_sent, broker
):
    text = text.format(secrets.token_hex(8))
    added(tmp_path, people.outsider, people.elsewhere, "takeover-of-acme.csv", text)
    bad = added(tmp_path, people.owner, people.project, "-mine.csv", text)
    dataset_read(bad.pk)
    bad.refresh_from_db()
    assert bad.state == "failed" and bad.problem["message"].startswith("-mine.csv ")
    assert bad.problem["file"] == "-mine.csv" and "acme" not in str(bad.problem)


def test_bytes_that_another_project_has_are_ready_without_a_word_of_it(people, tmp_path, tasks_sent, broker):
    rows = "".join(f"{row},{'ab'[row % 2]}\n" for row in range(400))
    text = f"{secrets.token_hex(8)},kind\n{rows}1,2,3\n"  # its last line is left out, which the profile tells
    first = added(tmp_path, people.outsider, people.elsewhere, "takeover-of-acme.csv", text)
    dataset_read(first.pk)
    same = added(tmp_path, people.owner, people.project, "mine.csv", text)
    first.refresh_from_db()
    same.refresh_from_db()
    assert (same.state, same.progress_note) == (first.state, first.progress_note) == ("ready", "")
    assert any(found["code"] == "ragged_rows" for found in same.profile["warnings"])
    assert "acme" not in str(same.profile) and same.profile == first.profile


def test_bytes_of_an_earlier_reading_are_read_anew_and_known(people, tmp_path, tasks_sent, broker, monkeypatch):
    text = f"{secrets.token_hex(8)},kind\n" + "".join(f"{row},{'ab'[row % 2]}\n" for row in range(60))
    with monkeypatch.context() as before:
        before.setattr(services, "content_key", partial(content_key, reading=0))
        first = added(tmp_path, people.owner, people.project, "mine.csv", text)
    dataset_read(first.pk)
    bytes_sha256 = file_sha256(content_source(first.sha256))
    assert first.sha256 == hashlib.sha256(f'["{bytes_sha256}",".csv",{{}}]'.encode()).hexdigest()
    again = added(tmp_path, people.owner, people.project, "mine.csv", text)
    assert again.state == "profiling"
    dataset_read(again.pk)
    first.refresh_from_db()
    again.refresh_from_db()
    assert again.state == "ready" and again.sha256 != first.sha256
    assert selectors.dataset_rows(first)["rows"] == selectors.dataset_rows(again)["rows"]
    rows = Dataset.objects.filter(project=people.project)
    assert set(selectors.datasets_of_bytes(rows, bytes_sha256, "mine.csv")) == {first, again}


def test_a_profile_of_before_loses_the_name_of_the_first_file(people, tmp_path, tasks_sent, broker):
    text = f"{secrets.token_hex(8)},kind\n" + "".join(f"{row},{'ab'[row % 2]}\n" for row in range(400)) + "1,2,3\n"
    first = added(tmp_path, people.outsider, people.elsewhere, "takeover-of-acme.csv", text)
    dataset_read(first.pk)
    file = settings.STORE.dataset(first.sha256).packed / PROFILE_FILE
    body = json.loads(file.read_text())
    for found in body["warnings"]:
        found["files"] = ["takeover-of-acme.csv"]
    file.write_text(json.dumps(body))
    same = added(tmp_path, people.owner, people.project, "mine.csv", text)
    assert same.state == "ready" and same.profile["warnings"] and "acme" not in str(same.profile)


def test_only_one_process_reads_a_dataset(unread, broker):
    broker.set(f"dlh:reading:{unread.pk}", "1")
    dataset_read(unread.pk)
    unread.refresh_from_db()
    assert unread.state == "profiling"


def test_a_thread_that_is_free_goes_on_with_what_waits_and_tries_nothing_twice(
    people, tmp_path, tasks_sent, broker, monkeypatch
):
    path, made, read = tmp_path / "x.csv", [], []
    for name in ("first", "second", "third", "elsewhere"):
        path.write_text(f"size,kind\n1,{secrets.token_hex(8)}\n")
        made.append(
            services.dataset_create_from_file(user=people.owner, project=people.project, name=name, path=path).pk
        )
    broker.set(f"dlh:reading:{made[3]}", "1")
    monkeypatch.setattr(reading, "dataset_read", read.append)
    reading._read_all(made[1])
    assert read == [made[1], made[0], made[2]]


def test_a_reading_that_was_lost_is_asked_for_again_but_not_all_the_time(unread, broker, tasks_sent):
    tasks_sent.clear()
    assert datasets_resend() == 1
    assert datasets_resend() == 0
    assert tasks_sent == [("control.dataset_profile", [unread.pk], "control")]


def test_a_reading_that_says_nothing_for_long_keeps_its_lease(unread, broker, monkeypatch):
    monkeypatch.setattr(reading, "LEASE_S", 1)
    held = []

    def slow(*args):
        for _ in range(30):
            held.append(broker.exists(f"dlh:reading:{unread.pk}"))
            time.sleep(0.1)
        return Completed(returncode=3, stdout="", stderr="", level=0)

    monkeypatch.setattr(profiling, "_run", slow)
    dataset_read(unread.pk)
    assert len(held) == 30 and all(held)


def test_a_reading_that_a_slow_disk_keeps_waiting_keeps_its_lease(unread, broker, monkeypatch):
    monkeypatch.setattr(reading, "LEASE_S", 1)
    held = []

    def slow(folder):
        for _ in range(30):
            held.append(broker.exists(f"dlh:reading:{unread.pk}"))
            time.sleep(0.1)

    monkeypatch.setattr(profiling, "tree_sync", slow)
    dataset_read(unread.pk)
    unread.refresh_from_db()
    assert unread.state == "ready" and len(held) == 30 and all(held)
    assert not broker.exists(f"dlh:reading:{unread.pk}")


def test_a_reading_whose_lease_another_one_has_by_now_leaves_it(unread, broker, monkeypatch):
    def taken_over(*args):
        broker.set(f"dlh:reading:{unread.pk}", "of another one")
        return Completed(returncode=3, stdout="", stderr="", level=0)

    monkeypatch.setattr(profiling, "_run", taken_over)
    dataset_read(unread.pk)
    assert broker.get(f"dlh:reading:{unread.pk}") == "of another one"


@pytest.mark.django_db(transaction=True)
def test_a_database_that_is_away_for_a_moment_fails_no_reading(unread, broker, monkeypatch):
    away = [OperationalError("database is locked")]
    before = QuerySet.update

    def update(rows, **fields):
        if "progress_note" in fields and fields.get("progress") != 1.0 and away:
            raise away.pop()
        return before(rows, **fields)

    monkeypatch.setattr(QuerySet, "update", update)
    dataset_read(unread.pk)
    unread.refresh_from_db()
    assert not away and unread.state == "ready"


def test_a_content_that_a_disk_does_not_give_is_told_and_not_asked_for_for_ever(unread, broker, monkeypatch):
    def broken(key):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(reading, "content_profile", broken)
    dataset_read(unread.pk)
    unread.refresh_from_db()
    assert unread.state == "failed" and unread.problem["code"] == "reading_failed"


def test_what_a_reading_made_is_on_the_disk_before_it_is_in_its_place(unread, broker, monkeypatch):
    synced: set[int] = set()
    sync, rename = os.fsync, Path.rename
    placed = []

    def fsync(descriptor):
        synced.add(os.fstat(descriptor).st_ino)
        sync(descriptor)

    def renamed(self, target):
        if Path(target).name == "packed":
            placed.extend(path.stat().st_ino in synced for path in [self, *self.rglob("*")])
        return rename(self, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "rename", renamed)
    dataset_read(unread.pk)
    assert len(placed) > 2 and all(placed)


def test_what_a_power_cut_left_of_a_reading_makes_way_for_the_next(unread, broker):
    packed = settings.STORE.dataset(unread.sha256).packed
    packed.mkdir()
    for name in (PROFILE_FILE, "table.parquet"):
        (packed / name).touch()
    dataset_read(unread.pk)
    unread.refresh_from_db()
    assert unread.state == "ready" and selectors.dataset_rows(unread)["rows"]
    assert [path.name for path in packed.parent.iterdir() if path.name not in {"source", "packed"}] == []


def test_outsiders_see_nothing_and_viewers_change_nothing(dataset, people):
    assert list(selectors.dataset_list(user=people.outsider)) == []
    assert list(selectors.dataset_list(user=people.viewer, query="FLOW")) == [dataset]
    with pytest.raises(NotFound):
        selectors.dataset_get(user=people.outsider, dataset_id=dataset.pk)
    for user, error in ((people.outsider, NotFound), (people.viewer, Forbidden)):
        for change in (
            lambda user=user: services.dataset_update(user=user, dataset=dataset, name="x"),
            lambda user=user: services.dataset_delete(user=user, dataset=dataset),
            lambda user=user: services.dataset_restore(user=user, dataset=dataset),
        ):
            with pytest.raises(error):
                change()


def test_a_deleted_dataset_lies_in_the_trash_and_comes_back(dataset, people):
    with pytest.raises(Forbidden):
        services.dataset_delete(user=people.mate, dataset=dataset)
    services.dataset_delete(user=people.owner, dataset=dataset)
    assert not selectors.dataset_list(user=people.owner).exists()
    assert selectors.dataset_list(user=people.owner, deleted=True).get() == dataset
    services.dataset_restore(user=people.mate, dataset=dataset)
    assert selectors.dataset_list(user=people.owner).exists()


def test_a_dataset_in_use_is_not_deleted(job, people):
    from tests.harness.jobs.helpers import queue

    queue(job)
    with pytest.raises(Conflict):
        services.dataset_delete(user=people.owner, dataset=job.dataset)


def test_a_thumbnail_is_served_by_its_known_name_only(dataset):
    for name in ("../profile.json", "profile.json", "/etc/passwd", ""):
        with pytest.raises(HarnessError):
            selectors.dataset_thumbnail(dataset, name)


def test_contents_that_nothing_names_are_removed_after_a_while(dataset, people):
    from datetime import timedelta

    spare = settings.STORE.datasets / "spare"
    spare.mkdir(parents=True)
    assert purging.contents_purge([dataset.sha256]) == 0
    purging.contents_purge(Dataset.objects.values_list("sha256", flat=True), older_than=timedelta(seconds=-5))
    assert not spare.exists() and settings.STORE.dataset(dataset.sha256).packed.exists()


def test_a_reading_that_leaves_a_link_is_refused(tmp_path):
    from harness.datasets.profiling import ProfileFailed, _plain_only

    (tmp_path / "thumbnails").mkdir()
    (tmp_path / "table.parquet").write_bytes(b"x")
    _plain_only(tmp_path)
    (tmp_path / "thumbnails" / "a.webp").symlink_to("/etc/passwd")
    with pytest.raises(ProfileFailed):
        _plain_only(tmp_path)


def test_a_purge_takes_drafts_of_killed_readings_and_nothing_young(settings):
    from harness.datasets.purging import contents_purge

    folders = [settings.STORE.dataset(name * 64).root for name in "ab"]
    for folder in folders:
        (folder / "packing-1").mkdir(parents=True)
        (folder / "packing-2").mkdir()
        os.utime(folder / "packing-1", (0, 0))
    os.utime(folders[0], (0, 0))
    contents_purge({folders[1].name})
    assert not folders[0].exists()
    assert [path.name for path in folders[1].iterdir()] == ["packing-2"]
    for folder in folders[1:]:
        (folder / "packing-2").rmdir()
        folder.rmdir()
