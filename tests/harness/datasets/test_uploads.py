from __future__ import annotations

import errno
import os
from contextlib import contextmanager
from datetime import timedelta

import pytest
from django.conf import settings
from django.utils import timezone

from harness.accounts.models import Membership, Role
from harness.datasets import purging, services, uploads
from harness.datasets.content import source_name_clean
from harness.datasets.models import Dataset, Upload
from harness.datasets.selectors import datasets_same
from harness.errors import Conflict, Forbidden, Invalid, NoSpace, NotFound, TooLarge

pytestmark = pytest.mark.django_db
BODY = b"length,kind\n" + b"1.5,rose\n2.5,iris\n" * 50


@pytest.fixture
def upload(people):
    return services.upload_create(
        user=people.owner, project=people.project, filename="flowers.csv", size_bytes=len(BODY)
    )


def test_bytes_in_any_pieces_become_one_dataset(upload, tasks_sent):
    offset = services.upload_append(upload=upload, offset=0, chunk=[BODY[:7], BODY[7:20]])
    assert offset == 20
    with pytest.raises(Conflict, match="bytes are missing"):
        services.upload_finish(upload=upload)
    assert services.upload_append(upload=upload, offset=20, chunk=iter([BODY[20:]])) == len(BODY)
    dataset = services.upload_finish(upload=upload, name="Flowers")
    (source,) = settings.STORE.dataset(dataset.sha256).source.iterdir()
    assert source.read_bytes() == BODY and source.name == "flowers.csv"
    assert (dataset.name, dataset.state, dataset.source_bytes) == ("Flowers", "profiling", len(BODY))
    assert not settings.STORE.upload(upload.pk).exists()
    assert services.upload_finish(upload=upload) == dataset
    assert Dataset.objects.count() == 1


def test_two_requests_that_finish_an_upload_at_once_make_one_dataset(upload, people, tasks_sent):
    services.upload_append(upload=upload, offset=0, chunk=[BODY])
    asked = [uploads.upload_get(user=people.owner, upload_id=upload.pk) for _ in range(2)]
    first = services.upload_finish(upload=asked[0])
    assert services.upload_finish(upload=asked[1]) == first
    assert Dataset.objects.count() == 1


def test_a_request_that_finishes_waits_for_the_one_that_does(upload, people, tasks_sent, monkeypatch):
    services.upload_append(upload=upload, offset=0, chunk=[BODY])
    made = services.upload_finish(upload=uploads.upload_get(user=people.owner, upload_id=upload.pk))
    Upload.objects.filter(pk=upload.pk).update(dataset=None)  # as it stood when the second request looked

    @contextmanager
    def first_one_done(asked, *, wait):
        assert wait
        Upload.objects.filter(pk=upload.pk).update(dataset=made)
        yield 0

    monkeypatch.setattr(services, "upload_lock", first_one_done)
    assert services.upload_finish(upload=upload) == made
    assert Dataset.objects.count() == 1


@pytest.mark.parametrize("step", ["file_sha256", "content_place"])
def test_an_upload_that_is_given_up_while_it_is_finished_is_gone_and_no_fault_of_ours(
    step, upload, people, tasks_sent, monkeypatch
):
    never_seen = f"given up before {step}".ljust(len(BODY)).encode()
    services.upload_append(upload=upload, offset=0, chunk=[never_seen])
    work = getattr(services, step)

    def given_up(*arguments):
        services.upload_delete(upload=Upload.objects.get(pk=upload.pk))
        return work(*arguments)

    monkeypatch.setattr(services, step, given_up)
    with pytest.raises(NotFound, match="given up"):
        services.upload_finish(upload=uploads.upload_get(user=people.owner, upload_id=upload.pk))
    assert not Dataset.objects.exists()


def test_an_upload_that_is_given_up_while_a_piece_comes_is_gone(upload, people, monkeypatch):
    asked, locked = uploads.upload_get(user=people.owner, upload_id=upload.pk), uploads.upload_lock

    @contextmanager
    def given_up(one, *, wait):
        with locked(one, wait=wait) as descriptor:
            services.upload_delete(upload=Upload.objects.get(pk=upload.pk))
            yield descriptor

    monkeypatch.setattr(uploads, "upload_lock", given_up)
    with pytest.raises(NotFound):
        services.upload_append(upload=asked, offset=0, chunk=[BODY])


def test_a_wrong_offset_tells_the_right_one(upload):
    services.upload_append(upload=upload, offset=0, chunk=[BODY[:10]])
    with pytest.raises(Conflict) as caught:
        services.upload_append(upload=upload, offset=3, chunk=[b"x"])
    assert caught.value.details == {"offset": 10}


def test_what_came_before_a_broken_connection_is_kept(upload):
    def broken():
        yield BODY[:10]
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        services.upload_append(upload=upload, offset=0, chunk=broken())
    assert Upload.objects.get().offset_bytes == 10
    assert services.upload_append(upload=upload, offset=10, chunk=[BODY[10:]]) == len(BODY)


