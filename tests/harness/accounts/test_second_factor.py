"""A code of an app, or one kept for a lost phone, after the password."""

from __future__ import annotations

import re
import time
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from django_otp.oath import TOTP
from django_otp.plugins.otp_totp.models import TOTPDevice

from harness.accounts import second_factor as factor
from harness.accounts.models import AuditEvent, RecoveryCode, SignInFailure, User
from harness.accounts.services import token_create, user_update
from harness.accounts.signin import TRIES_PER_ADDRESS
from harness.errors import Conflict, Forbidden, Invalid
from harness.stack.bootstrap import admin_ensure

PASSWORD = "a long passphrase 7"
KEY = "3132333435363738393031323334353637383930"
"""That of RFC 6238's appendix B."""


def code_of(key: str = KEY, at_s: float | None = None) -> str:
    app = TOTP(bytes.fromhex(key))
    app.time = time.time() if at_s is None else at_s
    return f"{app.token():06d}"


@pytest.fixture
def ann(db: None) -> User:
    return User.objects.create_user("ann", password=PASSWORD)


@pytest.fixture
def guarded(ann: User) -> SimpleNamespace:
    """Ann with an app whose code of this half minute is still unused, and her recovery codes."""
    codes = factor.second_factor_set(user=ann, key=KEY, code=code_of())
    TOTPDevice.objects.update(last_t=-1)
    return SimpleNamespace(user=ann, codes=codes)


def password_given(client: Client, to: str = "") -> Any:
    return client.post(f"/login?next={to}" if to else "/login", {"username": "ann", "password": PASSWORD, "next": to})


def code_given(client: Client, code: str, to: str = "") -> Any:
    return client.post(f"/login/code?next={to}" if to else "/login/code", {"code": code})


def signed_in(client: Client) -> bool:
    return client.get("/account/").status_code == 200


def test_a_wait_of_more_than_a_day_is_told_whole(guarded: SimpleNamespace, client: Client) -> None:
    TOTPDevice.objects.update(throttling_failure_count=18, throttling_failure_timestamp=timezone.now())
    password_given(client)
    assert "accepted again in 36 h " in client.get("/login/code").content.decode()


