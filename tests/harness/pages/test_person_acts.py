"""What an admin is offered beside each person."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from harness.accounts.models import User
from harness.pages.person_acts import person_acts

pytestmark = pytest.mark.django_db
OF_THE_ACTIVE = ["password", "admin", "disable", "delete"]


def acts_on(person: User, people: SimpleNamespace) -> list[str]:
    return [act.action for act in person_acts(person, actor=people.admin)]


def test_nobody_is_offered_anything_beside_themselves(people: SimpleNamespace) -> None:
    assert acts_on(people.admin, people) == []


def test_a_person_is_made_an_admin_or_no_longer_one_as_they_are(people: SimpleNamespace) -> None:
    assert acts_on(people.mate, people) == OF_THE_ACTIVE
    people.mate.is_superuser = True
    assert acts_on(people.mate, people) == ["password", "no-admin", "disable", "delete"]


def test_a_second_factor_is_removed_only_where_there_is_one(people: SimpleNamespace) -> None:
    people.mate.has_second_factor = True
    assert acts_on(people.mate, people) == ["password", "second-factor", *OF_THE_ACTIVE[1:]]
    people.mate.has_second_factor = False
    assert acts_on(people.mate, people) == OF_THE_ACTIVE


def test_who_is_disabled_is_let_in_again_or_deleted_and_nothing_else(people: SimpleNamespace) -> None:
    people.mate.is_active, people.mate.is_superuser, people.mate.has_second_factor = False, True, True
    assert acts_on(people.mate, people) == ["enable", "delete"]


def test_each_button_is_named_after_its_person_and_all_but_letting_in_ask_first(people: SimpleNamespace) -> None:
    people.mate.has_second_factor = True
    people.viewer.is_active, people.outsider.is_superuser = False, True
    acts = [
        (person.username, act)
        for person in (people.mate, people.viewer, people.outsider)
        for act in person_acts(person, actor=people.admin)
    ]
    assert {act.action for _, act in acts} == {
        "password", "second-factor", "admin", "no-admin", "disable", "enable", "delete",
    }  # fmt: skip
    for name, act in acts:
        assert act.label == f"{act.words}: {name}" and "{" not in act.confirm
        assert (name in act.confirm) == (act.action != "enable")
        assert act.words and name not in act.words
