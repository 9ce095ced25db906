"""Log lines page by page: what stands before and behind those shown can be asked for."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from django.urls import reverse

from harness.jobs import logs
from harness.jobs.models import Job
from harness.pages.log_view import LINES

_LINK = re.compile(r'href="\?([^"]*)" data-(earlier|later)')


def write_logs(job: Job, *counts: int) -> None:
    folder = settings.STORE.job(job.pk).logs / "attempt-9"
    folder.mkdir(parents=True)
    for rank, count in enumerate(counts):
        (folder / f"rank-{rank}.log").write_text("".join(f"line {number}\n" for number in range(1, count + 1)))


def links(body: str) -> dict[str, str]:
    return {side: query.replace("&amp;", "&") for query, side in _LINK.findall(body)}


def places(body: str) -> list[tuple[int, int]]:
    return [(int(rank), int(line)) for rank, line in re.findall(r'id="r(\d+)-l(\d+)"', body)]


def read(owner: Client, name: str, *args: Any, query: str = "") -> str:
    return owner.get(f"{reverse(name, args=args)}?{query}").content.decode()


def test_a_search_that_takes_too_long_does_not_say_that_nothing_matches_and_leads_on(
    world: SimpleNamespace, owner: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = world.jobs["running"]
    write_logs(job, 2500)
    monkeypatch.setattr(logs, "_SEARCH_LIMIT_S", -1.0)
    body = read(owner, "job_tab", job.pk, "logs", query="q=line+2400")
    for line in (1000, 1000, 2000):  # for the last ones, from the beginning, and on
        assert "No line matches so far." in body and f"stopped at line {line} of rank 0" in body
        found = re.search(r'href="\?([^"]*)">Search on', body)
        assert found
        body = read(owner, "job_tab", job.pk, "logs", query=found[1].replace("&amp;", "&"))
    assert places(body) == [(0, 2400)] and "Search on" not in body
    assert "No line matches." in read(owner, "job_tab", job.pk, "logs", query="q=nowhere&after=0:2000")


def test_earlier_lines_lead_to_the_first_one_without_a_gap(world: SimpleNamespace, owner: Client) -> None:
    job = world.jobs["running"]
    write_logs(job, LINES + 20, LINES + 10)
    body = read(owner, "job_tab", job.pk, "logs")
    shown = places(body)
    assert shown[0] == (1, 11) and "later" not in links(body)
    while "earlier" in links(body):
        body = read(owner, "job_log_lines", job.pk, query=links(body)["earlier"])
        assert "later" not in links(body)
        shown = [*places(body), *shown]
    everything = [(rank, line) for rank, count in ((0, LINES + 20), (1, LINES + 10)) for line in range(1, count + 1)]
    assert shown == everything


def test_the_newest_lines_of_a_log_are_shown_that_takes_longer_to_search(
    world: SimpleNamespace, owner: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = world.jobs["running"]
    write_logs(job, 4 * LINES + 1000)
    monkeypatch.setattr(logs, "_SEARCH_LIMIT_S", 0.0)
    assert places(read(owner, "job_tab", job.pk, "logs"))[-1] == (0, 4 * LINES + 1000)


def test_a_line_that_a_link_names_has_lines_above_and_below_it(world: SimpleNamespace, owner: Client) -> None:
    job = world.jobs["running"]
    write_logs(job, 3 * LINES)
    body = read(owner, "job_tab", job.pk, "logs", query="rank=0&attempt=9&line=400")
    assert places(body)[0] == (0, 350)
    above = read(owner, "job_log_lines", job.pk, query=links(body)["earlier"])
    assert places(above)[-1] == (0, 349)
    below = read(owner, "job_log_lines", job.pk, query=links(body)["later"])
    assert places(below)[0] == (0, places(body)[-1][1] + 1) and "earlier" not in links(below)
    assert "later" not in links(below)


def test_a_page_of_earlier_lines_leads_on_to_both_sides_and_keeps_the_filter(
    world: SimpleNamespace, owner: Client
) -> None:
    job = world.jobs["running"]
    write_logs(job, 3 * LINES)
    body = read(owner, "job_tab", job.pk, "logs", query="q=line&rank=0&attempt=9&before=0:700")
    assert places(body)[-1] == (0, 699)
    assert links(body)["earlier"] == "q=line&rank=0&attempt=9&before=0%3A400"
    assert links(body)["later"] == "q=line&rank=0&attempt=9&after=0%3A699"


def test_no_line_before_the_first_is_no_word_that_nothing_was_written(world: SimpleNamespace, owner: Client) -> None:
    job = world.jobs["running"]
    write_logs(job, 5)
    body = read(owner, "job_log_lines", job.pk, query="before=0:1")
    assert places(body) == [] and "Nothing has been written" not in body
    odd = read(owner, "job_tab", job.pk, "logs", query="before=no:where")
    assert len(places(odd)) == 5
