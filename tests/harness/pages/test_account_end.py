"""Deleting one's own account: by the password, and with a second factor by its code."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from django.test import Client
from django.urls import reverse
from django_otp.oath import totp
from django_otp.plugins.otp_totp.models import TOTPDevice

from harness.accounts.models import Role, User
from harness.accounts.second_factor import key_make
from harness.accounts.services import membership_set

pytestmark = pytest.mark.django_db
PASSWORD = "correct horse battery"


def inside(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def test_it_takes_the_password_and_leads_to_the_sign_in(people: SimpleNamespace) -> None:
    place, mate = reverse("account_end"), inside(people.mate)
    assert place in mate.get(reverse("account")).content.decode()
    page = mate.get(place).content.decode()
    assert 'name="code"' not in page and "deleted person" in page
    wrong = mate.post(place, {"password": "something else"})
    assert wrong.status_code == 422 and "not your password" in wrong.content.decode()
    assert User.objects.filter(username="mate").exists()
    assert mate.post(place, {"password": PASSWORD}).url == reverse("login")
    assert not User.objects.filter(username="mate").exists()
    assert mate.get(reverse("account")).status_code == 302


def test_who_has_a_second_factor_gives_its_code_too(people: SimpleNamespace) -> None:
    device = TOTPDevice.objects.create(user=people.mate, key=key_make(), confirmed=True)
    place, mate = reverse("account_end"), inside(people.mate)
    assert 'name="code"' in mate.get(place).content.decode()
    assert mate.post(place, {"password": PASSWORD}).status_code == 422
    code = f"{totp(device.bin_key):06d}"
    assert mate.post(place, {"password": "something else", "code": code}).status_code == 422
    assert User.objects.filter(username="mate").exists()
    assert mate.post(place, {"password": PASSWORD, "code": code}).status_code == 302
    assert not User.objects.filter(username="mate").exists()


def test_the_last_admin_of_a_project_is_told_to_name_another(people: SimpleNamespace) -> None:
    place, owner = reverse("account_end"), inside(people.owner)
    before = owner.get(place)
    assert before.status_code == 200 and "last admin of Birds" in before.content.decode()
    refused = owner.post(place, {"password": PASSWORD})
    assert refused.status_code == 409 and "Birds" in refused.content.decode()
    membership_set(actor=people.owner, project=people.project, user=people.mate, role=Role.ADMIN)
    assert "last admin" not in owner.get(place).content.decode()
    assert owner.post(place, {"password": PASSWORD}).status_code == 302


def test_the_last_admin_of_the_installation_is_told_before_the_password_is_asked_for(people: SimpleNamespace) -> None:
    page = inside(people.admin).get(reverse("account_end"))
    assert page.status_code == 200 and "This is the last admin. Make someone else" in page.content.decode()
    assert "last admin" not in inside(people.mate).get(reverse("account_end")).content.decode()


def test_an_admin_deletes_others_by_the_button_and_not_themselves(people: SimpleNamespace) -> None:
    admin = inside(people.admin)
    place = reverse("user_act", args=["mate", "delete"])
    assert place in admin.get(reverse("project_list")).content.decode()
    assert inside(people.owner).post(place).status_code == 403
    told = admin.post(place, follow=True).content.decode()
    assert "The account of mate is deleted" in told and place not in told
    User.objects.filter(pk=people.owner.pk).update(is_superuser=True)
    admin.post(reverse("user_act", args=["admin", "delete"]))
    assert User.objects.filter(username="admin").exists()


def test_who_has_no_password_here_is_told_who_deletes_the_account(people: SimpleNamespace) -> None:
    people.mate.set_unusable_password()
    people.mate.save()
    place, mate = reverse("account_end"), inside(people.mate)
    page = mate.get(place).content.decode()
    assert "no password" in page and "Ask an admin" in page and 'name="password"' not in page
    assert mate.post(place, {"password": ""}).status_code == 422
    assert User.objects.filter(username="mate").exists()
