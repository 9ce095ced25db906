"""A run that made more than the store takes of it: what fits returns, the cause names the rest, nothing runs again."""

from __future__ import annotations

import json
import os

import pytest

from harness.jobs.control.effects import events_apply
from harness.jobs.models import Job, JobAttempt
from tests.harness.jobs.helpers import event
from tests.waiting import wait_for
from worker.attempt import Attempt
from worker.events import Outcome
from worker.transfer.carrier import Carrier
from worker.transfer.owed import owed
from worker.transfer.portal import PortalRefused

LIMIT = 300_000


@pytest.fixture(autouse=True)
def limit(attempt) -> None:
    """The run may take little of the disk."""
    attempt.plan["limits"]["disk_bytes"] = LIMIT
    JobAttempt.objects.filter(pk=attempt.pk).update(plan=attempt.plan)


@pytest.fixture
def carrier(limit, depot, plan, here):
    made = Carrier(Attempt(plan, here, "node-1"), depot)
    made.bring(lambda: False)
    yield made
    made.close()


def save(here, step: int, size: int) -> dict[str, object]:
    """A checkpoint, and data of its CHECKPOINT event."""
    name = f"step-{step:08d}"
    (here.checkpoints / name).mkdir()
    (here.checkpoints / name / "state.pt").write_bytes(os.urandom(size))
    (here.checkpoints / name / "MANIFEST.json").write_text(json.dumps({"step": step}))
    return {"name": name, "step": step, "epoch": 1.0, "metric": None, "bytes": size, "best": None, "removed": []}


def ended(carrier, outcome=Outcome.SUCCEEDED):
    return carrier.ended(outcome, None, lambda: False)


def test_results_that_are_too_large_are_named_with_the_limit_and_all_others_return(carrier, depot, here, store):
    for name, size in {"results.json": 10, "predictions.parquet": 2 * LIMIT, "model.safetensors": LIMIT // 2}.items():
        (here.results / name).write_bytes(bytes(size))
    outcome, cause = ended(carrier)
    assert (outcome, cause["code"]) == (Outcome.FAILED, "disk_full")
    assert cause["message"] == (
        "The store does not take predictions.parquet (586 KiB): The files of a run may take 293 KiB."
    )
    assert "DLH_JOB_DISK_GIB" in cause["hint"] and "what was returned is kept" in cause["hint"]
    assert {path.name for path in store.results.iterdir()} == {"results.json", "model.safetensors"}
    carrier.close()
    assert owed(depot.cache), "what the store lacks stays on the node"


def test_the_job_has_failed_with_that_cause_and_does_not_run_again(carrier, plan, here):
    (here.results / "predictions.parquet").write_bytes(bytes(2 * LIMIT))
    outcome, cause = ended(carrier)
    job = Job.objects.get(pk=plan.job_id)
    events_apply(job.pk, [event(job, "exited", 5, rank=-1, outcome=outcome, failure=cause, node="node-1")])
    job.refresh_from_db()
    assert (job.state, job.failure["code"], job.restarts) == ("failed", "disk_full", 0)
    assert "predictions.parquet" in job.failure["message"]


def test_a_checkpoint_that_is_too_large_keeps_no_later_one_back_and_is_told_at_once(carrier, here, store):
    carrier._returner.offer([save(here, 100, 2 * LIMIT), save(here, 200, LIMIT // 3)])
    wait_for((store.checkpoints / "step-00000200").exists)
    (note,) = carrier.notes()
    assert note["message"] == "The store does not take step-00000100 (586 KiB): The files of a run may take 293 KiB."
    kept: list[dict[str, object]] = []
    wait_for(lambda: kept.extend(carrier.kept()) or kept)  # it is there before the portal's answer is
    assert [data["name"] for data in kept] == ["step-00000200"]
    outcome, cause = ended(carrier)
    assert outcome is Outcome.FAILED and "step-00000100" in cause["message"]


def test_one_that_the_run_has_removed_since_is_not_missed(carrier, here, store):
    carrier._returner.offer([save(here, 100, 2 * LIMIT)])
    wait_for(lambda: carrier._returner.too_large.names)
    for path in (here.checkpoints / "step-00000100").iterdir():
        path.unlink()
    (here.checkpoints / "step-00000100").rmdir()
    assert ended(carrier) == (Outcome.SUCCEEDED, None)


def test_one_that_fits_at_the_end_is_returned_then(carrier, attempt, here, store):
    carrier._returner.offer([save(here, 100, 2 * LIMIT)])
    wait_for(lambda: carrier._returner.too_large.names)
    attempt.plan["limits"]["disk_bytes"] = 10 * LIMIT
    JobAttempt.objects.filter(pk=attempt.pk).update(plan=attempt.plan)
    assert ended(carrier) == (Outcome.SUCCEEDED, None)
    assert [data["name"] for data in carrier.kept()] == ["step-00000100"]


def test_what_was_given_up_half_sent_takes_no_room_from_what_follows(carrier, here, store, plan):
    node_pk = JobAttempt.objects.get(job_id=plan.job_id).allocations.get().device.node_id
    stale = store.root / "incoming" / f"1-{node_pk}" / "checkpoint-step-00000050"
    stale.mkdir(parents=True)
    (stale / "state.pt").write_bytes(bytes(LIMIT - 10))
    carrier._returner.offer([save(here, 100, LIMIT // 2)])
    assert ended(carrier) == (Outcome.SUCCEEDED, None)
    assert (store.checkpoints / "step-00000100").exists()


def test_a_run_that_was_lost_anyway_is_lost_and_goes_on_from_what_lies_on_the_node(carrier, here):
    carrier._returner.offer([save(here, 100, 2 * LIMIT)])
    assert ended(carrier, Outcome.LOST) == (Outcome.LOST, None)


def test_a_proxy_that_takes_no_request_of_that_size_is_named_with_what_to_set(carrier, depot, here, monkeypatch):
    send = depot.portal.send

    def refused(method, path, body, **query):
        if len(body) > 1000:
            raise PortalRefused(413, "", "the portal answers 413", None)
        return send(method, path, body, **query)

    monkeypatch.setattr(depot.portal, "send", refused)
    (here.results / "results.json").write_bytes(b"{}")
    (here.results / "model.safetensors").write_bytes(bytes(2000))
    outcome, cause = ended(carrier)
    words = "what answers for the portal takes no request that large (413)."
    assert (outcome, cause["message"]) == (
        Outcome.FAILED, f"The store does not take model.safetensors (2 KiB): {words}",
    )  # fmt: skip
    assert "client_max_body_size" in cause["hint"]


def test_a_log_that_the_portal_takes_no_more_of_keeps_nothing_back(carrier, plan, here, store, monkeypatch):
    monkeypatch.setattr("harness.transfer.returns.LOG_BYTES_MAX", 10)
    log = here.rank_log(plan.token, 0)
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("a line that is too long\n")
    (here.results / "results.json").write_text("{}")
    assert ended(carrier) == (Outcome.SUCCEEDED, None)
    assert (store.results / "results.json").exists()
