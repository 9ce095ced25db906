"""Guessing a password is slowed, and nobody else is locked out by it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from harness.accounts.models import SignInFailure, User
from harness.accounts.signin import (
    TRIES_FROM_ADDRESS,
    TRIES_PER_ADDRESS,
    TRIES_PER_NAME,
    WINDOW,
    signin_failed,
    signin_wait,
)

RIGHT = "a long passphrase 7"


@pytest.fixture
def ann(db: None) -> User:
    return User.objects.create_user("ann", password=RIGHT)


def sign_in(client: Client, password: str, address: str = "10.0.0.1", name: str = "ann") -> int:
    return client.post("/login", {"username": name, "password": password}, REMOTE_ADDR=address).status_code


def test_after_too_many_refusals_even_the_right_password_must_wait(ann: User, client: Client) -> None:
    assert {sign_in(client, f"guess {number}") for number in range(TRIES_PER_ADDRESS)} == {200}
    assert sign_in(client, RIGHT) == 429
    page = client.post("/login", {"username": "ANN", "password": RIGHT}, REMOTE_ADDR="10.0.0.1").content.decode()
    assert "Too many wrong attempts" in page and "15 min" in page


def test_a_form_without_a_password_forgets_no_guess(ann: User, client: Client) -> None:
    for number in range(TRIES_PER_ADDRESS):
        sign_in(client, f"guess {number}")
        sign_in(client, "")
    assert sign_in(client, RIGHT) == 429


@pytest.mark.parametrize(("kept", "typed"), [("Anna", "anna"), ("anna", "ANNA"), ("Änne", "änne")])
def test_a_name_is_known_in_whatever_case_it_is_typed(kept: str, typed: str, db: None, client: Client) -> None:
    user = User.objects.create_user(kept, password=RIGHT)
    assert sign_in(client, RIGHT.upper(), name=typed) == 200
    assert sign_in(client, RIGHT, name=typed) == 302
    assert client.session["_auth_user_id"] == str(user.pk)


def test_of_two_names_that_differ_in_case_alone_each_is_its_own_and_no_third_spelling_is_either(
    ann: User, client: Client
) -> None:
    other = User.objects.create_user("Ann", password=f"{RIGHT} too")
    assert sign_in(client, RIGHT, name="ANN") == 200
    assert sign_in(client, RIGHT, name="Ann") == 200
    assert sign_in(client, f"{RIGHT} too", name="Ann") == 302
    assert client.session["_auth_user_id"] == str(other.pk)


def test_guesses_at_one_name_count_together_however_it_is_written(ann: User, client: Client) -> None:
    for number in range(TRIES_PER_ADDRESS):
        sign_in(client, f"guess {number}", name=("ann", "Ann", "ANN")[number % 3])
    assert sign_in(client, RIGHT, name="aNN") == 429


def test_a_name_is_looked_up_alike_whether_there_is_such_a_user_or_not(
    ann: User, client: Client, django_assert_num_queries: Any
) -> None:
    with CaptureQueriesContext(connection) as known:
        sign_in(client, "wrong", name="ANN")
    with django_assert_num_queries(len(known)):
        sign_in(client, "wrong", name="bob")


def test_other_addresses_and_other_names_may_still_try(ann: User, client: Client) -> None:
    for number in range(TRIES_PER_ADDRESS):
        sign_in(client, f"guess {number}")
    assert sign_in(client, "wrong", name="bob") == 200
    assert sign_in(client, RIGHT, address="10.0.0.2") == 302


def test_one_password_tried_on_many_names_waits_too(ann: User, client: Client) -> None:
    for number in range(TRIES_FROM_ADDRESS):
        signin_failed(name=f"person {number}", address="10.0.0.1")
    assert sign_in(client, RIGHT) == 429
    assert sign_in(client, RIGHT, address="10.0.0.2") == 302


def test_one_name_guessed_from_many_addresses_waits_too(ann: User) -> None:
    for number in range(TRIES_PER_NAME):
        signin_failed(name="ann", address=f"10.0.1.{number}")
    assert signin_wait(name="ann", address="10.9.9.9") is not None


def test_a_success_forgets_the_refusals_and_time_does_too(ann: User, client: Client) -> None:
    for number in range(TRIES_PER_ADDRESS - 1):
        sign_in(client, f"guess {number}")
    assert sign_in(client, RIGHT) == 302
    assert not SignInFailure.objects.exists()
    for _ in range(TRIES_PER_ADDRESS):
        signin_failed(name="ann", address="10.0.0.1")
    SignInFailure.objects.update(at=timezone.now() - WINDOW - timedelta(seconds=1))
    assert signin_wait(name="ann", address="10.0.0.1") is None
    signin_failed(name="ann", address="10.0.0.1")
    assert SignInFailure.objects.count() == 1


def test_the_addresses_of_one_ipv6_network_count_as_one(ann: User, client: Client) -> None:
    for number in range(TRIES_PER_ADDRESS):
        sign_in(client, "wrong", address=f"2001:db8:1:2:{number:x}::{number:x}")
    assert sign_in(client, RIGHT, address="2001:db8:1:2:ffff::1") == 429
    assert sign_in(client, RIGHT, address="2001:db8:1:3::1") == 302


def test_many_names_tried_from_one_ipv6_network_wait_too(ann: User, client: Client) -> None:
    for number in range(TRIES_FROM_ADDRESS):
        signin_failed(name=f"person {number}", address=f"2001:db8::{number:x}")
    assert sign_in(client, RIGHT, address="2001:db8::ffff") == 429


def test_a_success_forgets_the_refusals_of_its_ipv6_network(ann: User, client: Client) -> None:
    sign_in(client, "wrong", address="2001:db8::1")
    assert sign_in(client, RIGHT, address="2001:db8::2") == 302
    assert not SignInFailure.objects.exists()


def test_an_ipv4_address_written_as_ipv6_counts_as_itself(ann: User, client: Client) -> None:
    for _ in range(TRIES_PER_ADDRESS):
        sign_in(client, "wrong", address="::ffff:10.0.0.1")
    assert sign_in(client, RIGHT, address="10.0.0.1") == 429
    assert sign_in(client, RIGHT, address="::ffff:10.0.0.2") == 302


def change_password(client: Client, old: str, address: str = "10.0.0.1") -> str:
    body = {"old_password": old, "new_password1": "another passphrase 8", "new_password2": "another passphrase 8"}
    return client.post("/account/password/", body, REMOTE_ADDR=address).content.decode()


def test_old_passwords_guessed_in_an_open_browser_wait_too(ann: User, client: Client) -> None:
    client.force_login(ann)
    for number in range(TRIES_PER_ADDRESS):
        assert "That is not your password." in change_password(client, f"guess {number}")
    assert "Too many wrong attempts" in change_password(client, RIGHT)
    ann.refresh_from_db()
    assert ann.check_password(RIGHT)
    assert sign_in(Client(), RIGHT) == 429
    change_password(client, RIGHT, address="10.0.0.2")
    ann.refresh_from_db()
    assert ann.check_password("another passphrase 8")


def from_proxy(client: Client, password: str, forwarded: str) -> int:
    body = {"username": "ann", "password": password}
    answer = client.post("/login", body, REMOTE_ADDR="127.0.0.1", headers={"X-Forwarded-For": forwarded})
    return answer.status_code


def test_without_a_proxy_nobody_gets_new_tries_by_claiming_an_address(ann: User, client: Client) -> None:
    for number in range(TRIES_PER_ADDRESS):
        from_proxy(client, "wrong", f"10.0.0.{number}")
    assert from_proxy(client, RIGHT, "10.0.0.99") == 429


def test_behind_a_proxy_its_word_counts_and_not_the_clients(ann: User, client: Client, settings: Any) -> None:
    settings.BEHIND_PROXY = True
    for number in range(TRIES_PER_ADDRESS):
        from_proxy(client, "wrong", f"10.0.0.{number}, 192.0.2.7")
    assert from_proxy(client, RIGHT, "10.0.0.99, 192.0.2.7") == 429
    assert from_proxy(client, RIGHT, "192.0.2.8") == 302


@pytest.mark.parametrize("peer", ["192.0.2.7:{}", "[2001:db8::7]:{}"])
def test_a_proxy_that_writes_the_port_behind_the_address_makes_no_new_place_of_each_connection(
    peer: str, ann: User, client: Client, settings: Any
) -> None:
    settings.BEHIND_PROXY = True
    for number in range(TRIES_PER_ADDRESS):
        from_proxy(client, "wrong", peer.format(50_000 + number))
    assert from_proxy(client, RIGHT, peer.format(60_000)) == 429
