"""`--deadline earliest`: what the button *Ask for the earliest finish* does, from the command line."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from harness.client import ApiError, Client
from harness.estimates.models import Inspection, OfferRow
from harness.estimates.settling import offer_settle
from harness.jobs.models import Job
from tests.factory_offers import offer_make, workload_make
from tests.harness.client.conftest import Dlh

pytestmark = pytest.mark.usefixtures("portal")


@pytest.fixture
def read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node has read whatever program is asked about."""
    from harness.estimates import offers

    def reading(**fields: Any) -> Inspection:
        made, _ = Inspection.objects.get_or_create(
            key=offers.content_key(fields["files"], fields["dataset_sha256"]),
            defaults={"dataset_sha256": fields["dataset_sha256"], "state": "done", "sent_at": datetime.now(UTC),
                      "workload": workload_make().to_dict()},
        )  # fmt: skip
        return made

    monkeypatch.setattr(offers, "inspection_request", reading)


@pytest.fixture
def read_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node has read the program by the first look at what became of the offer."""
    from harness.api.routes import offers as routes

    def refresh(offer: Any) -> Any:
        if offer.state == "waiting":
            done = {"state": "done", "workload": workload_make().to_dict()}
            Inspection.objects.filter(pk=offer.inspection_id).update(**done)
            offer.refresh_from_db()
            return offer_settle(offer)
        return offer

    monkeypatch.setattr(routes.services, "offer_refresh", refresh)


def test_a_draft_is_asked_for_the_earliest_finish(dlh: Dlh, job: Any, node_make: Any) -> None:
    node_make("node-1", cpus=2)
    offer_make(job.owner, job)
    ended = dlh("jobs", "offer", job.pk, "--deadline", "earliest", "--json")
    found = ended.json
    by = datetime.fromisoformat(found["deadline"])
    line = found["lines"][found["recommended"]]
    assert ended.code == 0 and by.second == 0
    assert datetime.fromisoformat(line["finish_high"]) <= by
    job.refresh_from_db()
    assert job.deadline_at is None, "nothing is written before a line is taken"


@pytest.mark.usefixtures("read_at_once")
def test_a_bare_spec_is_asked_for_it_too(dlh: Dlh, dataset: Any, node_make: Any) -> None:
    node_make("node-1", cpus=2)
    found = dlh("offer", "--data", dataset.pk, "--deadline", "earliest", "--json").json
    assert found["deadline"] and found["recommended"] is not None


def test_a_workload_is_asked_for_it_too(dlh: Dlh, node_make: Any, tmp_path: Path) -> None:
    node_make("node-1", cpus=2)
    file = tmp_path / "trace.json"
    file.write_text(json.dumps(workload_make().to_dict()))
    found = dlh("offer", "--workload", file, "--deadline", "earliest", "--json").json
    assert found["deadline"] and found["recommended"] is not None


def test_a_job_that_waits_keeps_its_deadline(dlh: Dlh, job: Any, node_make: Any) -> None:
    node_make("node-1", cpus=2)
    offer_make(job.owner, job)
    Job.objects.filter(pk=job.pk).update(state="queued")
    refused = dlh("jobs", "offer", job.pk, "--deadline", "earliest")
    assert refused.code == 2 and "its deadline was fixed when it was submitted (none)" in refused.err


@pytest.mark.usefixtures("read_at_once")
def test_a_job_is_submitted_for_the_earliest_finish_and_promised_it(dlh: Dlh, dataset: Any, node_make: Any) -> None:
    node_make("node-1", cpus=2)
    ended = dlh("submit", "--data", dataset.pk, "--deadline", "earliest")
    job = Job.objects.get()
    assert ended.code == 0, ended.err
    assert (job.state, job.promised_at) == ("queued", job.deadline_at) and job.deadline_at is not None
    assert job.deadline_at - datetime.now(UTC) < timedelta(hours=2)
    assert f"{job.name}  queued, promised by " in ended.out and "Taken: " in ended.err


@pytest.mark.usefixtures("read_at_once")
def test_a_draft_of_it_holds_the_earliest_finish_and_says_what_queues_it(
    dlh: Dlh, dataset: Any, node_make: Any
) -> None:
    node_make("node-1", cpus=2)
    ended = dlh("submit", "--data", dataset.pk, "--deadline", "earliest", "--draft")
    job = Job.objects.get()
    assert (job.state, job.deadline_at is not None) == ("draft", True)
    command = f"dlh jobs offer {job.pk} --take recommended --submit"
    assert f"stays a draft until `{command}` queues it." in " ".join(ended.err.split())
    assert dlh(*command.split()[1:]).code == 0
    job.refresh_from_db()
    assert job.promised_at == job.deadline_at


@pytest.mark.usefixtures("read_at_once")
def test_a_job_whose_learning_rate_is_tested_first_is_told_to_queue_by_itself(
    dlh: Dlh, dataset: Any, node_make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from harness.rates import submitting

    monkeypatch.setattr(submitting, "_rate_first", lambda *_, **__: True)
    node_make("node-1", cpus=2)
    ended = dlh("submit", "--data", dataset.pk, "--deadline", "earliest")
    assert ended.code == 0
    assert "is queued by itself once the test of its learning rate is over." in " ".join(ended.err.split())


@pytest.mark.usefixtures("read_later")
def test_a_program_that_was_not_read_yet_is_asked_about_again_when_it_is(dlh: Dlh, job: Any, node_make: Any) -> None:
    node_make("node-1", cpus=2)
    ended = dlh("jobs", "offer", job.pk, "--deadline", "earliest", "--json")
    assert ended.code == 0 and ended.json["recommended"] is not None
    assert "A node is reading the program" in ended.err


@pytest.fixture
def later_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if an hour went by from one look at the clock to the next."""
    from harness.client.cli import moments

    spans_s = iter(range(3_600, 36_000, 3_600))
    monkeypatch.setattr(moments, "budget_read", lambda text: float(next(spans_s)))


