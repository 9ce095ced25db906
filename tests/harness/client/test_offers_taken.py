"""`dlh jobs offer --take`: a line of an offer that was shown, and what keeps it from being taken."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from harness.client import ApiError, Client
from harness.estimates.models import OfferRow
from harness.estimates.settling import offer_settle
from harness.pool.models import Device
from scheduler.offers.values import Offer
from scheduler.offers.words import devices_words
from tests.factory_offers import offer_make
from tests.harness.client.conftest import Dlh

pytestmark = pytest.mark.usefixtures("portal")


def test_a_line_of_a_jobs_offer_is_taken(dlh: Dlh, job: Any, node_make: Any) -> None:
    node_make("node-1", cpus=2)
    offer_make(job.owner, job)
    ended = dlh("jobs", "offer", job.pk, "--count", "2", "--take", "recommended", "--json")
    assert ended.code == 0
    job.refresh_from_db()
    assert job.spec["resources"]["count"] == 2
    assert job.options


def line_numbers(table: str, words: str) -> list[str]:
    """Numbers of the lines of a printed table that hold these words."""
    return [line.split()[0] for line in table.splitlines() if words in line and line.split()[0].isdecimal()]


def test_a_number_takes_the_line_of_the_offer_that_was_shown_and_says_which_it_was(
    dlh: Dlh, job: Any, node_make: Any
) -> None:
    node_make("node-1", cpus=3)
    offer_make(job.owner, job)
    shown = dlh("jobs", "offer", job.pk)
    number = line_numbers(shown.out, "3 CPU cores")[-1]
    offer = OfferRow.objects.latest("created_at")
    way = Offer.from_dict(offer.body).lines[int(number)].allocation
    assert f"Offer {offer.pk}" in shown.out
    # Whatever a new offer would have in that place: none is made.
    node_make("node-2", cpus=7)
    ended = dlh("jobs", "offer", job.pk, "--take", number)
    assert (ended.code, ended.out) == (0, "")
    told = " ".join(ended.err.split())
    taken = f"Taken: line {number}, {devices_words(way)}, done by "
    assert told.startswith(taken)
    assert told.removeprefix(taken).partition(",")[0] in shown.out, "as the table said it"
    assert "), assumed" in told, "what its energy rests on"
    assert f"the job {job.name} stays a draft until the same command with --submit queues it." in told and " (" in told
    assert OfferRow.objects.latest("created_at") == offer
    job.refresh_from_db()
    assert (job.spec["resources"]["count"], job.spec["mode"]) == (3, way.mode)


def test_a_number_without_an_offer_that_was_shown_is_refused_in_plain_words(dlh: Dlh, job: Any, node_make: Any) -> None:
    node_make("node-1", cpus=2)
    offer_make(job.owner, job)
    ended = dlh("jobs", "offer", job.pk, "--take", "1")
    assert ended.code == 2
    assert "No offer of this job has been shown by `dlh` here." in " ".join(ended.err.split())
    asked = dlh("jobs", "offer", job.pk, "--take", "1", "--count", "2")
    assert asked.code == 2 and "A number is of the table that was shown last" in asked.err


def test_a_number_that_no_line_has_is_told_with_those_that_there_are(dlh: Dlh, job: Any, node_make: Any) -> None:
    node_make("node-1", cpus=2)
    offer_make(job.owner, job)
    last = len(dlh("jobs", "offer", job.pk, "--json").json["lines"]) - 1
    refused = dlh("jobs", "offer", job.pk, "--take", "99")
    assert refused.code == 2
    assert "This offer has no line 99." in refused.err and f"Its lines are 0 to {last}." in refused.err


def test_a_line_is_taken_and_the_same_command_with_submit_queues_the_draft(dlh: Dlh, job: Any, node_make: Any) -> None:
    node_make("node-1", cpus=2)
    offer_make(job.owner, job)
    dlh("jobs", "offer", job.pk)
    taken = dlh("jobs", "offer", job.pk, "--take", "0")
    assert taken.code == 0 and "stays a draft until the same command with --submit queues it." in taken.err
    queued = dlh("jobs", "offer", job.pk, "--take", "0", "--submit")
    assert queued.code == 0 and f"the job {job.name} is queued." in queued.err


def test_a_draft_in_the_trash_is_told_to_be_there(dlh: Dlh, job: Any, node_make: Any) -> None:
    node_make("node-1")
    assert dlh("jobs", "rm", job.pk).code == 0
    refused = dlh("jobs", "offer", job.pk)
    assert refused.code != 0 and "in the trash" in refused.err and "draft is draft" not in refused.err


def shown_and_priced_anew(dlh: Dlh, job: Any) -> str:
    """An offer that has changed since `dlh` showed it."""
    offer_make(job.owner, job)
    offer_id: str = dlh("jobs", "offer", job.pk, "--json").json["id"]
    OfferRow.objects.filter(pk=offer_id).update(state="waiting")
    offer_settle(OfferRow.objects.get(pk=offer_id))
    return offer_id


def test_an_offer_that_was_priced_anew_since_it_was_shown_gives_none_of_its_lines_by_number(
    dlh: Dlh, job: Any, node_make: Any
) -> None:
    node_make("node-1", cpus=2)
    offer_id = shown_and_priced_anew(dlh, job)
    refused = dlh("jobs", "offer", job.pk, "--take", "1", "--submit")
    assert refused.code == 2
    assert "priced anew since you saw it" in refused.err and f"--offer {offer_id}" in refused.err
    assert dlh("jobs", "offer", job.pk, "--offer", offer_id).code == 0
    assert dlh("jobs", "offer", job.pk, "--take", "1").code == 0


def test_what_is_seen_elsewhere_is_no_table_that_was_shown_here(
    dlh: Dlh, client: Client, job: Any, node_make: Any, home: Path
) -> None:
    node_make("node-1", cpus=2)
    offer_id = shown_and_priced_anew(dlh, job)
    seen = client.get(f"/offers/{offer_id}")  # as a page in a browser does
    refused = dlh("jobs", "offer", job.pk, "--take", "1")
    assert refused.code == 2 and "priced anew since you saw it" in refused.err
    (home / "dlh" / "offers.json").unlink()
    refused = dlh("jobs", "offer", job.pk, "--offer", offer_id, "--take", "1")
    assert f"Offer {offer_id} of this job has not been shown by `dlh` here." in " ".join(refused.err.split())
    with pytest.raises(ApiError) as blind:
        client.send("POST", f"/offers/{offer_id}/accept", {"line": 1})
    assert blind.value.status == 422
    client.send("POST", f"/offers/{offer_id}/accept", {"line": 1, "made_at": seen["made_at"]})
    job.refresh_from_db()
    assert job.options


def test_an_older_offer_is_taken_by_its_id_and_one_of_another_job_is_not(
    dlh: Dlh, job: Any, job_make: Any, node_make: Any
) -> None:
    node_make("node-1", cpus=2)
    offer_make(job.owner, job)
    first = dlh("jobs", "offer", job.pk, "--count", "2", "--json").json
    dlh("jobs", "offer", job.pk, "--count", "1")
    other = job_make()
    assert dlh("jobs", "offer", other.pk, "--offer", first["id"]).code == 2
    assert dlh("jobs", "offer", other.pk, "--offer", first["id"], "--take", "recommended").code == 2
    ended = dlh("jobs", "offer", job.pk, "--offer", first["id"], "--take", "recommended")
    assert ended.code == 0 and "2 CPU cores" in ended.err
    job.refresh_from_db()
    assert job.spec["resources"]["count"] == 2


def test_devices_that_left_since_the_offer_was_shown_are_told_with_the_new_offer(
    dlh: Dlh, job: Any, node_make: Any
) -> None:
    node_make("node-1", cpus=2)
    offer_make(job.owner, job)
    number = line_numbers(dlh("jobs", "offer", job.pk).out, "2 CPU cores")[0]
    Device.objects.filter(kind="cpu", index=1).delete()
    ended = dlh("jobs", "offer", job.pk, "--take", number)
    assert ended.code == 2 and "no node that takes work has them any more" in ended.err
    fresh = OfferRow.objects.latest("created_at").pk
    assert f"`dlh jobs offer {job.pk} --offer {fresh}`" in " ".join(ended.err.split())


def test_a_deadline_that_has_passed_is_told_with_a_remedy_and_not_with_an_offer_that_has_none(
    dlh: Dlh, job: Any, node_make: Any
) -> None:
    node_make("node-1", cpus=2)
    offer_make(job.owner, job)
    number = line_numbers(dlh("jobs", "offer", job.pk).out, "2 CPU cores")[0]
    OfferRow.objects.filter(job=job).update(deadline_at=datetime.now(UTC) - timedelta(minutes=5))
    ended = dlh("jobs", "offer", job.pk, "--take", number)
    said = " ".join(ended.err.split())
    assert ended.code == 2 and "The deadline of this offer" in said and "has passed" in said
    assert "Nothing was taken. Ask again with a later deadline, or none." in said and "--offer" not in said


def test_a_way_that_may_be_late_is_taken_and_submitted_without_a_promise(dlh: Dlh, job: Any, node_make: Any) -> None:
    node_make("node-1", cpus=1)
    offer_make(job.owner, job)
    run_s = dlh("jobs", "offer", job.pk, "--json").json["lines"][0]["run_s"]
    by = datetime.now(UTC) + timedelta(seconds=(run_s["mid"] + run_s["high"]) / 2)
    ended = dlh("jobs", "offer", job.pk, "--deadline", by.isoformat(), "--submit", "--no-promise", "--json")
    assert ended.json["recommended"] is None
    assert 0.5 < ended.json["lines"][0]["chance"] < 0.9
    job.refresh_from_db()
    assert (ended.code, job.state, job.promised_at) == (0, "queued", None)
    assert f"the job {job.name} is queued, without a promise: Its deadline is not promised" in ended.err


def test_a_deadline_for_a_job_that_waits_is_refused_with_its_field(dlh: Dlh, job: Any, node_make: Any) -> None:
    node_make("node-1", cpus=1)
    offer_make(job.owner, job)
    assert dlh("jobs", "offer", job.pk, "--submit").code == 0
    refused = dlh("jobs", "offer", job.pk, "--deadline", "2090-01-01T00:00", "--json")
    assert (refused.code, refused.json["error"]["field"]) == (2, "deadline")
    assert dlh("jobs", "offer", job.pk, "--deadline", "none").code == 0
