from __future__ import annotations

import threading

import pytest
from django.db import IntegrityError, connection

from harness.jobs.control import tick as tick_module
from harness.jobs.models import Allocation, Job, JobAttempt, JobEvent
from harness.jobs.states import job_move
from tests.harness.jobs.helpers import place_now, queue
from worker.states import JobState


@pytest.mark.django_db
def test_a_move_writes_who_when_from_and_to(job, people):
    assert job_move(job.pk, JobState.DRAFT, JobState.QUEUED, actor=people.owner, message="go") == JobState.DRAFT
    row = JobEvent.objects.get(job=job, kind="state")
    assert (row.old_state, row.new_state, row.actor, row.message) == ("draft", "queued", people.owner, "go")


@pytest.mark.django_db
def test_a_move_from_another_state_changes_nothing(job):
    assert job_move(job.pk, JobState.RUNNING, JobState.SUCCEEDED) is None
    job.refresh_from_db()
    assert job.state == "draft"
    assert not JobEvent.objects.filter(job=job, kind="state").exists()


@pytest.mark.django_db
def test_a_move_that_the_table_lacks_is_a_programming_error(job):
    with pytest.raises(ValueError, match="no job moves from draft to running"):
        job_move(job.pk, JobState.DRAFT, JobState.RUNNING)


@pytest.mark.django_db
def test_a_move_for_an_older_attempt_changes_nothing(job):
    queue(job)
    assert job_move(job.pk, JobState.QUEUED, JobState.PLACED, if_token=7) is None


@pytest.mark.django_db
def test_an_ended_job_has_a_finish_time_and_no_reason_to_wait(job):
    queue(job)
    Job.objects.filter(pk=job.pk).update(waiting_code="x", waiting_text="y")
    job_move(job.pk, JobState.QUEUED, JobState.CANCELLED)
    job.refresh_from_db()
    assert job.finished_at and not job.waiting_code and not job.waiting_text


def in_threads(count, work):
    barrier, answers = threading.Barrier(count), []

    def run():
        barrier.wait()
        try:
            answers.append(work())
        finally:
            connection.close()

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


@pytest.mark.django_db(transaction=True)
def test_of_many_who_move_a_job_at_once_exactly_one_wins(job, tasks_sent):
    answers = in_threads(6, lambda: job_move(job.pk, JobState.DRAFT, JobState.QUEUED))
    assert sorted(answers, key=str) == [None] * 5 + [JobState.DRAFT]
    assert JobEvent.objects.filter(job=job, kind="state").count() == 1


@pytest.mark.django_db(transaction=True)
def test_several_controls_at_once_place_a_job_once_and_a_device_once(job_make, node_make, tasks_sent):
    node_make(cpus=2)
    jobs = [queue(job_make(resources={"device": "cpu", "count": 1})) for _ in range(4)]
    placed = in_threads(4, tick_module.tick)
    assert sum(placed) == 2
    assert JobAttempt.objects.count() == 2
    assert Allocation.objects.values("device").distinct().count() == 2
    states = sorted(Job.objects.filter(pk__in=[job.pk for job in jobs]).values_list("state", flat=True))
    assert states == ["placed", "placed", "queued", "queued"]
    assert sum(name == "node.start" for name, *_ in tasks_sent) == 2


@pytest.mark.django_db
def test_the_database_itself_refuses_to_give_a_device_twice(job, node_make):
    node_make(cpus=1)
    attempt = place_now(job)
    held = Allocation.objects.get()
    with pytest.raises(IntegrityError):
        Allocation.objects.create(device=held.device, job=job, attempt=attempt, rank=1)