def _hours_left(offer: Any) -> int:
    return round((offer.deadline_at - datetime.now(UTC)).total_seconds() / 3_600)


@pytest.mark.usefixtures("later_each_time", "read_later")
def test_a_span_counts_from_the_offer_and_again_from_when_the_program_is_read(
    dlh: Dlh, job: Any, node_make: Any
) -> None:
    node_make("node-1", cpus=2)
    ended = dlh("jobs", "offer", job.pk, "--deadline", "1h", "--json")
    assert ended.code == 0
    first, last = OfferRow.objects.order_by("created_at")
    assert (_hours_left(first), _hours_left(last)) == (2, 3), "the first hour was that of the check of the option"
    assert ended.json["id"] == last.pk


@pytest.mark.usefixtures("later_each_time", "read_at_once")
def test_a_span_of_an_offer_or_a_job_counts_from_when_its_data_are_there(
    dlh: Dlh, dataset: Any, node_make: Any
) -> None:
    node_make("node-1", cpus=2)
    assert dlh("offer", "--data", dataset.pk, "--deadline", "1h", "--json").code == 0
    assert _hours_left(OfferRow.objects.get()) == 2
    assert dlh("submit", "--data", dataset.pk, "--deadline", "1h", "--draft").code == 0
    assert _hours_left(Job.objects.get()) == 4


def test_a_fixed_deadline_is_asked_for_once(dlh: Dlh, job: Any, node_make: Any, read_at_once: None) -> None:
    node_make("node-1", cpus=2)
    assert dlh("jobs", "offer", job.pk, "--deadline", "2035-01-31", "--json").code == 0
    assert OfferRow.objects.count() == 1


def test_a_deadline_that_is_none_is_told_before_data_are_sent(dlh: Dlh, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n")
    refused = dlh("submit", "--data", tmp_path / "rows.csv", "--deadline", "soon")
    assert refused.code == 2 and "--deadline 'soon' is not a valid time" in refused.err
    assert dlh("data", "list", "--json").json == []


def test_what_cannot_be_offered_is_refused_and_the_draft_is_named(
    dlh: Dlh, dataset: Any, node_make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from harness.client.cli import asking

    problem = {"message": "model.py has no function build(spec).", "hint": "Add it."}
    failed = {"id": "x", "state": "failed", "text": "", "changes": [], "problem": problem, "recommended": None}
    monkeypatch.setattr(asking, "ready", lambda *_: failed)
    node_make("node-1")
    ended = dlh("submit", "--data", dataset.pk, "--deadline", "earliest", "--json")
    job = Job.objects.get()
    assert (ended.code, job.state, ended.json["error"]["details"]) == (2, "draft", {"job": job.pk})
    assert ended.json["error"]["message"] == problem["message"]
    assert f"The draft is kept as {job.pk}." in ended.json["error"]["hint"]


@pytest.mark.parametrize(("text", "kept"), [("2035-01-31T18:00:00+00:00", True), ("none", False)])
def test_any_other_deadline_of_a_submitted_job_counts_over_that_of_its_spec(
    dlh: Dlh, dataset: Any, tmp_path: Path, text: str, kept: bool
) -> None:
    spec = tmp_path / "spec.yaml"
    spec.write_text("budget:\n  deadline: 2034-01-01\n")
    assert dlh("submit", spec, "--data", dataset.pk, "--deadline", text, "--draft").code == 0
    assert Job.objects.get().deadline_at == (datetime.fromisoformat(text) if kept else None)
    refused = dlh("submit", spec, "--data", dataset.pk, "--deadline", "soon")
    assert refused.code == 2 and "--deadline 'soon' is not a valid time" in refused.err


def test_an_offer_is_asked_for_by_one_deadline_not_by_two(client: Client, job: Any) -> None:
    with pytest.raises(ApiError) as refused:
        client.send("POST", f"/jobs/{job.pk}/offers", {"earliest": True, "deadline": "2035-01-31T18:00:00Z"})
    assert refused.value.status == 422 and "deadline or earliest, not both" in refused.value.message
