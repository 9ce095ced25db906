"""Accounts that are deleted while others take the same rows: nobody waits for each other for ever, on any database."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest
from django.db import DatabaseError, connection, transaction

from harness.accounts.leaving import user_delete
from harness.accounts.models import User

pytestmark = pytest.mark.django_db(transaction=True)
HELD_S = 0.5


def test_an_admin_is_deleted_while_the_rows_of_all_admins_are_taken_one_after_the_other(
    people: SimpleNamespace,
) -> None:
    User.objects.filter(pk=people.mate.pk).update(is_superuser=True)
    first_pk, last_pk = sorted((people.admin.pk, people.mate.pk))
    last, taken, failed = User.objects.get(pk=last_pk), threading.Event(), list[DatabaseError]()

    def take() -> None:
        try:
            with transaction.atomic():
                User.objects.select_for_update().get(pk=first_pk)
                taken.set()
                threading.Event().wait(HELD_S)
                User.objects.select_for_update().get(pk=last_pk)
        except DatabaseError as error:
            failed.append(error)
        finally:
            taken.set()
            connection.close()

    def delete() -> None:
        taken.wait()
        try:
            user_delete(actor=last, user=last, is_proven=True)
        except DatabaseError as error:
            failed.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=run) for run in (take, delete)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert list(User.objects.filter(is_superuser=True, is_active=True).values_list("pk", flat=True)) == [first_pk]