def test_a_wait_is_never_told_shorter_than_it_is(
    guarded: SimpleNamespace, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    password_given(client)
    for wait, words in ((timedelta(seconds=12.4), "13 s"), (timedelta(hours=5, seconds=20), "5 h 01 min")):
        monkeypatch.setattr("harness.pages.views.second_factor.second_factor_wait", lambda user, wait=wait: wait)
        assert f"accepted again in {words};" in client.get("/login/code").content.decode()


def test_codes_are_those_of_the_standard() -> None:
    assert [code_of(at_s=moment) for moment in (59, 1111111109, 20000000000)] == ["287082", "081804", "353130"]
    assert factor.key_words(KEY) == "GEZD GNBV GY3T QOJQ GEZD GNBV GY3T QOJQ"


def test_the_password_alone_signs_nobody_in_who_has_a_second_factor(guarded: SimpleNamespace, client: Client) -> None:
    assert password_given(client, "/jobs/").url == "/login/code?next=%2Fjobs%2F"
    assert not signed_in(client) and client.get("/api/v1/me").status_code == 401
    assert code_given(client, code_of(), "/jobs/").url == "/jobs/"
    assert signed_in(client) and client.get("/api/v1/me").status_code == 200


def test_a_code_is_good_once(guarded: SimpleNamespace, client: Client) -> None:
    code = code_of()
    password_given(client)
    assert code_given(client, code).status_code == 302
    other = Client()
    password_given(other)
    assert "not accepted" in code_given(other, code).content.decode() and not signed_in(other)


def test_recovery_codes_sign_in_once_each_and_are_kept_as_hashes(guarded: SimpleNamespace, client: Client) -> None:
    first, second = guarded.codes[:2]
    password_given(client)
    assert code_given(client, f" {first.upper()} ").status_code == 302 and signed_in(client)
    other = Client()
    password_given(other)
    assert code_given(other, first).status_code == 200 and not signed_in(other)
    assert code_given(other, second.replace("-", "")).status_code == 302
    assert (
        factor.recovery_codes_left(guarded.user) == 8
        and AuditEvent.objects.filter(action="recovery_code_use").count() == 2
    )
    assert not any(code.replace("-", "") in row.digest for row in RecoveryCode.objects.all() for code in guarded.codes)


def test_a_wrong_code_makes_the_next_ones_wait_but_not_a_recovery_code(
    guarded: SimpleNamespace, client: Client
) -> None:
    password_given(client)
    for _ in range(2):
        TOTPDevice.objects.update(throttling_failure_timestamp=timezone.now() - timezone.timedelta(hours=1))
        assert code_given(client, "000000").status_code == 200
    waits = code_given(client, code_of())
    assert waits.status_code == 429 and "Too many wrong codes" in waits.content.decode() and not signed_in(client)
    assert code_given(client, guarded.codes[0]).status_code == 302
    password_given(other := Client())
    assert code_given(other, code_of()).status_code == 302  # whoever got in proved that it is they


def test_the_password_of_a_half_sign_in_does_not_let_passwords_be_guessed_anew(
    guarded: SimpleNamespace, client: Client
) -> None:
    for _ in range(TRIES_PER_ADDRESS - 1):
        client.post("/login", {"username": "ann", "password": "wrong"})
    password_given(client)
    assert SignInFailure.objects.count() == TRIES_PER_ADDRESS - 1
    code_given(client, code_of())
    assert not SignInFailure.objects.exists()


@pytest.mark.parametrize("undoing", ["time", "password", "disabled"])
def test_half_a_sign_in_ends(
    undoing: str, guarded: SimpleNamespace, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = code_of()
    password_given(client)
    if undoing == "time":
        later = time.time() + 601
        monkeypatch.setattr("harness.pages.views.second_factor.time.time", lambda: later)
    elif undoing == "password":
        user_update(actor=None, user=guarded.user, password="another long passphrase 8")
    else:
        User.objects.filter(pk=guarded.user.pk).update(is_active=False)
    assert code_given(client, code).url == "/login"
    assert client.get("/login/code").url == "/login"  # type: ignore[attr-defined]


def test_no_code_page_without_a_password_and_no_way_to_another_site(guarded: SimpleNamespace, client: Client) -> None:
    assert code_given(client, code_of()).url == "/login"
    password_given(client)
    assert code_given(client, code_of(), "https://elsewhere.example/").url == "/"


def test_the_page_sets_it_up_and_shows_the_recovery_codes_once(ann: User, client: Client) -> None:
    elsewhere = Client()
    elsewhere.force_login(ann)
    assert signed_in(elsewhere)
    client.force_login(ann)
    page = client.get(reverse("second_factor"))
    assert "<svg" in page.content.decode() and page["Cache-Control"] == "no-store"
    key = client.session["second_factor_key"]
    assert factor.key_words(key) in client.get(reverse("second_factor")).content.decode()
    wrong: Any = client.post(reverse("second_factor_add"), {"code": "000000", "password": PASSWORD})
    assert wrong.status_code == 422 and "That code is not valid now" in wrong.content.decode()
    assert not TOTPDevice.objects.exists()
    thief: Any = client.post(reverse("second_factor_add"), {"code": code_of(key), "password": "guess"})
    assert thief.status_code == 422 and "not your password" in thief.content.decode()
    done: Any = client.post(reverse("second_factor_add"), {"code": code_of(key), "password": PASSWORD})
    (shown,) = re.findall(r'id="recovery-codes">([^<]+)<', done.content.decode())
    assert len(shown.split()) == 10 and done["Cache-Control"] == "no-store"
    assert shown.split()[0] not in client.get(reverse("second_factor")).content.decode()
    assert "Second factor: on" in " ".join(client.get("/account/").content.decode().split())
    assert not signed_in(elsewhere)


def test_new_recovery_codes_and_the_removal_ask_for_the_password(guarded: SimpleNamespace, client: Client) -> None:
    client.force_login(guarded.user)
    assert client.post(reverse("recovery_codes"), {"renew-password": "guess"}).status_code == 422
    renewed: Any = client.post(reverse("recovery_codes"), {"renew-password": PASSWORD})
    (shown,) = re.findall(r'id="recovery-codes">([^<]+)<', renewed.content.decode())
    assert not factor.second_factor_verify(user=guarded.user, code=guarded.codes[0])
    assert factor.second_factor_verify(user=guarded.user, code=shown.split()[0])
    assert client.post(reverse("second_factor_end"), {"remove-password": "guess"}).status_code == 422
    assert client.post(reverse("second_factor_end"), {"remove-password": PASSWORD}).status_code == 302
    assert factor.second_factor_get(guarded.user) is None and not RecoveryCode.objects.exists()
    password_given(other := Client())
    assert signed_in(other)


def test_guesses_of_the_password_are_counted_there_too(guarded: SimpleNamespace, client: Client) -> None:
    client.force_login(guarded.user)
    for _ in range(TRIES_PER_ADDRESS):
        client.post(reverse("second_factor_end"), {"remove-password": "guess"})
    told: Any = client.post(reverse("second_factor_end"), {"remove-password": PASSWORD})
    assert told.status_code == 422 and "Too many wrong attempts" in told.content.decode()


def test_what_cannot_be_set_up_is_refused(guarded: SimpleNamespace) -> None:
    with pytest.raises(Conflict):
        factor.second_factor_set(user=guarded.user, key=KEY, code=code_of())
    bob = User.objects.create_user("bob", password=PASSWORD)
    for code in ("", "12345", "abcdef", "1" * 7):
        with pytest.raises(Invalid):
            factor.second_factor_set(user=bob, key=KEY, code=code)
    bob.api_token = token_create(user=bob, name="script")[0]  # type: ignore[attr-defined]
    for change in (
        lambda: factor.second_factor_set(user=bob, key=KEY, code=code_of()),
        lambda: factor.recovery_codes_renew(user=bob),
        lambda: factor.second_factor_remove(actor=bob, user=bob),
        lambda: factor.second_factor_remove(actor=bob, user=guarded.user),
    ):
        with pytest.raises(Forbidden):
            change()


def test_an_admin_removes_a_lost_one_and_others_cannot(guarded: SimpleNamespace, client: Client) -> None:
    boss = User.objects.create_superuser("boss", password=PASSWORD)
    address = reverse("user_act", args=["ann", "second-factor"])
    client.force_login(User.objects.create_user("bob"))
    assert client.post(address).status_code == 403 and factor.second_factor_get(guarded.user)
    client.force_login(boss)
    assert address in client.get(reverse("project_list")).content.decode()
    assert client.post(address).status_code == 302 and factor.second_factor_get(guarded.user) is None
    assert AuditEvent.objects.get(action="second_factor_remove").actor == boss
    assert address not in client.get(reverse("project_list")).content.decode()


@pytest.mark.parametrize(("who", "ann_held", "boss_held"), [("nobody", 0, 0), ("admins", 0, 1), ("all", 1, 1)])
def test_who_should_have_one_gets_no_further_than_to_its_page(
    who: str, ann_held: bool, boss_held: bool, ann: User, client: Client, settings: Any
) -> None:
    settings.SECOND_FACTOR = who
    for user, held in ((ann, ann_held), (User.objects.create_superuser("boss", password=PASSWORD), boss_held)):
        client.force_login(user)
        assert client.get("/jobs/").status_code == (302 if held else 200)
        assert client.get("/api/v1/me").status_code == (403 if held else 200)
        assert client.get("/api/v1/me", headers={"Authorization": "Bearer nonsense"}).status_code == 401
        for no_token in ("Basic nonsense", "nonsense", "Bearer\tnonsense"):  # then the API would take the session
            told = client.get("/api/v1/me", headers={"Authorization": no_token})
            assert told.status_code == (403 if held else 200)
        assert client.get("/jobs/", headers={"HX-Request": "true"}).status_code == (403 if held else 200)
        assert client.get("/jobs/", headers={"Authorization": "Bearer nonsense"}).status_code == (302 if held else 200)
        assert client.get(reverse("second_factor")).status_code == 200
        text = token_create(user=user, name="script")[1]
        assert Client().get("/api/v1/me", headers={"Authorization": f"Bearer {text}"}).status_code == 200


def test_who_sets_it_up_where_it_is_asked_for_goes_on(ann: User, client: Client, settings: Any) -> None:
    settings.SECOND_FACTOR = "all"
    client.force_login(ann)
    assert client.get("/jobs/").url == reverse("second_factor")  # type: ignore[attr-defined]
    client.get(reverse("second_factor"))
    code = code_of(client.session["second_factor_key"])
    assert client.post(reverse("second_factor_add"), {"code": code, "password": PASSWORD}).status_code == 200
    assert client.get("/jobs/").status_code == 200
    TOTPDevice.objects.update(last_t=-1)
    password_given(other := Client())
    code_given(other, code)
    assert other.get("/jobs/").status_code == 200


def test_a_code_that_was_shown_counts_for_no_later_app(guarded: SimpleNamespace, client: Client, settings: Any) -> None:
    settings.SECOND_FACTOR = "all"
    password_given(client)
    code_given(client, guarded.codes[0])
    assert client.get("/jobs/").status_code == 200
    factor.second_factor_remove(actor=None, user=guarded.user)
    assert client.get("/jobs/").url == reverse("second_factor")  # type: ignore[attr-defined]
    factor.second_factor_set(user=guarded.user, key=KEY, code=code_of(), keep_session=client.session.session_key)
    assert client.get("/api/v1/me").status_code == 403
    assert client.get("/jobs/").url == reverse("login")  # type: ignore[attr-defined]
    assert not client.session.get("_auth_user_id")


def test_a_new_password_made_on_the_machine_removes_the_second_factor_of_the_first_admin(db: None) -> None:
    boss = User.objects.create_superuser("boss", password=PASSWORD)
    factor.second_factor_set(user=boss, key=KEY, code=code_of())
    admin_ensure(new_password=False)
    assert factor.second_factor_get(boss)
    user, password = admin_ensure(new_password=True)
    assert Client().login(username=user.username, password=password) and factor.second_factor_get(boss) is None
