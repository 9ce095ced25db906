from __future__ import annotations

import hashlib
import hmac
import json
import threading
import time
from dataclasses import replace
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.utils import timezone

from harness.accounts.models import Membership, User
from harness.celery import app
from harness.env_smtp import Security
from harness.jobs.models import Job
from harness.jobs.states import job_note
from harness.notify import sending
from harness.notify.models import Delivery, NotifyChoice
from harness.notify.services import choice_update, delivery_test, webhook_secret
from tests.harness.notify.test_outbox import finish
from tests.waiting import wait_for

pytestmark = pytest.mark.django_db


def test_control_knows_the_tasks_and_is_woken_for_them_by_its_own_clock():
    app.loader.import_default_modules()
    assert {"control.notify", "control.notify_watch"} <= set(app.tasks)
    assert {"control.notify", "control.notify_watch"} <= {entry["task"] for entry in app.conf.beat_schedule.values()}


def test_a_finished_job_arrives_signed(job, people, told, hooks, send_all):
    choice = told(people.owner)
    finish(job)
    send_all()
    ((_, headers, body),) = hooks.got
    stamp, digest = (part.partition("=")[2] for part in headers["X-DLH-Signature"].split(","))
    key = webhook_secret(choice).encode()
    assert digest == hmac.new(key, stamp.encode() + b"." + body, hashlib.sha256).hexdigest()
    delivery = Delivery.objects.get()
    told_body = json.loads(body)
    assert told_body["id"] == delivery.pk and told_body["text"].endswith(f"/jobs/{job.pk}/")
    assert (delivery.state, delivery.tries, delivery.problem) == ("delivered", 1, "") and delivery.ended_at


def test_an_email_arrives_with_a_link(job, people, told, mails, send_all, hooks):
    told(people.owner, by_email=True, webhook_url="")
    job.name = "flowers\nBcc: x@example.org"
    job.save()
    finish(job)
    send_all()
    (mail,) = mails.got
    assert mail["To"] == "owner@example.org" and mail["From"] == "Harness <harness@example.org>"
    assert mail["Subject"] == "[Birds] flowers Bcc: x@example.org finished" and mail["Bcc"] is None
    assert f"/jobs/{job.pk}/" in mail.get_content() and mail["Message-ID"].startswith(f"<{Delivery.objects.get().pk}@")
    assert hooks.got == []


def test_an_email_gives_times_in_the_zone_of_its_person_and_a_webhook_in_utc(job, people, told, mails, send_all, hooks):
    told(people.owner, by_email=True)
    for days, zone in enumerate(("", "Asia/Kathmandu")):
        User.objects.filter(pk=people.owner.pk).update(browser_time_zone=zone)
        Job.objects.filter(pk=job.pk).update(promised_at=timezone.now() + timedelta(days=days))  # another promise
        with transaction.atomic():
            job_note(job, "note", "It has to start by 2030-01-31 18:00 UTC.", data={"warning": "It may be late."})
        send_all()
    first, second = (mail.get_content() for mail in mails.got)
    assert "by 2030-01-31 18:00 UTC." in first and "by 2030-01-31 23:45 UTC+05:45." in second
    details = [json.loads(body)["detail"] for _, _, body in hooks.got]
    assert [detail.split(". ")[0] for detail in details] == ["It has to start by 2030-01-31 18:00 UTC"] * 2


def test_it_is_tried_again_later_and_with_the_same_id_until_it_arrives(job, people, told, hooks, send_all):
    told(people.owner)
    hooks.statuses = [503, 503]
    finish(job)
    assert sending.delivery_next() and not sending.delivery_next()  # not at once
    delivery = Delivery.objects.get()
    assert (delivery.state, delivery.problem) == ("waiting", "It answered 503.")
    assert delivery.due_at > timezone.now() + timedelta(seconds=20)
    send_all()
    send_all()
    delivery.refresh_from_db()
    assert (delivery.state, delivery.tries, delivery.problem) == ("delivered", 3, "")
    assert len({json.loads(body)["id"] for _, _, body in hooks.got}) == 1 and len(hooks.got) == 3


