"""Lists of projects to choose from: of thousands a page has the first, and finds the others by name."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest
from django.test import Client

from harness.accounts.models import ApiToken, Membership, Project, Role
from harness.pages.project_options import PROJECTS_SHOWN
from harness.pool.models import Quota
from harness.saved_views.models import SavedView

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("tasks_sent")]

MANY = PROJECTS_SHOWN + 50
LAST = f"zoo-{MANY - 1:03}"


@pytest.fixture
def zoos(people: SimpleNamespace) -> SimpleNamespace:
    """People, the owner being a member of many projects more."""
    rows = [Project(name=f"Zoo {number:03}", slug=f"zoo-{number:03}") for number in range(MANY)]
    for project in Project.objects.bulk_create(rows):
        Membership.objects.create(project=project, user=people.owner, role=Role.MEMBER)
    return people


def client_of(user: object) -> Client:
    client = Client()
    client.force_login(user)  # type: ignore[arg-type]
    return client


def listed(page: str, name: str = "project") -> list[tuple[str, list[str]]]:
    """Of each such list its attributes and the slugs in it."""
    found = re.findall(rf'<select([^>]*name="{name}"[^>]*)>(.*?)</select>', page, re.S)
    return [(attributes, re.findall(r'<option value="([^"]+)"', options)) for attributes, options in found]


@pytest.mark.parametrize("address", ["/jobs/", "/datasets/", "/datasets/upload/", "/account/"])
def test_a_page_has_the_first_of_many_projects_and_says_where_the_others_are_found(
    zoos: SimpleNamespace, address: str
) -> None:
    lists = listed(client_of(zoos.owner).get(address).content.decode())
    assert lists
    for attributes, slugs in lists:
        assert len(slugs) == PROJECTS_SHOWN and LAST not in slugs
        assert re.search(r'data-find-at="/project-names/\?of=(see|add)"', attributes)
        assert f'data-find-in="{MANY + 1}"' in attributes


def test_few_projects_are_all_there(people: SimpleNamespace) -> None:
    ((attributes, slugs),) = listed(client_of(people.owner).get("/datasets/upload/").content.decode())
    assert slugs == ["birds"] and "data-find-at" not in attributes


@pytest.mark.parametrize("address", ["/jobs/", "/datasets/", "/datasets/upload/"])
def test_what_is_chosen_is_in_the_list_wherever_it_stands(zoos: SimpleNamespace, address: str) -> None:
    page = client_of(zoos.owner).get(f"{address}?project={LAST}").content.decode()
    assert re.search(rf'<option value="{LAST}"\s+selected', page)


def test_projects_are_found_by_the_words_of_their_names_and_only_those_of_the_person(zoos: SimpleNamespace) -> None:
    owner = client_of(zoos.owner)
    found = owner.get("/project-names/", {"of": "add", "q": "149 zoo"}).json()
    assert found == {"projects": [[LAST, f"Zoo {MANY - 1}"]]}
    assert len(owner.get("/project-names/?of=see").json()["projects"]) == PROJECTS_SHOWN
    assert client_of(zoos.outsider).get("/project-names/?q=zoo").json() == {"projects": []}
    seen, writable = (
        client_of(zoos.viewer).get(f"/project-names/?of={of}&q=bird").json()["projects"] for of in ("see", "add")
    )
    assert seen == [["birds", "Birds"]] and writable == []
    assert owner.get("/project-names/?of=steal").status_code == 422


def found(user: object, words: str) -> list[list[str]]:
    projects: list[list[str]] = client_of(user).get("/project-names/", {"q": words}).json()["projects"]
    return projects


def joined(user: object, *names: str) -> None:
    """The person is a member of new projects of these names."""
    start = Project.objects.count()
    rows = [Project(name=name, slug=f"p{number}") for number, name in enumerate(names, start)]
    for project in Project.objects.bulk_create(rows):
        Membership.objects.create(project=project, user=user, role=Role.MEMBER)


def test_a_project_that_is_called_just_what_is_typed_comes_before_all_that_hold_it(people: SimpleNamespace) -> None:
    joined(people.owner, *(f"A{number:03} team vision" for number in range(PROJECTS_SHOWN + 20)), "Vision")
    last = Project.objects.get(name="Vision").slug
    for words in ("vision", " VISION ", last):
        assert found(people.owner, words)[0][0] == last, words
    assert len(found(people.owner, "vision")) == PROJECTS_SHOWN


def test_projects_of_one_name_are_told_apart_by_their_slugs(people: SimpleNamespace) -> None:
    joined(people.owner, "Whales", "Whales")
    one, other = sorted(Project.objects.filter(name="Whales").values_list("slug", flat=True))
    told = [[one, f"Whales ({one})"], [other, f"Whales ({other})"]]
    assert sorted(found(people.owner, "whales")) == told
    assert found(people.owner, one) == [told[0]]
    page = client_of(people.owner).get("/datasets/upload/").content.decode()
    assert f"Whales ({one})" in page and f"Whales ({other})" in page and "Birds (birds)" not in page


def test_words_of_a_name_are_found_in_any_case_of_any_alphabet(people: SimpleNamespace) -> None:
    joined(people.owner, "Ökologie am Fluß", "Птицы")
    for words in ("ökologie", "FLUSS ÖKO", "птиц"):
        assert len(found(people.owner, words)) == 1, words


def test_forms_take_a_project_that_was_found(zoos: SimpleNamespace) -> None:
    client_of(zoos.owner).post("/account/tokens/", {"name": "one", "scope": "read", "days": "30", "project": LAST})
    assert ApiToken.objects.filter(name="one", project__slug=LAST).exists()
    refused = client_of(zoos.owner).post(
        "/account/tokens/", {"name": "two", "scope": "read", "days": "30", "project": "elsewhere"}
    )
    assert refused.status_code == 422 and not ApiToken.objects.filter(name="two").exists()
    quota = {"project": LAST, "device_kind": "cpu", "devices": "3", "may_borrow": ""}
    client_of(zoos.admin).post("/pool/quotas/save/", quota)
    assert Quota.objects.get().project.slug == LAST
    wrong = client_of(zoos.admin).post("/pool/quotas/save/", {**quota, "devices": "-3"}).content.decode()
    assert re.search(rf'<option value="{LAST}"\s+selected', wrong), "what is refused keeps its project"


def test_each_view_keeps_its_project_in_the_list_of_whom_it_is_shared_with_and_those_of_others_add_none(
    zoos: SimpleNamespace,
) -> None:
    of_another = Project.objects.get(slug=f"zoo-{MANY - 2:03}")
    Membership.objects.create(project=of_another, user=zoos.viewer, role=Role.MEMBER)
    mine = {"owner": zoos.owner, "query": "state=failed"}
    SavedView.objects.create(name="Mine", project=Project.objects.get(slug=LAST), **mine)
    SavedView.objects.create(**{**mine, "name": "Theirs", "owner": zoos.viewer}, project=of_another)
    page = client_of(zoos.owner).get("/jobs/views/").content.decode()
    assert "Theirs" in page
    ((_, slugs),) = listed(page)
    assert len(slugs) == PROJECTS_SHOWN + 1 and LAST in slugs and of_another.slug not in slugs
    assert re.search(rf'<option value="{LAST}"\s+selected', page)
