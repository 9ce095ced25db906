"""The time zone of a person: chosen, else their browser's, else UTC."""

from __future__ import annotations

from datetime import UTC
from types import SimpleNamespace
from zoneinfo import ZoneInfo

import pytest
from django.test import Client

from harness.accounts import time_zone
from harness.accounts.models import User
from harness.errors import Invalid

BROWSER, CHOICE = "/account/time-zone/browser/", "/account/time-zone/"


def told(name: str = "mate") -> str:
    return str(time_zone.time_zone_of(User.objects.get(username=name)))


@pytest.fixture
def mate(people: SimpleNamespace, client: Client) -> Client:
    client.force_login(people.mate)
    return client


def test_it_is_the_chosen_one_else_that_of_the_browser_else_utc(mate: Client) -> None:
    assert told() == "UTC"
    assert mate.post(BROWSER, {"name": "America/New_York"}).status_code == 204 and told() == "America/New_York"
    assert mate.post(CHOICE, {"time_zone": "Europe/Berlin"}).status_code == 302 and told() == "Europe/Berlin"
    mate.post(BROWSER, {"name": "Asia/Tokyo"})
    assert told() == "Europe/Berlin"
    mate.post(CHOICE, {"time_zone": ""})
    assert told() == "Asia/Tokyo" and told("owner") == "UTC"


@pytest.mark.parametrize("name", ["", "Europe/Nowhere", "../../etc/passwd", "localtime", "Factory", "x" * 999])
def test_what_is_no_time_zone_is_refused(name: str, people: SimpleNamespace, mate: Client) -> None:
    assert mate.post(BROWSER, {"name": name}).status_code == 422
    if name:
        with pytest.raises(Invalid, match="There is no time zone"):
            time_zone.time_zone_choose(user=people.mate, name=name)
        answer = mate.post(CHOICE, {"time_zone": name}, follow=True)
        assert "There is no time zone" in answer.content.decode()
    assert told() == "UTC"


def test_nobody_sets_it_unseen(people: SimpleNamespace) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(people.mate)
    assert strict.post(BROWSER, {"name": "Asia/Tokyo"}).status_code == 403
    assert Client().post(BROWSER, {"name": "Asia/Tokyo"}).status_code == 302 and told() == "UTC"


def test_a_name_that_browsers_keep_is_known_by_that_of_today(mate: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    known = time_zone.zones_known()
    monkeypatch.setattr(time_zone, "zones_known", lambda: known - {"Asia/Calcutta"})
    assert mate.post(BROWSER, {"name": "Asia/Calcutta"}).status_code == 204 and told() == "Asia/Kolkata"
    page = mate.get("/account/").content.decode()
    assert 'data-browser-zone="Asia/Calcutta"' in page and "As my browser (Asia/Kolkata)" in page


def test_every_name_to_choose_from_is_a_zone_and_stands_there_once() -> None:
    names = [name for group in time_zone.zones_by_region().values() for name in group]
    assert len(names) == len(set(names)) > 300 and "Asia/Kolkata" in names and "Asia/Calcutta" not in names
    assert all(ZoneInfo(name) for name in names)


def test_a_zone_that_this_machine_does_not_know_is_utc(people: SimpleNamespace) -> None:
    for name in ("Moon/Tranquillity", "/etc", "../x"):
        assert time_zone.time_zone_of(User(time_zone=name)) is UTC
