"""A password that somebody else set is changed by its person before anything else is done in a browser."""

from __future__ import annotations

import json
from io import StringIO
from types import SimpleNamespace
from typing import Any

import pytest
from django.core.management import call_command
from django.db.utils import OperationalError
from django.test import Client
from django.urls import reverse
from django_otp.plugins.otp_totp.models import TOTPDevice

from harness.accounts import services
from harness.accounts.models import User
from harness.accounts.second_factor import second_factor_set
from harness.accounts.selectors import project_default
from harness.errors import Invalid
from harness.stack.bootstrap import admin_ensure
from tests.factories import PASSWORD
from tests.harness.accounts.test_second_factor import KEY, code_of

CHANGE = "/account/password/"
OWN = "a passphrase of my own 9"


def is_held(name: str) -> bool:
    return User.objects.get(username=name).must_change_password


@pytest.fixture
def given(people: SimpleNamespace) -> SimpleNamespace:
    """Mate, and the password that an admin made for them."""
    made = services.user_password_reset(actor=people.admin, user=people.mate)
    return SimpleNamespace(user=User.objects.get(username="mate"), password=made)


def sign_in(client: Client, given: SimpleNamespace, to: str = "") -> Any:
    return client.post("/login", {"username": "mate", "password": given.password, "next": to}, follow=True)


def change(client: Client, old: str, new: str = OWN, address: str = CHANGE) -> Any:
    return client.post(address, {"old_password": old, "new_password1": new, "new_password2": new})


def test_who_signs_in_with_a_password_that_somebody_else_set_chooses_their_own_and_goes_on(
    given: SimpleNamespace, client: Client
) -> None:
    page = sign_in(client, given, "/jobs/?state=failed")
    ((address, _),) = page.redirect_chain[-1:]
    text = " ".join(page.content.decode().split())
    assert address == "/account/password/?next=%2Fjobs%2F%3Fstate%3Dfailed"
    assert "Somebody else set the password you signed in with, mate." in text and 'aria-label="Main"' not in text
    done = change(client, given.password, address=address)
    assert done.url == "/jobs/?state=failed" and client.get(done.url).status_code == 200
    assert not is_held("mate") and "Main" in client.get(CHANGE).content.decode()
    assert change(client, OWN, "and yet another one 8").url == reverse("account")  # of one's own accord


def test_until_then_nothing_else_can_be_done_in_that_browser_but_to_sign_out(
    given: SimpleNamespace, client: Client
) -> None:
    sign_in(client, given)
    for address in ("/datasets/", "/account/", "/account/second-factor/", "/login"):
        assert client.get(address, follow=True).redirect_chain[-1][0].startswith(CHANGE)
    refused: Any = client.post(reverse("project_add"), {"name": "mine"})
    assert refused.url == CHANGE and project_default(user=given.user).name != "mine"  # type: ignore[union-attr]
    assert client.get("/jobs/", headers={"HX-Request": "true"}).status_code == 403
    for address in ("/api/v1/me", "/live?topic=jobs"):
        told = client.get(address)
        assert told.status_code == 403 and "Somebody else set your password" in told.content.decode()
    assert client.post("/logout").status_code == 302 and not client.session.get("_auth_user_id")


def test_tokens_work_as_before(given: SimpleNamespace) -> None:
    _, text = services.token_create(user=given.user, name="script")
    assert Client().get("/api/v1/me", headers={"Authorization": f"Bearer {text}"}).status_code == 200


def test_the_same_password_again_and_an_address_elsewhere_lead_nowhere(given: SimpleNamespace, client: Client) -> None:
    sign_in(client, given)
    again = change(client, given.password, given.password)
    assert again.status_code == 200 and "Choose one that only you know." in again.content.decode()
    with pytest.raises(Invalid, match="somebody else set"):
        services.user_update(actor=given.user, user=given.user, password=given.password)
    assert is_held("mate")
    assert change(client, given.password, address=f"{CHANGE}?next=https://elsewhere.example/").url == "/"


