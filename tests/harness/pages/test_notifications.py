"""The page Notifications: choose, test, see what became of it."""

from __future__ import annotations

import re
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from harness.notify.models import Delivery, NotifyChoice

URL = "https://hooks.example.org/services/secret"


def save(client: Client, **body: Any) -> Any:
    return client.post(reverse("notifications_save"), body, follow=True)


def text(client: Client, **headers: str) -> str:
    return client.get(reverse("notifications"), headers=headers).content.decode()


def test_a_webhook_is_saved_and_its_secret_shown_once(owner: Client, world: SimpleNamespace) -> None:
    page = save(owner, webhook_url=URL, job_failed="on", projects=["orchard"])
    (secret,) = re.findall(r'id="webhook-secret">([^<]+)<', page.content.decode())
    assert secret.startswith("dlhw_") and page["Cache-Control"] == "no-store"
    again = text(owner)
    assert secret not in again and URL in again and "Create a new webhook secret" in again
    choice = NotifyChoice.objects.get(user=world.owner)
    assert choice.job_failed and not choice.job_finished and choice.projects.count() == 1
    renewed: Any = owner.post(reverse("notifications_secret"))
    assert secret not in renewed.content.decode() and 'id="webhook-secret"' in renewed.content.decode()
    save(owner)
    assert not NotifyChoice.objects.get(user=world.owner).webhook_url and "Send a test" not in text(owner)


def test_a_wrong_address_comes_back_with_the_reason_beside_it(owner: Client) -> None:
    page = save(owner, webhook_url="https://192.168.1.1/", job_failed="on")
    assert page.status_code == 422 and "private network" in page.content.decode()
    assert "https://192.168.1.1/" in page.content.decode() and not NotifyChoice.objects.filter(job_failed=True)


def test_email_without_a_mail_server_cannot_be_chosen_and_says_why(owner: Client, world: SimpleNamespace) -> None:
    assert "This installation does not send e-mail" in text(owner)
    save(owner, by_email="on", job_failed="on")
    assert not NotifyChoice.objects.get(user=world.owner).by_email


def test_projects_of_others_are_neither_offered_nor_taken(world: SimpleNamespace, client: Client) -> None:
    client.force_login(world.outsider)
    assert "orchard" not in text(client)
    assert save(client, projects=["orchard"]).status_code == 422


def test_a_test_is_on_its_way_and_the_page_asks_until_it_has_ended(owner: Client, world: SimpleNamespace) -> None:
    save(owner, webhook_url=URL)
    told: Any = owner.post(reverse("notifications_test"), follow=True)
    assert "A test is on its way" in told.content.decode() and "hx-trigger" in text(owner, HX_Request="true")
    Delivery.objects.update(due_at=timezone.now() + timedelta(minutes=2), problem="It answered 503.")
    later = text(owner, HX_Request="true")
    assert "Next try" in later and "hx-trigger" not in later
    Delivery.objects.update(state="failed", problem="It answered 404.", ended_at=timezone.now())
    part = text(owner, HX_Request="true")
    assert "It answered 404." in part and "hx-trigger" not in part and "<html" not in part


def test_names_in_messages_stay_text_and_others_see_none_of_them(
    owner: Client, world: SimpleNamespace, client: Client
) -> None:
    Delivery.objects.create(
        user=world.owner, project=world.project, channel="webhook", kind="job_failed", about="x",
        body={"title": "<script>x</script> failed", "url": "/jobs/x/"}, due_at=timezone.now(), problem="<b>",
    )  # fmt: skip
    assert "&lt;script&gt;x" in text(owner) and "<script>x" not in text(owner)
    client.force_login(world.admin)
    assert "script&gt;x" not in text(client)


@pytest.mark.parametrize("name", ["notifications_save", "notifications_secret", "notifications_test"])
def test_nothing_is_changed_by_looking(owner: Client, name: str) -> None:
    owner.post(reverse("notifications_save"), {"job_failed": "on", "webhook_url": "https://hook.example/x"})
    before = (list(NotifyChoice.objects.values()), Delivery.objects.count())
    assert owner.get(reverse(name)).status_code == (405 if name == "notifications_test" else 302)
    assert (list(NotifyChoice.objects.values()), Delivery.objects.count()) == before and before[0]
