"""A job of higher priority pauses a lesser one, which goes on afterwards and ends right: real broker, node, ranks."""

import pytest

from tests.e2e.faults import cores_of
from tests.e2e.stack import END_TIMEOUT_S, items, wait_for

pytestmark = pytest.mark.stack


def test_an_urgent_job_pauses_a_lesser_one_which_resumes_and_ends_right(stack, digits):
    everything = {"device": "cpu", "count": cores_of(stack)}
    training = {"epochs": 16, "seed": 1, "patience": 0}
    lesser = stack.job_submit(digits, {"name": "lesser", "resources": everything, "training": training})
    stack.job_wait_step(lesser, 10)
    queued_at = stack.job(lesser)["queued_at"]
    urgent = stack.job_submit(digits, {"name": "urgent", "resources": everything, "training": {"epochs": 1, "seed": 1}})
    stack.request("PATCH", f"/queue/{urgent}", json={"priority": 90})
    stack.job_wait(urgent, "succeeded")
    # Nobody asks for it: it comes back by itself.
    ended = stack.job_wait(lesser, "succeeded")
    events = items(stack.get(f"/jobs/{lesser}/events"))
    states = [event["new_state"] for event in events if event.get("new_state")]
    paused = states.index("pausing")
    assert states[paused : paused + 3] == ["pausing", "paused", "queued"]
    assert states[-3:] == ["placed", "running", "succeeded"]
    assert any("scheduler pauses it" in event["message"] for event in events)
    assert len(items(stack.get(f"/jobs/{lesser}/attempts"))) == 2
    assert ended["queued_at"] == queued_at
    assert ended["step"] == ended["steps_total"] and ended["epoch"] == 16
    result = stack.get(f"/jobs/{lesser}/results")
    assert result["metric"]["value_test"] > 0.5
    wait_for(lambda: not stack.get("/queue")["waiting"], timeout_s=END_TIMEOUT_S, what="the queue is empty")
    used = {row["name"]: row for row in stack.get("/pool/use", span="day", by="job")["items"]}
    assert used["lesser"]["device_hours"] > used["urgent"]["device_hours"] > 0
    assert used["lesser"]["kwh"] > 0 and used["lesser"]["basis"] in {"measured", "modelled", "assumed"}
