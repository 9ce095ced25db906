"""`dlh notifications`: what the person is told of, from the command line."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest
from django.utils import timezone

from harness.accounts.models import User
from harness.accounts.time_zone import time_zone_of
from harness.client.cli import notifications
from harness.notify.models import Delivery, NotifyChoice
from tests.harness.client.conftest import Dlh

pytestmark = pytest.mark.usefixtures("portal")
URL = "https://hooks.example.org/services/secret"


def test_a_choice_is_shown_and_changed(dlh: Dlh, portal: SimpleNamespace) -> None:
    assert "off" in dlh("notifications").out
    made = dlh("notifications", "set", "--webhook", URL, "--off", "finished", "--off", "storage", "--watch", "birds")
    assert "dlhw_" in made.out and "https://hooks.example.org" in made.out and "services" not in made.out
    found = dlh("notifications", "--json").json
    assert (found["job_finished"], found["job_failed"], found["storage_full"]) == (False, True, False)
    assert found["projects"] == ["birds"]
    dlh("notifications", "set", "--on", "finished", "--unwatch", "birds", "--webhook", "none")
    choice = NotifyChoice.objects.get(user=portal.people.owner)
    assert choice.job_finished and not choice.webhook_url and not choice.projects.exists()


def test_the_time_zone_of_e_mails_is_shown_chosen_and_left_to_the_browser(dlh: Dlh, portal: SimpleNamespace) -> None:
    assert "Times in e-mails" in dlh("notifications").out
    shown = dlh("notifications", "set", "--time-zone", "Asia/Tokyo")
    assert shown.code == 0 and "Asia/Tokyo" in shown.out
    owner = User.objects.get(pk=portal.people.owner.pk)
    assert str(time_zone_of(owner)) == "Asia/Tokyo" and dlh("notifications", "--json").json["time_zone"] == "Asia/Tokyo"
    refused = dlh("notifications", "set", "--off", "failed", "--time-zone", "Asia/Nowhere")
    assert refused.code == 2 and "no time zone" in refused.err
    assert dlh("notifications", "--json").json["job_failed"], "nothing of a refused change is kept"
    assert dlh("notifications", "set", "--time-zone", "none", "--json").json["time_zone"] == ""


def test_what_is_wrong_is_told(dlh: Dlh) -> None:
    assert dlh("notifications", "set", "--on", "everything").code == 2
    refused = dlh("notifications", "set", "--webhook", "https://127.0.0.1/")
    assert refused.code == 2 and "private network" in refused.err
    assert dlh("notifications", "set", "--watch", "elsewhere").code == 3
    assert dlh("notifications", "secret").code == 3
    assert dlh("notifications", "test").code == 2


@pytest.mark.parametrize(("state", "code"), [("delivered", 0), ("failed", 1)])
def test_a_test_ends_as_the_message_did(dlh: Dlh, monkeypatch: pytest.MonkeyPatch, state: str, code: int) -> None:
    dlh("notifications", "set", "--webhook", URL)

    def control(_: float) -> None:
        Delivery.objects.update(state=state, problem="It answered 404." * (code != 0), ended_at=timezone.now())

    monkeypatch.setattr(notifications, "time", SimpleNamespace(sleep=control, monotonic=time.monotonic))
    ended = dlh("notifications", "test")
    assert ended.code == code and state in ended.out and ("404" in ended.out) == bool(code)


def test_a_test_that_nobody_sends_is_no_success(dlh: Dlh, monkeypatch: pytest.MonkeyPatch) -> None:
    dlh("notifications", "set", "--webhook", URL)
    monkeypatch.setattr(notifications, "TEST_WAIT_S", 0.0)
    ended = dlh("notifications", "test", "--json")
    assert ended.code == 1 and ended.json[0]["state"] == "waiting"


def test_a_new_secret_is_printed_alone(dlh: Dlh) -> None:
    dlh("notifications", "set", "--webhook", URL)
    assert dlh("notifications", "secret").out.startswith("dlhw_")


def test_an_admin_gives_an_address(dlh: Dlh, portal: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    assert dlh("people", "email", "mate", "x@example.org").code == 3
    monkeypatch.setenv("DLH_TOKEN", portal.token_of("admin"))
    assert "x@example.org" in dlh("people", "email", "mate", "x@example.org").out
    portal.people.mate.refresh_from_db()
    assert portal.people.mate.email == "x@example.org"
