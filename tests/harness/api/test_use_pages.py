"""The use of devices is told page by page: there is a row for each job, and jobs are many."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.test import Client

from harness.pages.views import use as view
from harness.pool.models import Device
from tests.harness.jobs.test_queueing import use_make

pytestmark = pytest.mark.django_db


@pytest.fixture
def five(job_make: Callable[..., Any], people: SimpleNamespace, node_make: Callable[..., Any], tasks_sent: Any) -> None:
    """Five jobs that used the same."""
    device = node_make(cpus=1).devices.get()
    for number in range(5):
        job = job_make(name=f"job {number}")
        use_make(people, job, device, hours_ago=2 + number, hours=0.1)


@pytest.fixture
def viewer(people: SimpleNamespace) -> Client:
    client = Client()
    client.force_login(people.viewer)
    return client


@pytest.mark.parametrize("path", ["use", "use/timeline"])
def test_pages_of_use_make_up_the_whole(five: None, viewer: Client, path: str) -> None:
    def page(**query: Any) -> dict[str, Any]:
        return viewer.get(f"/api/v1/pool/{path}", {"span": "day", "by": "job", **query}).json()  # type: ignore[no-any-return]

    whole = page()
    assert whole["total"] == len(whole["items"]) >= 5 and whole["pages"] == 1
    parts = [page(page=number, page_size=2) for number in range(1, -(-whole["total"] // 2) + 1)]
    assert [row["name"] for part in parts for row in part["items"]] == [row["name"] for row in whole["items"]]
    assert {len(part["items"]) for part in parts[:-1]} == {2} and {part["total"] for part in parts} == {whole["total"]}
    assert page(page=1000)["items"] == []
    assert viewer.get(f"/api/v1/pool/{path}?page_size=5001").status_code == 422


@pytest.mark.parametrize("path", ["use", "use/timeline"])
def test_later_pages_are_as_of_the_moment_of_the_first(
    five: None, viewer: Client, path: str, job_make: Callable[..., Any], people: SimpleNamespace
) -> None:
    def page(number: int, **query: Any) -> dict[str, Any]:
        query |= {"span": "day", "by": "job", "page": number, "page_size": 100}
        return viewer.get(f"/api/v1/pool/{path}", query).json()  # type: ignore[no-any-return]

    first = page(1)
    use_make(people, job_make(name="later"), Device.objects.get(), hours_ago=0, hours=0.1)
    assert page(1, until=first["until"]) == first
    before = datetime.fromisoformat(first["until"]) - timedelta(hours=2.5)
    assert {row["name"] for row in page(1, until=before.isoformat())["items"]} == {
        "job 1",
        "job 2",
        "job 3",
        "job 4",
    }
    assert page(1, until="2999-01-01T00:00:00Z")["until"] < "2999"


@pytest.mark.parametrize("until", ["0001-01-01T00:00:00Z", "2026-01-01T00:00:00", "soon"])
def test_a_moment_that_cannot_be_is_refused(viewer: Client, until: str) -> None:
    assert viewer.get("/api/v1/pool/use", {"until": until}).status_code == 422


def test_the_csv_has_all_rows(five: None, viewer: Client) -> None:
    body = b"".join(viewer.get("/api/v1/pool/use.csv?span=day&by=job")).decode()
    assert len(body.splitlines()) == 1 + 5


def test_the_table_of_the_page_comes_in_pages(five: None, viewer: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "PAGE_SIZE", 2)

    def rows(query: str) -> list[int]:
        page = viewer.get(f"/pool/use/?span=day&by=job{query}").content.decode()
        table = page.partition('aria-label="Use by job"')[2].partition("</table>")[0]
        assert "5 in all · page" in page and "page=" not in page.partition('aria-label="By"')[2].partition("</div>")[0]
        return [number for number in range(5) if f">job {number}</a>" in table]

    assert rows("") == [0, 1] and rows("&page=2") == [2, 3] and rows("&page=3") == rows("&page=99") == [4]
