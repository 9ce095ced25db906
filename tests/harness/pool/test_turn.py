"""Two schedulers at once: one decides, nothing happens twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import pytest
from django.conf import settings
from django.db import connection, transaction
from django.utils import timezone

from harness.jobs.control import streams
from harness.jobs.control import tick as tick_module
from harness.jobs.control.tick import tick
from harness.jobs.models import Allocation, Job, JobAttempt
from harness.pool import turn as turn_module
from harness.pool.models import SchedulerTurn
from harness.pool.turn import TurnLost, facts_change, turn_again, turn_end, turn_hold, turn_renew, turn_take
from tests.harness.jobs.helpers import queue
from tests.waiting import wait_for

CONTROLS = 3


@pytest.mark.django_db
def test_nobody_has_a_turn_while_no_job_waits_or_runs(job_make, node_make, broker, django_assert_num_queries):
    node_make()
    job = job_make()
    with django_assert_num_queries(1):
        assert tick() == 0
    assert not SchedulerTurn.objects.exists()
    queue(job)
    assert tick() == 1
    assert SchedulerTurn.objects.get().number > 0


@pytest.mark.django_db
def test_only_one_has_the_turn_and_goes_again_for_the_other():
    mine = turn_take()
    assert mine is not None and turn_take() is None
    assert not turn_end(mine)
    again = turn_again(mine)
    assert again is not None and turn_end(again)
    assert turn_take() is not None


@pytest.mark.django_db
def test_an_admission_undoes_what_is_being_decided():
    mine = turn_take()
    with transaction.atomic():
        facts_change()
    with pytest.raises(TurnLost), transaction.atomic():
        turn_hold(mine)
    renewed = turn_again(mine)
    with transaction.atomic():
        turn_hold(renewed)


@pytest.mark.django_db
def test_who_slept_through_his_turn_decides_nothing():
    slow = turn_take()
    SchedulerTurn.objects.update(taken_at=timezone.now() - timedelta(minutes=2))
    other = turn_take()
    assert other is not None
    with pytest.raises(TurnLost), transaction.atomic():
        turn_hold(slow)
    assert turn_again(slow) is None
    assert turn_end(slow)
    with transaction.atomic():
        turn_hold(other)


@pytest.mark.django_db
def test_a_renewed_turn_stays_with_who_has_it():
    mine = turn_take()
    SchedulerTurn.objects.update(taken_at=timezone.now() - timedelta(seconds=20))
    with pytest.raises(TurnLost):
        turn_renew(mine)
    mine = replace(mine, taken_at=SchedulerTurn.objects.get().taken_at)
    renewed = turn_renew(mine)
    assert turn_take() is None
    with transaction.atomic():
        turn_hold(renewed)
    assert turn_again(mine) is None


def test_one_slow_renewal_loses_no_turn_and_no_lease():
    assert turn_module.HANGS_AFTER.total_seconds() >= 4 * turn_module.RENEW_EVERY_S
    assert streams.LEASE_S >= 4 * streams.RENEW_EVERY_S


@pytest.mark.django_db(transaction=True)
def test_a_decision_that_takes_long_keeps_its_turn(job, node_make, tasks_sent, monkeypatch):
    node_make()
    queue(job)
    real, others = tick_module.decide, []

    def slow(*args, **more):
        """Longer than a turn that nobody renews lasts."""
        for _ in range(2):
            before = SchedulerTurn.objects.get().taken_at
            wait_for(lambda before=before: SchedulerTurn.objects.get().taken_at > before)
        others.append(turn_take())
        # Somebody asked for a turn: the next decision need not be slow.
        monkeypatch.setattr(tick_module, "decide", real)
        return real(*args, **more)

    monkeypatch.setattr(turn_module, "RENEW_EVERY_S", 0.02)
    monkeypatch.setattr(tick_module, "decide", slow)
    assert tick() == 1
    assert others == [None]


@pytest.mark.django_db
def test_an_error_gives_the_turn_back(job, node_make, tasks_sent, monkeypatch):
    node_make()
    queue(job)

    def broken(*_, **__):
        raise RuntimeError("a policy's bug")

    with monkeypatch.context() as patch, pytest.raises(RuntimeError):
        patch.setattr(tick_module, "decide", broken)
        tick()
    assert tick() == 1


@pytest.mark.django_db(transaction=True)
def test_control_processes_that_tick_at_once_start_every_job_once(job_make, node_make, tasks_sent, monkeypatch):
    """As many threads as schedulers, each with its own connection; their decisions are made to overlap."""
    node_make(cpus=4)
    for number in range(6):
        queue(job_make(name=f"job {number}"))
    real, deciding, overlaps = tick_module.decide, threading.Lock(), []

    def watched(*args, **more):
        overlaps.append(not deciding.acquire(blocking=False))
        try:
            return real(*args, **more)
        finally:
            if deciding.locked() and not overlaps[-1]:
                deciding.release()

    monkeypatch.setattr(tick_module, "decide", watched)
    barrier, started, problems = threading.Barrier(CONTROLS), [], []

    def control():
        try:
            barrier.wait(180)
            for _ in range(4):
                started.append(tick())
        except Exception as error:
            problems.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=control) for _ in range(CONTROLS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert not problems
    assert not any(overlaps)
    placed = list(Job.objects.filter(state="placed").values_list("pk", flat=True))
    assert sum(started) == len(placed) == JobAttempt.objects.count()
    assert sorted(JobAttempt.objects.values_list("job_id", flat=True)) == sorted(placed)
    held = list(Allocation.objects.values_list("device_id", flat=True))
    assert len(held) == len(set(held)) == 4


@pytest.mark.django_db(transaction=True)
def test_two_control_processes_start_every_job_once_and_never_decide_at_once(job_make, node_make, broker, broker_url):
    """Real processes with their own connections: threads share more than they would."""
    node_make(cpus=4)
    for number in range(6):
        queue(job_make(name=f"job {number}"))
    told = controls(broker_url)
    assert all(each["decided"] for each in told), "one of them never had a turn"
    moments = sorted(span for each in told for span in each["decided"])
    assert all(end_s <= next_s for (_, end_s), (next_s, _) in pairwise(moments))
    placed = list(Job.objects.filter(state="placed").values_list("pk", flat=True))
    assert sum(each["started"] for each in told) == len(placed) == 4
    assert sorted(JobAttempt.objects.values_list("job_id", flat=True)) == sorted(placed)
    assert len(set(Allocation.objects.values_list("device_id", flat=True))) == 4


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("where", ["deciding", "carrying out"])
def test_what_a_control_process_killed_in_a_tick_left_undone_the_other_does_once(
    where, job_make, node_make, broker, broker_url
):
    node_make(cpus=4)
    for number in range(6):
        queue(job_make(name=f"job {number}"))
    doomed = control(broker_url, 1, where)
    try:
        doomed.stdin.write("\n")
        doomed.stdin.flush()
        assert [doomed.stdout.readline() for _ in range(2)] == ["ready\n", "stands\n"]
    finally:
        doomed.kill()
        doomed.wait()
    assert SchedulerTurn.objects.get().busy and not JobAttempt.objects.exists()
    other = control(broker_url, 1)
    try:
        assert json.loads(other.communicate("\n", timeout=240)[0].removeprefix("ready\n"))["started"] == 4
    finally:
        other.kill()
        other.wait()
    assert not SchedulerTurn.objects.get().busy
    placed = list(Job.objects.filter(state="placed").values_list("pk", flat=True))
    assert sorted(JobAttempt.objects.values_list("job_id", flat=True)) == sorted(placed)
    assert len(set(Allocation.objects.values_list("device_id", flat=True))) == len(placed) == 4


def control(broker_url, decisions, *where):
    """A control process that waits for a line."""
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "harness.settings", "DLH_REDIS_URL": broker_url}
    argv = [sys.executable, "-m", "tests.harness.jobs.control_process", str(decisions)]
    argv += [str(connection.settings_dict["NAME"]), *where]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": environment}
    return subprocess.Popen(argv, cwd=settings.BASE_DIR, **pipes)


def controls(broker_url, decisions=4):
    """What two control processes tell that begin at the same moment."""
    processes = [control(broker_url, decisions) for _ in range(2)]
    try:
        assert [process.stdout.readline() for process in processes] == ["ready\n"] * 2
        for process in processes:
            process.stdin.write("\n")
            process.stdin.flush()
        return [json.loads(process.communicate(timeout=240)[0]) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