def test_one_message_that_its_receiver_cannot_take_holds_up_no_other(job, people, told, hooks, send_all):
    told(people.owner)
    finish(job)
    hooks.statuses = [500]
    send_all()
    finish(job)
    finish(job)
    hooks.statuses = [200, 200, 500]
    send_all()
    assert sorted(Delivery.objects.values_list("state", "tries")) == [
        ("delivered", 1),
        ("delivered", 1),
        ("waiting", 2),
    ]


def test_it_is_given_up_after_a_few_tries_and_says_why(job, people, told, hooks, send_all):
    told(people.owner)
    hooks.statuses = [500] * 20
    finish(job)
    for _ in range(10):
        send_all()
    delivery = Delivery.objects.get()
    assert (delivery.state, delivery.tries) == ("failed", len(sending.RETRY_AFTER_S) + 1)
    assert delivery.problem == "It answered 500." and len(hooks.got) == delivery.tries


def test_what_another_try_does_not_help_is_tried_once(job, people, told, hooks, mails, send_all):
    told(people.owner, by_email=True)
    hooks.statuses, mails.recipient_answers = [404], ["550 no such person at 10.0.0.7"]
    finish(job)
    send_all()
    problems = dict(Delivery.objects.filter(state="failed", tries=1).values_list("channel", "problem"))
    assert problems == {"webhook": "It answered 404.", "email": "The mail server refused the address (550)."}


def test_a_mail_server_that_asks_to_wait_or_is_away_is_tried_again(job, people, told, mails, send_all, settings):
    told(people.owner, by_email=True, webhook_url="")
    mails.recipient_answers = ["451 later"]
    finish(job)
    send_all()
    assert Delivery.objects.get().state == "waiting"
    settings.SMTP = replace(settings.SMTP, port=1)
    send_all()
    assert (Delivery.objects.get().state, Delivery.objects.get().problem) == (
        "waiting", "The mail server cannot be reached.",
    )  # fmt: skip


def test_a_mail_server_that_is_slow_to_take_a_message_gets_it_once(job, people, told, mails, send_all, monkeypatch):
    told(people.owner, by_email=True, webhook_url="")
    monkeypatch.setattr("harness.notify.mail.WAIT_S", 1)
    mails.slow_s = 1.5
    finish(job)
    send_all()
    send_all()
    assert (Delivery.objects.get().state, len(mails.got)) == ("delivered", 1)


def test_a_mail_server_that_took_a_message_is_not_waited_for_much_longer(
    job, people, told, mails, send_all, monkeypatch
):
    told(people.owner, by_email=True, webhook_url="")
    monkeypatch.setattr("harness.notify.mail.WAIT_S", 1)
    mails.goodbye_s = 30
    finish(job)
    began_s = time.monotonic()
    send_all()
    assert time.monotonic() - began_s < 15
    assert (Delivery.objects.get().state, len(mails.got)) == ("delivered", 1)


@pytest.mark.parametrize("changed", [{"security": Security.STARTTLS}, {"user": "u", "password": "p"}])
def test_a_mail_server_without_what_is_set_is_told_of_and_gets_no_message(
    job, people, told, mails, send_all, settings, changed
):
    told(people.owner, by_email=True, webhook_url="")
    settings.SMTP = replace(settings.SMTP, **changed)
    finish(job)
    send_all()
    assert (Delivery.objects.get().state, mails.got) == ("failed", [])
    assert "does not offer the security or login" in Delivery.objects.get().problem


def test_whoever_lost_the_right_or_turned_it_off_meanwhile_gets_nothing(job, people, told, hooks, send_all):
    told(people.owner)
    told(people.mate, projects=["birds"])
    finish(job)
    Membership.objects.filter(user=people.mate).delete()
    choice_update(user=people.owner, changes={"webhook_url": ""})
    send_all()
    assert hooks.got == [] and set(Delivery.objects.values_list("state", flat=True)) == {"failed"}
    problems = dict(Delivery.objects.values_list("user__username", "problem"))
    assert "turned off" in problems["owner"] and "no longer visible" in problems["mate"]


def test_what_waited_a_day_is_not_sent_any_more(job, people, told, hooks, send_all):
    told(people.owner)
    finish(job)
    Delivery.objects.update(created_at=timezone.now() - timedelta(hours=25))
    send_all()
    assert hooks.got == [] and Delivery.objects.get().state == "failed"


