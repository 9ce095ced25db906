"""Who may do what with a job: outsiders, viewers, mates, owners, admins, tokens."""

from __future__ import annotations

import pytest

from harness.accounts.models import Scope
from harness.accounts.selectors import token_find
from harness.accounts.services import token_create
from harness.errors import Forbidden, NotFound
from harness.jobs import selectors, services
from harness.rates.submitting import job_submit

pytestmark = pytest.mark.django_db

WRITES = {
    "spec_update": lambda user, job: services.job_spec_update(user=user, job=job, spec={}),
    "file_write": lambda user, job: services.program_file_write(user=user, job=job, name="model.py", text="x = 1\n"),
    "reset": lambda user, job: services.program_reset(user=user, job=job),
    "submit": lambda user, job: job_submit(user=user, job=job),
    "cancel": lambda user, job: services.job_cancel(user=user, job=job),
    "clone": lambda user, job: services.job_clone(user=user, job=job),
    "update": lambda user, job: services.job_update(user=user, job=job, notes="x"),
    "restore": lambda user, job: services.job_restore(user=user, job=job),
}


@pytest.mark.parametrize("name", WRITES)
def test_outsiders_get_not_found_viewers_forbidden_and_mates_may(name, job, people):
    write = WRITES[name]
    with pytest.raises(NotFound):
        write(people.outsider, job)
    with pytest.raises(Forbidden):
        write(people.viewer, job)
    write(people.mate, job)


@pytest.mark.parametrize("name", ["pause", "resume", "delete", "predict", "check"])
def test_outsiders_and_viewers_are_kept_from_the_rest(name, job, people):
    write = {
        "pause": lambda user: services.job_pause(user=user, job=job),
        "resume": lambda user: services.job_resume(user=user, job=job),
        "delete": lambda user: services.job_delete(user=user, job=job),
        "predict": lambda user: services.prediction_create(user=user, job=job, input_name="a.csv", data=b"a\n1\n"),
        "check": lambda user: services.program_check(user=user, job=job),
    }[name]
    with pytest.raises(NotFound):
        write(people.outsider)
    with pytest.raises(Forbidden):
        write(people.viewer)


def test_only_the_owner_or_an_admin_deletes(job, people):
    with pytest.raises(Forbidden):
        services.job_delete(user=people.mate, job=job)
    services.job_delete(user=people.owner, job=job)
    assert job.deleted_at
    services.job_restore(user=people.mate, job=job)
    assert job.deleted_at is None


def test_reading_is_for_members_only(job, people):
    assert selectors.job_get(user=people.viewer, job_id=job.pk) == job
    for stranger in (people.outsider,):
        with pytest.raises(NotFound):
            selectors.job_get(user=stranger, job_id=job.pk)
        assert selectors.job_list(user=stranger).total == 0


def test_a_read_token_reads_only(job, people):
    _, text = token_create(user=people.owner, name="t", scope=Scope.READ)
    user = token_find(text).user
    assert selectors.job_get(user=user, job_id=job.pk) == job
    with pytest.raises(Forbidden):
        job_submit(user=user, job=job)