def test_the_code_of_a_second_factor_comes_before_the_new_password(given: SimpleNamespace, client: Client) -> None:
    second_factor_set(user=given.user, key=KEY, code=code_of())
    TOTPDevice.objects.update(last_t=-1)
    assert sign_in(client, given, "/jobs/").redirect_chain[-1][0] == "/login/code?next=%2Fjobs%2F"
    assert client.get(CHANGE).status_code == 302
    page: Any = client.post("/login/code?next=%2Fjobs%2F", {"code": code_of()}, follow=True)
    assert page.redirect_chain[-1][0] == "/account/password/?next=%2Fjobs%2F"
    assert change(client, given.password).status_code == 302 and client.get("/jobs/").status_code == 200


def test_a_second_factor_that_is_asked_for_is_set_up_after_the_new_password(
    given: SimpleNamespace, client: Client, settings: Any
) -> None:
    settings.SECOND_FACTOR = "all"
    assert sign_in(client, given).redirect_chain[-1][0] == CHANGE
    assert client.get(reverse("second_factor")).url.startswith(CHANGE)  # type: ignore[attr-defined]
    change(client, given.password)
    assert client.get("/jobs/").url == reverse("second_factor")  # type: ignore[attr-defined]
    assert client.get(reverse("second_factor")).status_code == 200


def test_pages_and_the_api_have_a_password_that_they_made_changed(people: SimpleNamespace, client: Client) -> None:
    client.force_login(people.admin)
    made: Any = client.post("/people/new/", {"username": "ada"})
    assert "ada is asked to choose another one" in " ".join(made.content.decode().split()) and is_held("ada")
    assert client.post(reverse("user_act", args=["owner", "password"])).status_code == 200 and is_held("owner")
    _, text = services.token_create(user=people.admin, name="script", scope="admin")

    def call(method: str, address: str, body: dict[str, Any]) -> Any:
        headers = {"Authorization": f"Bearer {text}"}
        return (
            Client()
            .generic(method, f"/api/v1{address}", json.dumps(body), content_type="application/json", headers=headers)
            .json()
        )

    assert call("POST", "/users", {"username": "bob", "password": PASSWORD})["must_change_password"] and is_held("bob")
    assert call("PATCH", "/users/mate", {"new_password": True})["must_change_password"] and is_held("mate")
    assert not call("PATCH", "/users/viewer", {"email": "viewer@example.org"})["must_change_password"]
    call("PATCH", "/users/admin", {"new_password": True})  # their own, on their own terminal
    assert not is_held("admin")


def test_on_the_machine_the_first_admin_is_told_their_own_and_all_others_change_theirs(db: None) -> None:
    def call(*words: str) -> None:
        call_command("admin_create", *words, stdout=StringIO())

    call("admin")
    call("second")
    assert (is_held("admin"), is_held("second")) == (False, True)
    call("admin", "--reset")
    assert is_held("admin")


@pytest.mark.parametrize("is_own", [True, False])
def test_a_password_in_the_log_of_a_container_is_changed_and_one_on_the_operators_terminal_is_not(
    is_own: bool, db: None
) -> None:
    for new_password in (False, True):
        _, password = admin_ensure(new_password=new_password, is_own=is_own)
        assert password and is_held("admin") is not is_own


def test_a_database_that_is_away_is_told_in_words(
    people: SimpleNamespace, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.force_login(people.mate)

    def away(*_: Any) -> None:
        raise OperationalError from type("Away", (Exception,), {"__module__": "psycopg"})()

    monkeypatch.setattr("harness.pages.signin_wanted._held", away)
    told = [client.get(address) for address in ("/jobs/", "/api/v1/me")]
    assert [answer.status_code for answer in told] == [503, 503]
    assert all("The database does not answer" in answer.content.decode() for answer in told)
