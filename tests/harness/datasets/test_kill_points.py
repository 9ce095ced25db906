"""The portal is killed before any write while it makes a dataset of an upload: asked again, there is one dataset."""

from __future__ import annotations

import itertools

import pytest
from django.conf import settings
from django.db import connection

from harness.datasets import services, uploads
from harness.datasets.models import Dataset, Upload
from tests.harness.jobs.kill_points import Executioner, Killed

BODY = b"length,kind\n" + b"1.5,rose\n2.5,iris\n" * 50


def whole_upload(people):
    upload = services.upload_create(
        user=people.owner, project=people.project, filename="flowers.csv", size_bytes=len(BODY)
    )
    services.upload_append(upload=upload, offset=0, chunk=[BODY])
    return upload


def killed_before_write(number, upload):
    """Finish the upload in a process that is killed before this write; whether it came so far."""
    executioner = Executioner(cuts=False)
    with connection.execute_wrapper(executioner):
        executioner.arm(number)
        try:
            services.upload_finish(upload=upload)
            return False
        except Killed:
            return True
        finally:
            executioner.disarm()
            connection.close()


@pytest.mark.django_db(transaction=True)
def test_a_kill_while_an_upload_is_finished_leaves_no_second_dataset(people, tasks_sent):
    for number in itertools.count(1):
        upload = whole_upload(people)
        was_killed = killed_before_write(number, upload)
        again = uploads.upload_get(user=people.owner, upload_id=upload.pk)
        made = services.upload_finish(upload=again)
        assert list(Dataset.objects.all()) == [made], f"killed before write {number}"
        assert Upload.objects.get().dataset == made
        Upload.objects.all().delete()
        Dataset.objects.all().delete()
        if not was_killed:
            break
    assert number > 3


@pytest.mark.django_db(transaction=True)
def test_a_kill_while_an_upload_begins_anew_leaves_no_offset_without_its_bytes(people):
    upload = whole_upload(people)
    executioner = Executioner(cuts=False)
    with connection.execute_wrapper(executioner):
        executioner.arm(1)
        with pytest.raises(Killed):
            uploads.upload_restart(upload=uploads.upload_get(user=people.owner, upload_id=upload.pk))
        executioner.disarm()
    connection.close()
    kept = uploads.upload_get(user=people.owner, upload_id=upload.pk)
    assert settings.STORE.upload(upload.pk).stat().st_size == kept.offset_bytes == len(BODY)
    uploads.upload_restart(upload=kept, filename="other.csv")
    assert settings.STORE.upload(upload.pk).stat().st_size == kept.offset_bytes == 0