def test_what_came_before_a_break_is_on_the_disk_before_its_offset_says_so(upload, monkeypatch):
    synced = []

    def sync(descriptor):
        synced.append((os.fstat(descriptor).st_size, Upload.objects.get(pk=upload.pk).offset_bytes))

    def broken():
        yield BODY[:100]
        raise ConnectionResetError

    monkeypatch.setattr(uploads.os, "fdatasync", sync)
    with pytest.raises(ConnectionResetError):
        services.upload_append(upload=upload, offset=0, chunk=broken())
    assert synced == [(100, 0)] and Upload.objects.get(pk=upload.pk).offset_bytes == 100


def test_bytes_that_a_disk_lost_are_not_counted_as_arrived(upload, monkeypatch):
    def failing(descriptor):
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(uploads.os, "fdatasync", failing)
        with pytest.raises(OSError, match="Input/output"):
            services.upload_append(upload=upload, offset=0, chunk=[BODY])
    assert Upload.objects.get(pk=upload.pk).offset_bytes == upload.offset_bytes == 0
    assert services.upload_append(upload=upload, offset=0, chunk=[BODY]) == len(BODY)


def test_a_full_disk_is_told_and_loses_nothing(upload, monkeypatch):
    services.upload_append(upload=upload, offset=0, chunk=[BODY[:10]])

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        with pytest.raises(NoSpace, match="kept"):
            services.upload_append(upload=upload, offset=10, chunk=[BODY[10:]])
    assert services.upload_append(upload=upload, offset=10, chunk=[BODY[10:]]) == len(BODY)


def test_uploads_that_were_all_let_in_leave_the_disks_reserve_alone(upload, settings):
    services.upload_append(upload=upload, offset=0, chunk=[BODY[:10]])
    enough, settings.DISK_RESERVE_BYTES = settings.DISK_RESERVE_BYTES, 1 << 60  # others have filled the disk meanwhile
    with pytest.raises(NoSpace, match="reserve"):
        services.upload_append(upload=upload, offset=10, chunk=[BODY[10:]])
    settings.DISK_RESERVE_BYTES = enough
    assert services.upload_append(upload=upload, offset=10, chunk=[BODY[10:]]) == len(BODY)


def test_more_bytes_than_announced_are_refused(upload):
    with pytest.raises(TooLarge):
        services.upload_append(upload=upload, offset=0, chunk=[BODY, b"more"])


def test_two_requests_never_write_one_upload_at_once(upload):
    def greedy():
        with pytest.raises(Conflict) as caught:
            services.upload_append(upload=Upload.objects.get(), offset=0, chunk=[b"y"])
        assert caught.value.code == "locked"
        yield BODY[:5]

    assert services.upload_append(upload=upload, offset=0, chunk=greedy()) == 5


def test_the_same_content_is_stored_once(people, tasks_sent):
    def send(user):
        made = services.upload_create(user=user, project=people.project, filename="a.csv", size_bytes=len(BODY))
        services.upload_append(upload=made, offset=0, chunk=[BODY])
        return services.upload_finish(upload=made)

    first, second = send(people.owner), send(people.mate)
    assert first.pk != second.pk and first.sha256 == second.sha256


def sent(people, project=None, **given):
    body = {"filename": "Erträge 2018-2023.csv", "size_bytes": len(BODY), **given}
    made = services.upload_create(user=people.owner, project=project or people.project, **body)
    services.upload_append(upload=made, offset=0, chunk=[BODY])
    return services.upload_finish(upload=made, name=made.name, options=made.options)


def test_the_same_file_again_gets_a_name_of_its_own(people, tasks_sent):
    names = [sent(people, options=options).name for options in ({}, {}, {"delimiter": ","})]
    assert names == ["Erträge 2018-2023", "Erträge 2018-2023 (2)", "Erträge 2018-2023 (3)"]
    assert sent(people, name="Mine").name == sent(people, name="Mine").name == "Mine"
    assert sent(people, filename="other.csv").name == "other"


@pytest.mark.parametrize(("filename", "name"), [("two\u2028lines.csv", "two lines"), ("\x80.csv", "data")])
def test_a_file_whose_name_no_page_shows_becomes_a_dataset_of_one_line(people, tasks_sent, filename, name):
    made = sent(people, filename=filename)
    assert made.name == name and made.source_name.isprintable()
    assert sent(people, filename=filename).name == f"{name} (2)"


def test_an_older_upload_whose_name_has_two_lines_becomes_a_dataset_of_one(people, upload, tasks_sent):
    services.upload_append(upload=upload, offset=0, chunk=[BODY])
    assert services.upload_finish(upload=upload, name="two\nlines").name == "two lines"


