"""The cost tab: an offer asked for, awaited, priced, taken; a program that cannot be read; predicted and actual."""

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
from harness.calibration.models import FinishedJobRow
from harness.estimates.models import Inspection, OfferRow, ProbeRow
from harness.estimates.offers import offer_settle, offers_settle
from harness.estimates.selectors import offer_of_job, offer_priced
from harness.estimates.services import inspection_answer, measure_answer
from harness.jobs.models import Allocation, Job
from harness.moments import LATEST_S
from harness.pages.offer_view import offer_chart, shown_lines
from harness.pool.models import Device, Node, NodeState
from scheduler.estimation.values import Interval
from scheduler.offers.values import Hindrance, Mark
from tests.factory_offers import workload_make
from tests.harness.jobs.helpers import estimated


def cost(client: Client, job: Job) -> str:
    return client.get(reverse("job_tab", args=[job.pk, "cost"])).content.decode()


def ask(client: Client, job: Job, **given: str) -> Any:
    return client.post(reverse("job_offer_new", args=[job.pk]), {"asked": "1", **given}, headers={"HX-Request": "true"})


def mode_chosen(text: str) -> str:
    (value,) = re.findall(r'name="mode"\s+value="([^"]*)"\s+checked', text)
    return str(value)


def current(job: Job) -> OfferRow:
    offer = offer_of_job(job)
    assert offer is not None
    return offer


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


def test_a_deadline_and_devices_that_are_asked_for_are_kept_and_refusals_say_what_would_help(
    owner: Client, draft: Job
) -> None:
    soon = (timezone.now() + timedelta(seconds=60)).isoformat()
    text = ask(owner, draft, deadline="2020-01-01T10:00", deadline_utc=soon, kind="cpu", count="1").content.decode()
    assert "No option meets this deadline" in text
    assert "Any one of these would help" in text
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
    for mode in {line.allocation.mode for line in priced.lines}:
        told = re.findall(rf'title="{re.escape(MODE_WORDS[mode])}"\s*>mode\s+{re.escape(mode)}<', text)
        assert len(told) == sum(line.allocation.mode == mode for line in priced.lines)


@pytest.mark.parametrize(
    "given", [{"count": "0"}, {"count": "-1"}, {"count": "many"}, {"deadline": "tomorrow"}, {"mode": "fast"}]
)
def test_nonsense_is_refused_in_words(owner: Client, draft: Job, given: dict[str, str]) -> None:
    answer = ask(owner, draft, **given)
    assert answer.status_code == 422
    assert 'role="alert"' in answer.content.decode()


def seen_at(text: str) -> str:
    """Of which pricing the table of a page is."""
    (found,) = re.findall(r'name="made_at"\s+value="([^"]+)"', text)
    return str(found)


def test_taking_a_line_puts_its_devices_into_the_spec_and_submits(owner: Client, draft: Job) -> None:
    offer = current(draft)
    priced = offer_priced(offer)
    assert priced is not None
    place = next(index for index, line in enumerate(priced.lines) if line.allocation.count == 2 and line.feasible)
    choice = {"line": str(place), "made_at": seen_at(cost(owner, draft))}
    owner.post(reverse("job_offer_take", args=[draft.pk, offer.pk]), choice)
    draft.refresh_from_db()
    assert (draft.state, draft.spec["resources"]["count"]) == ("draft", 2)
    assert "taken" in cost(owner, draft)
    choice |= {"submit": "1", "elastic": "1"}
    told = owner.post(reverse("job_offer_take", args=[draft.pk, offer.pk]), choice, follow=True).content.decode()
    assert "Submitted to run on 2 to 4 CPU cores." in told
    draft.refresh_from_db()
    assert draft.state == "queued"
    assert len(draft.options) > 1


def test_a_line_of_a_table_that_was_priced_anew_since_is_not_taken_and_another_look_changes_nothing(
    owner: Client, draft: Job
) -> None:
    offer, before = current(draft), seen_at(cost(owner, draft))
    OfferRow.objects.filter(pk=offer.pk).update(state="waiting")
    offer_settle(OfferRow.objects.get(pk=offer.pk))
    assert seen_at(cost(owner, draft)) != before  # in another tab
    place = reverse("job_offer_take", args=[draft.pk, offer.pk])
    told = owner.post(place, {"line": "0", "made_at": before}, follow=True).content.decode()
    assert "priced anew since you saw it" in told
    told = owner.post(place, {"line": "0"}, follow=True).content.decode()
    assert "does not say which table the line is of" in told
    draft.refresh_from_db()
    assert (draft.state, draft.options) == ("draft", [])