def test_what_was_being_sent_when_control_died_is_not_sent_twice_and_says_so(job, people, told, hooks, send_all):
    told(people.owner)
    finish(job)
    # A mail server may still take its time.
    Delivery.objects.update(state="sending", tries=1, claimed_at=timezone.now() - timedelta(minutes=7))
    sending.deliveries_tidy()
    send_all()
    assert Delivery.objects.get().state == "sending"
    Delivery.objects.update(claimed_at=timezone.now() - timedelta(hours=1))
    sending.deliveries_tidy()
    send_all()
    delivery = Delivery.objects.get()
    assert delivery.state == "failed" and "interrupted" in delivery.problem and hooks.got == []


def test_old_messages_are_forgotten(job, people, told, send_all):
    told(people.owner)
    finish(job)
    send_all()
    sending.deliveries_tidy()
    assert Delivery.objects.count() == 1
    Delivery.objects.update(ended_at=timezone.now() - timedelta(days=31))
    sending.deliveries_tidy()
    assert not Delivery.objects.exists()


def test_a_test_is_tried_once_and_says_what_came_of_it(people, told, hooks, send_all):
    told(people.owner)
    hooks.statuses = [503]
    delivery_test(user=people.owner)
    send_all()
    assert (Delivery.objects.get().state, Delivery.objects.get().problem) == ("failed", "It answered 503.")


def test_an_unforeseen_fault_ends_that_message_alone(job, people, told, hooks, send_all, monkeypatch):
    told(people.owner)
    told(people.mate, projects=["birds"])
    finish(job)
    Delivery.objects.filter(user=people.owner).update(body={"strange": True})
    send_all()
    assert dict(Delivery.objects.values_list("user__username", "state")) == {"owner": "failed", "mate": "delivered"}


def test_a_signature_with_a_lost_choice_is_never_made(people, told):
    told(people.owner)
    NotifyChoice.objects.all().delete()
    Delivery.objects.create(
        user=people.owner, channel="webhook", kind="test", about="x", body={}, due_at=timezone.now()
    )
    assert sending.delivery_next() and "turned off" in Delivery.objects.get().problem


@pytest.mark.django_db(transaction=True)
def test_a_receiver_that_never_answers_keeps_nobody_else_waiting(job, people, told, hooks, settings):
    from tests.receivers import hooks_running

    told(people.mate, projects=["birds"])
    with hooks_running() as dead:
        dead.silent.set()
        choice_update(user=people.owner, changes={"webhook_url": dead.url})
        finish(job)
        finish(job)
        sending.deliveries_begin()
        wait_for(lambda: len(dead.got) == 1, what="the dead receiver was asked")
        sending.deliveries_begin()
        wait_for(lambda: len(hooks.got) == 2, what="the other receiver has both")
        assert len(dead.got) == 1  # one at a time
        dead.silent.clear()
        wait_for(lambda: len(dead.got) == 2, what="the rest is sent once it answers")
        wait_for(lambda: not _threads_running(), what="the threads have ended")
    assert set(Delivery.objects.values_list("state", flat=True)) == {"delivered"}


@pytest.mark.django_db(transaction=True)
def test_messages_go_on_once_the_machine_has_threads_again(job, people, told, hooks, monkeypatch):
    told(people.owner)
    finish(job)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", _no_thread)
        for _ in range(sending.THREADS + 1):
            with pytest.raises(RuntimeError):
                sending.deliveries_begin()
    sending.deliveries_begin()
    wait_for(lambda: len(hooks.got) == 1, what="it is sent")
    wait_for(lambda: not _threads_running(), what="the thread has ended")


def _no_thread(_):
    raise RuntimeError("can't start new thread")


def _threads_running():
    return [thread for thread in threading.enumerate() if thread.name == "notify"]


@pytest.mark.django_db(transaction=True)
def test_of_many_who_send_at_once_each_message_is_sent_by_one(job, people, told, hooks):
    told(people.owner)
    told(people.mate, projects=["birds"])
    for _ in range(4):
        finish(job)

    def run():
        while sending.delivery_next():
            continue
        connection.close()

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sent = [json.loads(body)["id"] for _, _, body in hooks.got]
    assert len(sent) == len(set(sent)) == 8