def test_the_same_name_of_other_bytes_or_of_another_project_or_in_the_trash_is_kept(people, tasks_sent):
    first = sent(people)
    other = services.upload_create(user=people.owner, project=people.project, filename=first.source_name, size_bytes=9)
    services.upload_append(upload=other, offset=0, chunk=[b"a,b\n1,2\n3"])
    assert services.upload_finish(upload=other).name == first.name
    Membership.objects.create(project=people.elsewhere, user=people.owner, role=Role.MEMBER)
    elsewhere = sent(people, project=people.elsewhere)
    assert elsewhere.name == first.name and not datasets_same(elsewhere)
    Dataset.objects.update(deleted_at=timezone.now())
    assert sent(people).name == first.name


def test_a_dataset_names_earlier_ones_of_the_same_bytes(people, tasks_sent):
    first, second, third = sent(people), sent(people), sent(people)
    assert (list(datasets_same(third)), list(datasets_same(first))) == ([first, second], [])
    services.dataset_delete(user=people.owner, dataset=first)
    assert list(datasets_same(third)) == [second]


def test_uploads_are_for_members_and_seen_by_their_owner_only(upload, people):
    with pytest.raises(NotFound):
        services.upload_create(user=people.outsider, project=people.project, filename="a.csv", size_bytes=5)
    with pytest.raises(Forbidden):
        services.upload_create(user=people.viewer, project=people.project, filename="a.csv", size_bytes=5)
    assert uploads.upload_get(user=people.owner, upload_id=upload.pk) == upload
    with pytest.raises(NotFound):
        uploads.upload_get(user=people.mate, upload_id=upload.pk)


def test_sizes_that_cannot_be_are_refused_at_once(people, settings):
    def create(size_bytes):
        services.upload_create(user=people.owner, project=people.project, filename="a.csv", size_bytes=size_bytes)

    with pytest.raises(Invalid, match="empty"):
        create(0)
    with pytest.raises(TooLarge):
        create(settings.UPLOAD_LIMIT_BYTES + 1)
    settings.DISK_RESERVE_BYTES = 1 << 60
    with pytest.raises(NoSpace, match="GiB"):
        create(5)
    assert not Upload.objects.exists()


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("../../etc/passwd", "passwd"),
        ("C:\\data\\a b.csv", "a b.csv"),
        (".hidden.csv", "hidden.csv"),
        ("ü.csv", "ü.csv"),
        ("a\x9b2Jb.csv", "a 2Jb.csv"),
        ("a\u2028b\u2029.csv", "a b .csv"),
        ("\x80.csv", "data.csv"),
        ("\x80", "data"),
        ("\x80.safetensors", "weights.safetensors"),
        (".\x80.csv", "csv"),
        (f"1. {'Long' * 50}.csv", f"{'Long' * 9}.csv"),
        (f"1. {' ' * 300}a.csv", "a.csv"),
        (f"1{'.' * 300}", "data"),
    ],
)
def test_a_file_name_keeps_its_last_part_on_one_line(given, kept):
    assert source_name_clean(given) == kept


@pytest.mark.parametrize("given", ["", "..", "a\0b.csv", "a\nb.csv", "/"])
def test_a_file_name_that_is_none_is_refused(given):
    with pytest.raises(Invalid):
        source_name_clean(given)


@pytest.mark.parametrize("given", ["1. Sales of the year " + "x" * 240 + ".csv", "a." + "ü" * 200 + ".tar.gz"])
def test_a_long_file_name_with_a_short_beginning_is_no_hidden_file(given):
    name = source_name_clean(given)
    assert not name.startswith(".") and name.endswith(given[-4:]) and len(name.encode()) <= 200


def test_a_very_long_file_name_is_cut_and_keeps_its_end():
    name = source_name_clean("ü" * 400 + ".csv.gz")
    assert name.endswith(".csv.gz") and len(name.encode()) <= 200


def test_uploads_that_nobody_touches_expire(upload):
    assert uploads.uploads_expire() == 0
    Upload.objects.update(updated_at=timezone.now() - timedelta(days=30))
    assert uploads.uploads_expire() == 1
    assert not settings.STORE.upload(upload.pk).exists()


@pytest.mark.parametrize("how", ["asked", "by its age"])
def test_an_upload_whose_dataset_is_deleted_for_good_is_no_unfinished_one_again(how, upload, people, tasks_sent):
    services.upload_append(upload=upload, offset=0, chunk=[BODY])
    dataset = services.upload_finish(upload=upload)
    services.dataset_delete(user=people.owner, dataset=dataset)
    if how == "asked":
        purging.dataset_purge(user=people.owner, dataset=dataset)
    else:
        Dataset.objects.update(deleted_at=timezone.now() - timedelta(days=60))
        assert purging.datasets_purge() == 1
    assert not Dataset.objects.exists() and not uploads.upload_list(user=people.owner).exists()