def test_a_program_at_fault_is_told_so_and_not_tried_on_a_device(owner: Client, draft: Job) -> None:
    offer = current(draft)
    message = "model.py, line 9: forward(x) of Net does not take what a batch of this data holds."
    Inspection.objects.filter(pk=offer.inspection_id).update(
        state="failed", workload=None, problem={"code": "program_error", "message": message, "hint": "Write it anew."}
    )
    ask(owner, draft)
    text = cost(owner, draft)
    assert f"This program does not run: {message}" in text and "Write it anew." in text
    assert "Read again" in text and "Try a few real steps" not in text


def test_a_program_that_cannot_be_read_is_tried_on_a_device_and_priced_there_alone(owner: Client, draft: Job) -> None:
    offer = current(draft)
    Inspection.objects.filter(pk=offer.inspection_id).update(
        state="failed", workload=None, problem={"code": "cannot_trace", "message": "Its loop depends on values."}
    )
    ask(owner, draft)
    offer = current(draft)
    text = cost(owner, draft)
    assert "Its loop depends on values." in text
    probing = owner.post(reverse("job_offer_probe", args=[draft.pk, offer.pk])).content.decode()
    assert "is running a few real steps" in probing
    probe = ProbeRow.objects.get()
    report = {"request_id": f"probe-{probe.pk}", "ok": True, "step_s": [0.02], "peak_bytes": 50 << 20, "workload": None}
    measure_answer(report)
    priced = offer_priced(current(draft))
    assert priced is not None
    (line,) = priced.lines
    assert line.allocation.count == 1
    assert line.estimate.step_s.mid == pytest.approx(0.02)
    assert line.estimate.time_basis == "measured"
    assert "nothing is known of other devices" in cost(owner, draft)


def test_a_probe_narrows_the_ranges_and_gives_its_device_back(owner: Client, draft: Job) -> None:
    from harness.pool.models import Reservation

    offer = current(draft)
    before = offer_priced(offer)
    owner.post(reverse("job_offer_probe", args=[draft.pk, offer.pk]))
    probe = ProbeRow.objects.get()
    assert Reservation.objects.filter(pk=probe.reservation, cancelled_at=None).exists()
    rows = {"evaluation_row_s": 3e-5, "load_row_s": None}
    steps = {"step_s": [0.02, 0.021], "peak_bytes": 50 << 20}
    measure_answer({"request_id": f"probe-{probe.pk}", "ok": True, **steps, **rows})
    probe.refresh_from_db()
    assert probe.row_s == {"evaluation_row_s": 3e-5}
    assert not Reservation.objects.filter(pk=probe.reservation, cancelled_at=None).exists()
    after = offer_priced(current(draft))
    assert before is not None and after is not None

    def width(offer: Any) -> float:
        line = next(line for line in offer.lines if (line.allocation.count, line.allocation.mode) == (1, "single"))
        return float(line.estimate.run_s.high / line.estimate.run_s.low)

    assert width(after) < width(before)


def test_a_probe_that_fails_says_why(owner: Client, draft: Job) -> None:
    offer = current(draft)
    owner.post(reverse("job_offer_probe", args=[draft.pk, offer.pk]))
    probe = ProbeRow.objects.get()
    problem = {"code": "model_no_build", "message": "model.py has no build(spec).", "hint": "Add it."}
    measure_answer({"request_id": f"probe-{probe.pk}", "ok": False, "problem": problem})
    assert "model.py has no build(spec)." in cost(owner, draft)


def test_predicted_stands_beside_actual(owner: Client, world: SimpleNamespace) -> None:
    job = world.jobs["succeeded"]
    text = cost(owner, job)
    assert "Predicted and actual" in text
    assert "<strong>46 ms</strong>" in text
    assert text.count("inside</span>") == 3
    assert text.count("outside</span>") == 1
    assert "so far" not in text
    assert "so far" in cost(owner, world.jobs["running"])


