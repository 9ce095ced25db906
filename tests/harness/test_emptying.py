"""What tests that commit leave in the database is gone before the next one, and what migrations made is not."""

import pytest
from django.apps import apps
from django.contrib.auth.models import Permission
from django.contrib.contenttypes.models import ContentType
from django.db import connection

from harness.jobs.models import JobEvent
from tests.database import rows_delete


@pytest.mark.django_db(transaction=True)
def test_all_rows_are_deleted_but_those_of_migrations(job, node_make):
    node_make()
    assert JobEvent.objects.exists()
    kept = [list(model.objects.order_by("pk").values()) for model in (ContentType, Permission)]
    rows_delete(connection)
    left = {model._meta.label for model in apps.get_models(include_auto_created=True) if model._base_manager.exists()}
    assert left == {"contenttypes.ContentType", "auth.Permission"}
    assert [list(model.objects.order_by("pk").values()) for model in (ContentType, Permission)] == kept
