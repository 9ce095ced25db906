"""People on the page of projects: an admin adds them, ends their access, and gives new passwords."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from harness.accounts.models import User


def test_an_admin_makes_a_person_and_sees_the_password_once(world: SimpleNamespace, client: Client) -> None:
    client.force_login(world.admin)
    page: Any = client.post("/people/new/", {"username": "newcomer", "email": "new@example.org"})
    assert User.objects.get(username="newcomer").email == "new@example.org"
    assert page.status_code == 200 and 'id="new-password"' in page.content.decode()
    assert page["Cache-Control"] == "no-store"
    again = client.post("/people/new/", {"username": "newcomer"})
    assert again.status_code == 409 and "already exists" in again.content.decode()


def test_an_admin_ends_the_access_of_a_person_gives_it_back_and_gives_a_new_password(
    world: SimpleNamespace, client: Client
) -> None:
    inside = Client()
    inside.force_login(world.owner)
    client.force_login(world.admin)
    ended: Any = client.post(reverse("user_act", args=["owner", "disable"]), follow=True)
    assert "owner can no longer sign in" in ended.content.decode() and "disabled" in ended.content.decode()
    assert inside.get("/").status_code == 302
    assert client.post(reverse("user_act", args=["owner", "enable"])).status_code == 302
    assert inside.get("/").status_code == 302  # the browser of before is not let in with them
    inside.force_login(world.owner)
    assert inside.get("/").status_code == 200
    made: Any = client.post(reverse("user_act", args=["owner", "password"]))
    (password,) = re.findall(r'id="new-password">([^<]+)<', made.content.decode())
    assert made["Cache-Control"] == "no-store" and inside.get("/").status_code == 302
    assert Client().login(username="owner", password=password)


def test_an_admin_makes_somebody_an_admin_and_takes_it_back(world: SimpleNamespace, client: Client) -> None:
    client.force_login(world.admin)
    place = reverse("user_act", args=["owner", "admin"])
    assert place in client.get(reverse("project_list")).content.decode()
    told: Any = client.post(place, follow=True)
    assert "owner is an admin of the installation." in told.content.decode()
    world.owner.refresh_from_db()
    assert world.owner.is_superuser and place not in told.content.decode()
    client.post(reverse("user_act", args=["owner", "no-admin"]))
    world.owner.refresh_from_db()
    assert not world.owner.is_superuser and world.owner.is_active


def test_a_member_is_added_by_the_name_in_whatever_case_they_sign_in_with(
    world: SimpleNamespace, client: Client
) -> None:
    client.force_login(world.owner)
    place = reverse("member_set", args=[world.project.slug])
    told: Any = client.post(place, {"username": "OUTSIDER", "role": "viewer"}, follow=True)
    assert "outsider now has the role viewer." in told.content.decode()
    assert world.project.memberships.filter(user__username="outsider").exists()


def test_why_the_role_of_a_member_stays_whose_account_is_disabled_is_not_said_of_a_new_member(
    world: SimpleNamespace, client: Client
) -> None:
    client.force_login(world.owner)
    type(world.member).objects.filter(pk=world.member.pk).update(is_active=False)
    sent = {"username": world.member.username, "role": "viewer"}
    told: Any = client.post(reverse("member_set", args=[world.project.slug]), sent, follow=True)
    page = told.content.decode()
    assert told.redirect_chain and (
        f"The account of {world.member.username}, who is in the project, is disabled: their role stays as it is."
        in page
    )
    assert "There is no user" not in page
    assert world.project.memberships.get(user=world.member).role == "member"


@pytest.mark.parametrize(
    ("who", "said"),
    [
        (
            "member",
            "The account of member, who is in the project, is disabled: their role stays as it is. "
            "An admin of the installation enables it again; meanwhile they can only be removed from the project.",
        ),
        (
            "OUTSIDER",
            "outsider cannot be added: their account is disabled. An admin of the installation enables it again.",
        ),
    ],
)
def test_whoever_adds_somebody_whose_account_is_disabled_is_told_so_where_the_name_was_typed(
    world: SimpleNamespace, client: Client, who: str, said: str
) -> None:
    client.force_login(world.owner)
    type(world.member).objects.filter(username=who.lower()).update(is_active=False)
    before = list(world.project.memberships.values())
    sent = {"username": who, "role": "viewer", "add": "1"}
    answer = client.post(reverse("member_set", args=[world.project.slug]), sent)
    card = answer.content.decode().partition('id="am"')[2].partition("</form>")[0]
    assert answer.status_code == 422 and said in card and f'value="{who}"' in card
    assert "There is no user" not in card and 'name="add"' in card
    assert list(world.project.memberships.values()) == before


def test_the_last_admin_cannot_be_disabled_and_nobody_finds_the_button_for_themselves(
    world: SimpleNamespace, client: Client
) -> None:
    client.force_login(world.admin)
    assert reverse("user_act", args=["admin", "disable"]) not in client.get(reverse("project_list")).content.decode()
    told: Any = client.post(reverse("user_act", args=["admin", "disable"]), follow=True)
    assert "last admin" in told.content.decode()


def test_who_is_no_admin_learns_nothing_of_who_has_an_account(world: SimpleNamespace, client: Client) -> None:
    client.force_login(world.member)
    places = [reverse("member_remove", args=[world.project.slug, name]) for name in ("outsider", "nobody-of-that-name")]
    assert [client.post(place).status_code for place in places] == [403, 403]
    assert world.project.memberships.filter(user=world.member).exists()
    left: Any = client.post(reverse("member_remove", args=[world.project.slug, world.member.username.upper()]))
    assert left.url == reverse("project_list") and not world.project.memberships.filter(user=world.member).exists()
