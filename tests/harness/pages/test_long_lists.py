"""Lists of projects, people, members, storage, reservations and what happened to a job come in pages."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape
from types import SimpleNamespace

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from harness.accounts.models import Membership, Project, User
from harness.jobs.models import JobAttempt, JobEvent
from harness.paging import SEARCH_LETTERS_MAX
from harness.pool.models import Node, Quota, Reservation

MANY = 60


@pytest.fixture
def admin(world: SimpleNamespace, client: Client) -> Client:
    client.force_login(world.admin)
    return client


@pytest.fixture
def crowd(world: SimpleNamespace) -> list[User]:
    """As many people as no page shows, each with a project of their own."""
    people = [
        User(username=f"zoe-{number:03}", email=f"{number:03}@far.example", password="!") for number in range(MANY)
    ]
    User.objects.bulk_create(people)
    projects = [Project(name=f"Zoo {number:03}", slug=f"zoo-{number:03}") for number in range(MANY)]
    Project.objects.bulk_create(projects)
    members = [
        Membership(user=user, project=project, role="admin") for user, project in zip(people, projects, strict=True)
    ]
    Membership.objects.bulk_create(members)
    return people


def shown(client: Client, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200
    return unescape(answer.content.decode())


def walked(client: Client, address: str, pages_of: str, pattern: str) -> list[str]:
    """What all pages of a list show, by its link Next."""
    path, found = address, list[str]()
    while address:
        page = shown(client, address)
        found += re.findall(pattern, page)
        pager = re.search(rf'aria-label="{pages_of}">(.*?)</nav>', page, re.S)
        link = re.search(r'rel="next" href="([^"]+)"', pager[1] if pager else "")
        address = f"{path}?{link[1].partition('?')[2]}" if link else ""
    return found


def test_projects_and_people_come_in_pages_each_of_its_own(
    world: SimpleNamespace, admin: Client, crowd: list[User]
) -> None:
    address = reverse("project_list")
    page = shown(admin, address)
    assert f"{Project.objects.count()} in all · page 1 of" in page and f"{User.objects.count()} in all · page 1" in page
    names = list(User.objects.order_by("username").values_list("username", flat=True))
    assert walked(admin, address, "Pages of people", r'data-label="User name">([^<]+)<') == names
    slugs = list(Project.objects.filter(deleted_at=None).order_by("name", "pk").values_list("slug", flat=True))
    assert walked(admin, address, "Pages", r'data-label="Name"><a href="/projects/([\w-]+)/"') == slugs
    second = shown(admin, f"{address}?page=2&people=3")
    assert 'rel="prev" href="?page=2&people=2"' in second and 'rel="next" href="?people=3&page=3"' in second


def test_the_page_of_many_people_is_no_larger_than_that_of_some(admin: Client, crowd: list[User]) -> None:
    size = len(shown(admin, reverse("project_list")))
    more = [User(username=f"yan-{number:04}", password="!") for number in range(1000)]
    User.objects.bulk_create(more)
    assert len(shown(admin, reverse("project_list"))) < 1.2 * size < 400_000


def test_a_search_finds_projects_and_people_on_whatever_page_they_are(
    admin: Client, world: SimpleNamespace, crowd: list[User]
) -> None:
    page = shown(admin, reverse("project_list") + "?q=057")
    assert re.findall(r'data-label="User name">([^<]+)<', page) == ["zoe-057"]
    assert re.findall(r'data-label="Name"><a href="/projects/([\w-]+)/"', page) == ["zoo-057"]
    assert 'name="q" value="057"' in page and "in all" not in page
    nobody = shown(admin, reverse("project_list") + "?q=nobody-at-all")
    assert "Nobody matches." in nobody and "No project matches." in nobody and "not in a project yet" not in nobody
    by_email = shown(admin, reverse("project_list") + "?q=012@far")
    assert re.findall(r'data-label="User name">([^<]+)<', by_email) == ["zoe-012"]
    Project.objects.filter(slug="zoo-012").update(name="Aviary")
    by_slug = shown(admin, reverse("project_list") + "?q=ZOO-012")
    assert re.findall(r'data-label="Name"><a href="/projects/([\w-]+)/"', by_slug) == ["zoo-012"]
    admin.force_login(crowd[5])
    assert "zoo-012" not in shown(admin, reverse("project_list") + "?q=zoo")


def test_a_search_that_is_too_long_is_refused_as_in_other_lists(admin: Client) -> None:
    for address in (reverse("project_list"), reverse("project_page", args=["orchard"]), reverse("job_list")):
        answer = admin.get(address, {"q": "z" * (SEARCH_LETTERS_MAX + 1)})
        assert answer.status_code == 422 and "A search can have at most 500 characters." in answer.content.decode()
        assert admin.get(address, {"q": "z" * SEARCH_LETTERS_MAX}).status_code == 200


def test_projects_in_the_trash_come_in_pages(admin: Client, crowd: list[User]) -> None:
    gone_at = timezone.now() - timedelta(hours=1)
    Project.objects.filter(slug__startswith="zoo-").update(deleted_at=gone_at)
    address = reverse("project_list")
    pattern = r'action="/projects/([\w-]+)/trash/restore/'
    assert sorted(walked(admin, address, "Pages of projects in the trash", pattern)) == [
        f"zoo-{number:03}" for number in range(MANY)
    ]
    second = shown(admin, f"{address}?trash=2")
    assert f"{MANY} in all · page 2 of 3" in second
    back = re.search(r'action="([^"]+/restore/\?trash=2)"', second)
    assert back and admin.post(back[1])["Location"] == f"{address}?trash=2"


def test_what_is_done_to_a_person_comes_back_to_the_page_they_were_on(admin: Client, crowd: list[User]) -> None:
    page = shown(admin, reverse("project_list") + "?q=zoe&people=2")
    act = reverse("user_act", args=[crowd[30].username, "disable"])
    assert f'action="{act}?q=zoe&people=2"' in page
    assert admin.post(f"{act}?q=zoe&people=2")["Location"] == reverse("project_list") + "?q=zoe&people=2"
    crowd[30].refresh_from_db()
    assert not crowd[30].is_active


def test_members_come_in_pages_and_are_found_on_whatever_page_they_are(
    world: SimpleNamespace, admin: Client, crowd: list[User]
) -> None:
    project = world.project
    Membership.objects.bulk_create([Membership(user=user, project=project, role="viewer") for user in crowd])
    admin.force_login(world.owner)
    address = reverse("project_page", args=[project.slug])
    names = list(project.memberships.order_by("user__username").values_list("user__username", flat=True))
    assert walked(admin, address, "Pages", r'data-label="Person">([^<]+)<') == names
    found = shown(admin, f"{address}?q=ZOE-044")
    assert re.findall(r'data-label="Person">([^<]+)<', found) == ["zoe-044"] and "in all" not in found
    assert "Nobody matches." in shown(admin, f"{address}?q=nobody-at-all")
    assert "Nobody is in it." not in found
    for name, args, sent in (
        ("member_set", [project.slug], {"username": "zoe-030", "role": "member"}),
        ("member_remove", [project.slug, "zoe-030"], {}),
    ):
        act = reverse(name, args=args)
        assert f'action="{act}?page=2"' in shown(admin, f"{address}?page=2")
        assert admin.post(f"{act}?page=2", sent)["Location"] == f"{address}?page=2"
    refused = unescape(admin.post(f"{address}members/", {"username": "no-such-one", "add": "1"}).content.decode())
    assert "There is no user no-such-one." in refused and f"{len(names) - 1} in all · page 1 of 3" in refused


def test_a_short_list_has_neither_pages_nor_a_search(admin: Client) -> None:
    addresses = [reverse(name) for name in ("project_list", "pool_storage", "reservations", "quotas")]
    for address in (*addresses, reverse("project_page", args=["orchard"])):
        page = shown(admin, address)
        assert 'class="pager"' not in page and 'role="search"' not in page


def test_projects_that_take_disk_come_in_pages(admin: Client, crowd: list[User]) -> None:
    address = reverse("pool_storage")
    slugs = walked(admin, address, "Pages", r'data-label="Project">\s*<a href="/projects/([\w-]+)/')
    assert sorted(slugs) == sorted(Project.objects.filter(deleted_at=None).values_list("slug", flat=True))
    limit = {"project": "zoo-001", "gib": "3"}
    assert admin.post(f"{reverse('storage_quota_save')}?page=2", limit)["Location"] == f"{address}?page=2"
    assert f'action="{reverse("storage_quota_save")}?page=2"' in shown(admin, f"{address}?page=2")


def test_quotas_come_in_pages_and_are_found_by_their_project(admin: Client, crowd: list[User]) -> None:
    Quota.objects.all().delete()
    Quota.objects.bulk_create(
        [Quota(project=project, device_kind="cpu", devices=2) for project in Project.objects.filter(deleted_at=None)]
    )
    address = reverse("quotas")
    slugs = walked(admin, address, "Pages", r'data-label="Project">\s*<a href="/projects/([\w-]+)/')
    assert sorted(slugs) == sorted(Quota.objects.values_list("project__slug", flat=True)) and len(slugs) >= MANY
    found = shown(admin, f"{address}?q=ZOO 044")
    assert re.findall(r'data-label="Project">\s*<a href="/projects/([\w-]+)/', found) == ["zoo-044"]
    assert "No quota is of such a project." in shown(admin, f"{address}?q=nobody-at-all")
    save, end = reverse("quota_save"), reverse("quota_end", args=["zoo-044", "cpu"])
    assert f'action="{end}?q=ZOO+044"' in found and f'action="{save}?q=ZOO+044"' in found
    sent = {"project": "zoo-001", "device_kind": "cpu", "devices": "3", "may_borrow": ""}
    assert admin.post(f"{save}?page=2", sent)["Location"] == f"{address}?page=2"
    assert admin.post(f"{end}?page=2")["Location"] == f"{address}?page=2"


def test_quotas_of_projects_of_one_name_stand_project_by_project(admin: Client) -> None:
    Quota.objects.all().delete()
    first, second = (Project.objects.create(name="Twins", slug=slug) for slug in ("twins", "twins-2"))
    for project, kind in ((second, "cpu"), (first, "cuda"), (second, "cuda"), (first, "cpu")):
        Quota.objects.create(project=project, device_kind=kind, devices=2)
    slugs = re.findall(r'data-label="Project">\s*<a href="/projects/([\w-]+)/', shown(admin, reverse("quotas")))
    assert len(slugs) == 4 and slugs[0] == slugs[1] != slugs[2] == slugs[3]


def test_reservations_come_in_pages(admin: Client, world: SimpleNamespace) -> None:
    Reservation.objects.all().delete()
    node, now = Node.objects.all()[0], timezone.now()
    for hour in range(MANY):
        starts_at = now + timedelta(hours=hour)
        ends_at = starts_at + timedelta(minutes=30)
        Reservation.objects.create(node=node, starts_at=starts_at, ends_at=ends_at, purpose=f"course {hour}")
    address = reverse("reservations")
    wanted = [f"course {hour}" for hour in range(MANY)]
    assert walked(admin, address, "Pages", r'data-label="Purpose">([^<]+)<') == wanted
    last = Reservation.objects.latest("starts_at")
    end = f"{reverse('reservation_end', args=[last.pk])}?page=3"
    assert f'action="{end}"' in shown(admin, f"{address}?page=3")
    assert admin.post(end)["Location"] == f"{address}?page=3"


def test_what_happened_to_a_job_comes_in_pages_the_newest_first(admin: Client, world: SimpleNamespace) -> None:
    job = world.jobs["running"]
    JobEvent.objects.filter(job=job).delete()
    for number in range(3 * MANY):
        JobEvent.objects.create(job=job, kind="note", message=f"word {number}")
    address = reverse("job_tab", args=[job.pk, "events"])
    wanted = [f"word {number}" for number in reversed(range(3 * MANY))]
    assert walked(admin, address, "Pages", r"\b(word \d+)\s*<") == wanted
    assert f'href="{address}?page=2"' in shown(admin, address)


def test_attempts_of_a_job_come_in_pages_of_their_own(admin: Client, world: SimpleNamespace) -> None:
    job = world.jobs["succeeded"]
    JobAttempt.objects.filter(job=job).delete()
    JobEvent.objects.filter(job=job).delete()
    for number in range(1, 3 * MANY + 1):
        JobAttempt.objects.create(job=job, number=number, world_size=1, plan={}, outcome="lost")
        JobEvent.objects.create(job=job, kind="note", message=f"word {number}")
    address = reverse("job_tab", args=[job.pk, "events"])
    wanted = [str(number) for number in reversed(range(1, 3 * MANY + 1))]
    assert walked(admin, address, "Pages of attempts", r'data-label="No\.">(\d+)<') == wanted
    second = shown(admin, f"{address}?tries=2")
    assert f'href="{address}?tries=2&page=2"' in second and f"word {3 * MANY}" in second


def test_a_project_without_members_says_so(admin: Client) -> None:
    empty = Project.objects.create(name="Empty", slug="empty")
    assert "Nobody is in it." in shown(admin, reverse("project_page", args=[empty.slug]))
