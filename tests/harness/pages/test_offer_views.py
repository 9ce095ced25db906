"""The cost tab: an offer asked for, awaited, priced, and what its table and picture show."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from codegen.spec import MODE_WORDS
from harness.estimates.models import Inspection, OfferRow
from harness.estimates.selectors import offer_priced
from harness.estimates.services import inspection_answer
from harness.estimates.settling import offers_settle
from harness.jobs.models import Job
from harness.moments import LATEST_S
from harness.pages.offer_view import offer_chart, shown_lines
from harness.pool.models import Device, Node, NodeState
from scheduler.estimation.values import Interval
from scheduler.offers.values import Hindrance, Mark
from tests.factory_offers import workload_make
from tests.harness.pages.offer_page import ask, cost, current


def mode_chosen(text: str) -> str:
    (value,) = re.findall(r'name="mode"\s+value="([^"]*)"\s+checked', text)
    return str(value)


def test_a_priced_offer_shows_every_way_with_its_basis_and_its_csv(owner: Client, draft: Job) -> None:
    text = cost(owner, draft)
    offer = current(draft)
    priced = offer_priced(offer)
    assert priced is not None and priced.chosen is not None
    assert text.count('name="line"') == len(priced.lines)
    assert priced.text in text
    assert text.count('based on">assumed</span>') == len(priced.lines)  # once a line, where all its figures rest on it
    assert "Not calibrated here: core" in text
    csv = owner.get(reverse("job_offer_csv", args=[draft.pk, offer.pk]))
    lines = b"".join(csv.streaming_content).decode().splitlines()  # type: ignore[attr-defined]
    assert len(lines) == len(priced.lines) + 1


def test_a_draft_without_an_offer_asks_for_one_by_itself_but_only_for_members(
    owner: Client, draft: Job, world: SimpleNamespace
) -> None:
    OfferRow.objects.all().delete()
    asking = f'hx-post="{reverse("job_offer_new", args=[draft.pk])}"'
    assert asking in cost(owner, draft)
    viewer = Client()
    viewer.force_login(world.viewer)
    assert asking not in cost(viewer, draft)
    assert "No offer yet" in cost(viewer, draft)


def test_while_a_node_reads_the_page_asks_again_and_then_shows_the_offer(owner: Client, draft: Job) -> None:
    Inspection.objects.all().delete()
    answer = ask(owner, draft)
    offer = current(draft)
    place = reverse("job_offer_show", args=[draft.pk, offer.pk])
    assert f'hx-get="{place}"' in answer.content.decode()
    inspection_answer({"request_id": offer.inspection_id, "ok": True, "workload": workload_make().to_dict()})
    assert "All options" in owner.get(place).content.decode()


def test_a_day_alone_is_a_deadline_at_its_end_and_is_told(owner: Client, draft: Job) -> None:
    text = ask(owner, draft, deadline="2030-01-31").content.decode()
    assert 'Deadline: <strong><time datetime="2030-01-31T23:59:59+00:00"' in text
    assert "Deadline:" not in ask(owner, draft).content.decode()


def test_a_deadline_and_devices_that_are_asked_for_are_kept_and_refusals_say_what_would_help(
    owner: Client, draft: Job
) -> None:
    soon = (timezone.now() + timedelta(seconds=60)).isoformat()
    text = ask(owner, draft, deadline="2020-01-01T10:00", deadline_utc=soon, kind="cpu", count="1").content.decode()
    assert "No option meets this deadline" in text
    assert "This would help:" in text
    wish = current(draft).wish
    assert (wish["kind"], wish["count"]) == ("cpu", 1)


def test_a_mode_that_is_asked_for_is_priced_and_stays_chosen(owner: Client, draft: Job) -> None:
    before = cost(owner, draft)
    assert all(f"<strong>{mode}</strong>: {says}" in before for mode, says in MODE_WORDS.items())
    assert mode_chosen(before) == ""
    text = ask(owner, draft, count="2", mode="async").content.decode()
    priced = offer_priced(current(draft))
    assert priced is not None and priced.chosen is not None
    assert priced.chosen.allocation.mode == "async"
    assert mode_chosen(text) == "async"
    owner.post(reverse("job_offer_take", args=[draft.pk, current(draft).pk]))
    draft.refresh_from_db()
    assert draft.spec["mode"] == "async"
    assert "<strong>as in the spec</strong>" in ask(owner, draft).content.decode()


def test_a_model_of_device_is_chosen_by_its_name_and_stays_chosen(owner: Client, draft: Job, node_make: Any) -> None:
    node_make("gpus", cpus=2)
    node = Node.objects.get(name="gpus")
    for index, model in enumerate(("NVIDIA A100", "Tesla T4")):
        Device.objects.create(node=node, kind="cuda", index=index, model_name=model, memory_bytes=40 << 30)
    text = ask(owner, draft).content.decode()
    options = re.findall(r'<option value="([^"]*)"[^>]*>\s*([^<]*?)\s*</option>', text)
    assert {("cuda", "GPUs"), ("cuda:NVIDIA A100", "GPUs: NVIDIA A100"), ("cuda:Tesla T4", "GPUs: Tesla T4")} < {
        *options
    }
    assert ("cpu:core", "CPU cores: core") in options
    text = ask(owner, draft, kind="cuda:Tesla T4").content.decode()
    assert re.findall(r'<option value="([^"]*)" selected', text) == ["cuda:Tesla T4"]
    priced = offer_priced(current(draft))
    assert priced is not None and priced.chosen is not None
    assert priced.chosen.allocation.model_name == "Tesla T4"
    ask(owner, draft, kind="cuda:NVIDIA A1000")
    priced = offer_priced(current(draft))
    assert priced is not None and priced.text == (
        "The pool has no GPU (NVIDIA A1000) that takes work. It has NVIDIA A100, Tesla T4."
    )
    kept = cost(owner, draft)
    assert re.findall(r'<option value="([^"]*)" selected', kept) == ["cuda:NVIDIA A1000"]


def test_each_line_says_its_mode(owner: Client, draft: Job) -> None:
    text = cost(owner, draft)
    priced = offer_priced(current(draft))
    assert priced is not None
    below = text.split("<summary>What these modes mean</summary>")[1].split("</details>")[0]
    for mode in {line.allocation.mode for line in priced.lines}:
        assert below.count(f"Mode {mode}: {MODE_WORDS[mode]}.") == 1
        told = re.findall(rf'title="{re.escape(MODE_WORDS[mode])}"\s*>mode\s+{re.escape(mode)}<', text)
        assert len(told) == sum(line.allocation.mode == mode for line in priced.lines)


@pytest.mark.parametrize(
    "given", [{"count": "0"}, {"count": "-1"}, {"count": "many"}, {"deadline": "tomorrow"}, {"mode": "fast"}]
)
def test_nonsense_is_refused_in_words(owner: Client, draft: Job, given: dict[str, str]) -> None:
    answer = ask(owner, draft, **given)
    assert answer.status_code == 422
    assert 'role="alert"' in answer.content.decode()


def test_energy_in_one_table_has_one_unit(owner: Client, draft: Job) -> None:
    cost(owner, draft)
    priced = offer_priced(current(draft))
    assert priced is not None
    lines = [
        replace(line, estimate=replace(line.estimate, energy_j=Interval(low=mid / 3, mid=mid, high=3 * mid)))
        for line, mid in zip(priced.lines, (200.0, 600.0, 2000.0), strict=False)
    ]
    shown = shown_lines(replace(priced, lines=tuple(lines)))
    assert {text.split()[-1] for one in shown for text in (one.energy, one.energy_range)} == {"Wh"}


def test_the_picture_shows_the_cheapest_way_as_too_late_where_it_is(owner: Client, draft: Job) -> None:
    cost(owner, draft)
    priced = offer_priced(current(draft))
    assert priced is not None and priced.chosen is not None
    late = {"hindrance": Hindrance.DEADLINE, "why": "It finishes after the deadline.", "frontier": True}
    cheapest = replace(priced.chosen, marks=(Mark.CHEAPEST,), **late)
    unmarked = replace(priced.chosen, marks=(), **late)
    in_time = replace(priced.chosen, marks=(Mark.RECOMMENDED, Mark.FASTEST))
    data = offer_chart(draft, current(draft), replace(priced, lines=(in_time, cheapest, unmarked)))["data"]
    what = data["columns"].index("what")
    assert [row[what] for row in data["rows"]] == ["recommended, fastest", "cheapest, too late", "too late"]


def test_the_picture_and_the_table_go_by_the_latest_finish_as_the_fastest_does(owner: Client, draft: Job) -> None:
    cost(owner, draft)
    priced = offer_priced(current(draft))
    assert priced is not None
    data = offer_chart(draft, current(draft), priced)["data"]
    place = {name: number for number, name in enumerate(data["columns"])}
    rows = [row for row in data["rows"] if "not possible" not in row[place["what"]]]
    (fastest,) = (row for row in rows if "fastest" in row[place["what"]])
    assert fastest[place["latest finish"]] == min(row[place["latest finish"]] for row in rows)
    frontier = {line.latest_s for line in priced.lines if line.frontier}
    assert sum(row[place["best trade-off"]] == "yes" for row in rows) >= len(frontier) > 0
    assert "is faster than another" in cost(owner, draft)


def test_where_nothing_is_offered_there_is_no_empty_picture_and_no_empty_table(owner: Client, draft: Job) -> None:
    cost(owner, draft)
    Node.objects.update(state=NodeState.DRAIN)
    text = ask(owner, draft).content.decode()
    assert "No node that takes work has a device for this job." in text
    assert "Ask again" in text
    assert "Energy against finish time" not in text and "All options" not in text


def test_a_run_that_ends_after_the_last_day_of_any_calendar_is_shown_without_a_date(owner: Client, draft: Job) -> None:
    """Somebody asks for millions of epochs, one row a step: the page is there, and says how long it takes."""
    offer = current(draft)
    endless = workload_make(rows=10**9, epochs=10**7, batch=1)
    Inspection.objects.filter(pk=offer.inspection_id).update(workload=endless.to_dict())
    OfferRow.objects.filter(pk=offer.pk).update(state="waiting", deadline_at=timezone.now() + timedelta(hours=1))
    assert offer.inspection is not None and offers_settle(offer.inspection) == 1
    priced = offer_priced(current(draft))
    assert priced is not None and priced.earliest_finish_s is not None and priced.earliest_finish_s > LATEST_S
    text = cost(owner, draft)
    assert "No option meets this deadline" in text
    answer = owner.get(f"/api/v1/offers/{offer.pk}")
    assert answer.status_code == 200
    assert {line["finish"] for line in answer.json()["lines"]} == {None}
