from __future__ import annotations

import pytest
from django.utils import timezone

from harness.accounts.models import Project
from harness.accounts.services import token_create
from harness.errors import Conflict, Forbidden, Invalid, NotFound, TooMany
from harness.notify.models import Delivery, NotifyChoice
from harness.notify.selectors import choice_get, delivery_list, projects_watched
from harness.notify.services import (
    TESTS_MAX,
    choice_update,
    delivery_test,
    email_obstacle,
    webhook_origin,
    webhook_secret,
    webhook_secret_renew,
)

pytestmark = pytest.mark.django_db
URL = "https://hooks.example.org/services/T0/B0/secret"


def choose(user, **changes):
    return choice_update(user=user, changes=changes)


def test_nobody_is_told_anything_before_they_choose(people):
    choice = choice_get(user=people.owner)
    assert not choice.by_email and not choice.webhook_url and not NotifyChoice.objects.exists()


def test_a_new_webhook_gets_a_secret_that_is_told_once_and_stored_nowhere(people):
    secret = choose(people.owner, webhook_url=URL)[1]
    assert secret.startswith("dlhw_") and len(secret) > 40
    assert choose(people.owner, webhook_url=URL, job_failed=False)[1] == ""
    stored = NotifyChoice.objects.values().get()
    assert secret not in str(stored) and stored["webhook_url"] == URL and not stored["job_failed"]
    assert webhook_secret(choice_get(user=people.owner)) == secret
    other = choose(people.owner, webhook_url=URL + "2")[1]
    renewed = webhook_secret_renew(user=people.owner)
    assert len({secret, other, renewed}) == 3 and webhook_secret(choice_get(user=people.owner)) == renewed
    assert choose(people.owner, webhook_url="")[0].webhook_url == ""
    with pytest.raises(NotFound):
        webhook_secret_renew(user=people.owner)


def test_two_people_with_one_address_have_two_secrets(people):
    assert choose(people.owner, webhook_url=URL)[1] != choose(people.mate, webhook_url=URL)[1]


def test_what_may_be_secret_in_an_address_is_not_shown(people):
    assert webhook_origin(choose(people.owner, webhook_url=URL)[0]) == "https://hooks.example.org"


@pytest.mark.parametrize(
    "url",
    ["http://hooks.example.org/", "https://127.0.0.1/", "https://[::ffff:10.0.0.1]/", "https://a:b@c.example/", "x"],
)
def test_an_address_that_is_none_is_refused_and_nothing_changes(people, url):
    with pytest.raises(Invalid) as caught:
        choose(people.owner, webhook_url=url, job_failed=False)
    assert caught.value.field == "webhook_url" and not NotifyChoice.objects.exists()


def test_email_needs_a_mail_server_and_an_address(people, mails, settings):
    assert email_obstacle(people.owner) == "" and choose(people.owner, by_email=True)[0].by_email
    people.owner.email = ""
    with pytest.raises(Invalid, match="no e-mail address"):
        choose(people.owner, by_email=True)
    settings.SMTP = None
    assert "does not send e-mail" in email_obstacle(people.mate)
    assert not choose(people.owner, by_email=False)[0].by_email


def test_only_projects_that_one_sees_can_be_watched(people):
    choose(people.viewer, projects=["birds"])
    assert [project.slug for project in projects_watched(user=people.viewer)] == ["birds"]
    with pytest.raises(NotFound, match="elsewhere"):
        choose(people.viewer, projects=["birds", "elsewhere"])
    choose(people.viewer, projects=[])
    assert not projects_watched(user=people.viewer)


def test_a_project_that_comes_back_from_the_trash_is_watched_as_before(people):
    choose(people.viewer, projects=["birds"])
    Project.objects.filter(slug="birds").update(deleted_at=timezone.now())
    choose(people.viewer, projects=[])
    assert not projects_watched(user=people.viewer)
    Project.objects.update(deleted_at=None)
    assert [project.slug for project in projects_watched(user=people.viewer)] == ["birds"]


def test_tokens_that_may_less_change_nothing_and_a_bound_one_sees_nothing(people, bound):
    choose(people.owner, webhook_url=URL)
    for scope, project in (("read", None), ("write", people.project)):
        user = bound(people.owner, scope, project)
        for act in (lambda: choose(user, webhook_url=""), lambda: webhook_secret_renew(user=user)):  # noqa: B023
            with pytest.raises(Forbidden):
                act()
        with pytest.raises(Forbidden):
            delivery_test(user=user)
    for look in (choice_get, delivery_list, projects_watched):
        with pytest.raises(Forbidden):
            look(user=bound(people.owner, "write", people.project))
    assert choice_get(user=bound(people.owner, "read", None)).webhook_url == URL


@pytest.fixture
def bound():
    from harness.accounts.selectors import token_find

    return lambda user, scope, project: (
        token_find(token_create(user=user, name="x", scope=scope, project=project)[1]).user
    )


def test_a_test_goes_by_each_channel_that_is_on(people, mails):
    with pytest.raises(Conflict):
        delivery_test(user=people.owner)
    choose(people.owner, webhook_url=URL)
    assert [row.channel for row in delivery_test(user=people.owner)] == ["webhook"]
    choose(people.owner, by_email=True)
    assert [row.channel for row in delivery_test(user=people.owner)] == ["email", "webhook"]
    assert not delivery_list(user=people.mate) and len(delivery_list(user=people.owner)) == 3


def test_tests_are_few(people):
    choose(people.owner, webhook_url=URL)
    for _ in range(TESTS_MAX):
        delivery_test(user=people.owner)
    with pytest.raises(TooMany):
        delivery_test(user=people.owner)
    assert Delivery.objects.count() == TESTS_MAX
