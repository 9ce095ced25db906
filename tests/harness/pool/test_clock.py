"""A node whose clock is set wrong after it joined: what is sent to it may be out of date before it arrives."""

import pytest

from harness import broker
from harness.jobs.control.reconcile import reconcile
from harness.jobs.control.tick import tick
from harness.jobs.models import Job
from harness.pool import reports, services
from harness.pool.models import Node
from tests.harness.jobs.helpers import queue, run_now
from worker.states import JobState

pytestmark = pytest.mark.django_db
HOUR_S = 3600.0


@pytest.fixture(autouse=True)
def ours(monkeypatch):
    """How far control's own clock is ahead of the broker's: a little, as they are on two machines."""
    off = {"s": 2.0}
    monkeypatch.setattr(reports, "own_clock_ahead_s", lambda: off["s"])
    return off


@pytest.mark.parametrize("ahead_s", [HOUR_S, -HOUR_S, 7.5])
def test_nothing_starts_on_a_node_whose_clock_is_wrong_until_it_is_right(job, node_make, tasks_sent, ahead_s):
    node_make(clock_ahead_s=ahead_s)
    node = Node.objects.get()
    assert (node.state, node.description["clock_off_s"]) == ("drain", round(ahead_s - 2.0, 1))
    queue(job)
    assert tick() == 0
    job.refresh_from_db()
    assert "until the clock there is right" in job.waiting_text and "undrain" not in job.waiting_text
    node_make(clock_ahead_s=2.3)
    node = Node.objects.get()
    assert node.state == "up" and "clock_off_s" not in node.description
    assert tick() == 1


def test_a_broker_whose_clock_is_wrong_keeps_no_node_from_work(node_make, ours):
    ours["s"] = -HOUR_S
    assert node_make(clock_ahead_s=-HOUR_S + 1).state == "up"


def test_a_node_of_an_earlier_release_and_a_broker_that_tells_no_time_keep_nobody_from_work(node_make, ours):
    assert node_make().state == "up"
    ours["s"] = None
    assert node_make(clock_ahead_s=HOUR_S).state == "up"


@pytest.mark.parametrize("who", ["node", "control"])
def test_a_clock_that_was_off_is_so_still_while_nobody_can_tell(job, node_make, tasks_sent, ours, who):
    node_make(clock_ahead_s=HOUR_S)
    ours["s"] = None if who == "control" else 2.0
    node = node_make(clock_ahead_s=None if who == "node" else 2.3)
    assert (node.state, node.description["clock_off_s"]) == ("drain", HOUR_S - 2.0)
    queue(job)
    assert tick() == 0
    ours["s"] = 2.0
    node = node_make(clock_ahead_s=2.3)
    assert node.state == "up" and "clock_off_s" not in node.description


def test_a_clock_that_was_off_is_not_said_to_be_so_once_the_machine_was_started_anew(node_make):
    node_make(clock_ahead_s=HOUR_S)
    node = node_make(clock_ahead_s=None, boot_id="another boot")
    assert node.state == "up" and "clock_off_s" not in node.description


def test_a_node_whose_clock_nobody_can_tell_is_not_said_to_be_off(node_make, ours):
    assert "clock_off_s" not in node_make(clock_ahead_s=None).description
    node_make(clock_ahead_s=HOUR_S)
    assert node_make().state == "up", "an agent of an earlier release never tells"


def test_an_admin_cannot_give_work_to_a_wrong_clock_and_what_he_drained_stays_so(node_make, people, tasks_sent):
    node_make(clock_ahead_s=HOUR_S)
    assert services.node_undrain(user=people.admin, name="node-1").state == "drain"
    services.node_drain(user=people.admin, name="node-1")
    assert node_make(clock_ahead_s=2.0).state == "drain"
    assert services.node_undrain(user=people.admin, name="node-1").state == "up"


def test_a_run_on_such_a_node_is_told_to_stop_however_late_it_is_there(job, node_make, tasks_sent, monkeypatch):
    node_make()
    run_now(job)
    Job.objects.update(state=JobState.CANCELLING)
    node_make(clock_ahead_s=HOUR_S, running=[{"job_id": job.pk, "token": 1}, {"job_id": "gone", "token": 3}])
    told = []

    class Sender:
        def send_task(self, name, args, queue, expires=None):
            told.append((name, args[:3], expires))

    monkeypatch.setattr(broker, "sender", lambda: Sender())
    reconcile()
    assert [line for line in told if line[0] == "node.stop"] == [
        ("node.stop", [job.pk, 1, "cancel"], None),
        ("node.stop", ["gone", 3, "cancel"], None),
    ]


@pytest.mark.parametrize(("ahead_s", "words"), [(HOUR_S, "ahead of"), (-HOUR_S, "behind")])
def test_the_pool_page_says_so(node_make, people, client, ahead_s, words):
    node_make(clock_ahead_s=ahead_s)
    client.force_login(people.admin)
    page = client.get("/pool/").content.decode()
    assert f"{words} the portal" in page and "timedatectl set-ntp true" in page
    assert "Accept jobs again" not in page
