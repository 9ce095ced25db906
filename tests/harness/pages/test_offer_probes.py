"""The cost tab: programs that cannot be read, a few real steps, predicted and actual."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from harness.calibration.models import FinishedJobRow
from harness.estimates.models import Inspection, ProbeRow
from harness.estimates.probe_answers import probe_call_off
from harness.estimates.selectors import offer_priced
from harness.estimates.services import measure_answer
from harness.jobs.models import Job
from harness.pool.models import Reservation
from tests.harness.pages.offer_page import ask, cost, current


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


def test_one_device_tries_what_a_rank_of_a_gang_does_and_the_page_says_so(owner: Client, draft: Job) -> None:
    ask(owner, draft, count="2", device="cpu", mode="sync")
    offer = current(draft)
    probing = owner.post(reverse("job_offer_probe", args=[draft.pk, offer.pk])).content.decode()
    probe = ProbeRow.objects.get()
    assert 1 < probe.rows < probe.batch_size
    assert f"is running a few real steps of the program, {probe.rows} rows each" in " ".join(probing.split())
    measure_answer({"request_id": f"probe-{probe.pk}", "ok": True, "step_s": [0.02, 0.02, 0.02]})
    text = " ".join(cost(owner, draft).split())
    assert f"Last: 3 steps of {probe.rows} rows on {probe.node_name}" in text
    assert f"{probe.rows} rows of a step), messages modelled" in text
    told = owner.get(f"/api/v1/offers/{offer.pk}").json()
    assert told["probe"]["batch_size"] == probe.rows
    (line,) = (line for line in told["lines"] if (line["count"], line["mode"]) == (2, "sync"))
    assert "on one device measured, messages assumed" in line["note"]


def test_a_probe_that_fails_says_why(owner: Client, draft: Job) -> None:
    offer = current(draft)
    owner.post(reverse("job_offer_probe", args=[draft.pk, offer.pk]))
    probe = ProbeRow.objects.get()
    problem = {"code": "model_no_build", "message": "model.py has no build(spec).", "hint": "Add it."}
    measure_answer({"request_id": f"probe-{probe.pk}", "ok": False, "problem": problem})
    assert "model.py has no build(spec)." in cost(owner, draft)


@pytest.mark.parametrize("is_read", [True, False], ids=["read", "not read"])
def test_a_clone_is_not_told_of_steps_that_were_called_off_with_the_other_job(
    owner: Client, draft: Job, is_read: bool
) -> None:
    if not is_read:
        Inspection.objects.filter(pk=current(draft).inspection_id).update(
            state="failed", workload=None, problem={"code": "cannot_trace", "message": "Its loop depends on values."}
        )
        ask(owner, draft)
    owner.post(reverse("job_offer_probe", args=[draft.pk, current(draft).pk]))
    probe_call_off(ProbeRow.objects.get())
    text = cost(owner, draft)
    assert "Try a few real steps" in text
    assert "No job waited for these steps" not in text and "The last try" not in text and "failed:" not in text


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


def test_a_job_without_an_estimate_says_so(owner: Client, world: SimpleNamespace) -> None:
    assert "This job has no estimate" in cost(owner, world.jobs["failed"])


def test_an_offer_that_cannot_be_priced_says_so_and_can_be_asked_for_again(
    owner: Client, draft: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr("harness.estimates.pricing.recommend", lambda *_, **__: {}["core"])
        shown = ask(owner, draft).content.decode()
    assert "Pricing this offer failed: KeyError (see the logs of portal and control, id " in shown
    assert "KeyError: " not in shown
    assert "Ask for it again." in shown and "Ask again" in shown and "hx-trigger" not in shown
    assert "Try a few real steps" not in shown and "does not run" not in shown
    assert "Pricing this offer failed" in cost(owner, draft)
    ask(owner, draft)
    assert current(draft).state == "ready"