def test_the_energy_of_a_table_is_not_shown_as_if_a_meter_had_told_it(owner: Client, world: SimpleNamespace) -> None:
    job = world.jobs["succeeded"]
    for basis in ("assumed", "measured"):
        FinishedJobRow.objects.filter(job=job).update(energy_j=74.0, energy_basis=basis)
        energy = cost(owner, job).split('data-label="Actual"')[-1].partition("</td>")[0]
        assert f'<span class="tag">{basis}</span>' in energy
        assert f"74 J ({basis})" in owner.get(reverse("job_tab", args=[job.pk, "results"])).content.decode()


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


def test_a_job_without_an_estimate_says_so(owner: Client, world: SimpleNamespace) -> None:
    assert "This job has no estimate" in cost(owner, world.jobs["failed"])


def test_a_deadline_that_cannot_be_promised_is_submitted_without_a_promise(owner: Client, draft: Job) -> None:
    Allocation.objects.all().delete()
    ask(owner, draft)
    priced = offer_priced(current(draft))
    assert priced is not None
    fastest = min(line.estimate.run_s.mid for line in priced.lines)
    soon = (timezone.now() + timedelta(seconds=fastest + 20)).isoformat()
    text = ask(owner, draft, deadline_utc=soon).content.decode()
    assert "with a chance of" in text
    offer = current(draft)
    place = reverse("job_offer_take", args=[draft.pk, offer.pk])
    owner.post(place, {"submit": "1"})
    draft.refresh_from_db()
    assert draft.state == "draft"
    assert 'value="unpromised"' in text
    owner.post(place, {"submit": "unpromised"})
    draft.refresh_from_db()
    assert (draft.state, draft.promised_at) == ("queued", None)
    assert draft.deadline_at is not None


def test_a_deadline_that_was_offered_and_is_then_refused_can_be_tried_all_the_same(
    owner: Client, draft: Job, world: SimpleNamespace
) -> None:
    Allocation.objects.all().delete()
    ask(owner, draft, deadline_utc=(timezone.now() + timedelta(days=30)).isoformat())
    priced = offer_priced(current(draft))
    assert priced is not None and priced.chosen is not None
    soon = timezone.now() + timedelta(seconds=priced.chosen.latest_s - priced.now_s + 60)
    assert 'value="unpromised"' not in ask(owner, draft, deadline_utc=soon.isoformat()).content.decode()
    other = estimated(world.jobs["queued"], run_s=9 * 3600)  # it is promised the same meanwhile
    Job.objects.filter(pk=other.pk).update(deadline_at=timezone.now() + timedelta(hours=9), promised_at=timezone.now())
    place = reverse("job_offer_take", args=[draft.pk, current(draft).pk])
    owner.post(place, {"submit": "1"})
    draft.refresh_from_db()
    assert draft.state == "draft"
    assert 'value="unpromised"' in cost(owner, draft)
    owner.post(place, {"submit": "unpromised"})
    draft.refresh_from_db()
    assert (draft.state, draft.promised_at) == ("queued", None)


def test_where_nothing_that_was_asked_for_is_offered_another_line_can_be_taken(owner: Client, draft: Job) -> None:
    Allocation.objects.all().delete()
    text = ask(owner, draft, kind="cuda").content.decode()
    priced = offer_priced(current(draft))
    assert priced is not None and priced.chosen is None
    buttons = re.findall(r"<button[^>]*>\s*Take it", text)
    assert len(buttons) == 2 and not any("disabled" in button for button in buttons)
    place = next(at for at, line in enumerate(priced.lines) if line.hindrance is Hindrance.NOT_WISHED)
    wish = {"line": str(place), "made_at": current(draft).made_at.isoformat()}
    owner.post(reverse("job_offer_take", args=[draft.pk, current(draft).pk]), wish)
    draft.refresh_from_db()
    assert draft.spec["resources"]["device"] == "cpu"
    late = ask(owner, draft, deadline_utc=(timezone.now() + timedelta(seconds=2)).isoformat()).content.decode()
    buttons = re.findall(r"<button[^>]*>\s*Take it", late)
    assert len(buttons) == 2 and all("disabled" in button for button in buttons)


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
