"""The broker loses its memory, the database is locked: no job is lost, none runs twice, states are right afterwards.

Killed parts: `test_faults`; killed at any write, or cut off by PostgreSQL there: `tests/harness/jobs/test_kill_points`.
"""

import threading

import httpx
import pytest

from tests.e2e.faults import at_rest, attempts, broker_forget, cores_of, database_locked, never_at_once
from tests.e2e.held import job_hold, job_let_go
from tests.e2e.stack import END_TIMEOUT_S, wait_for

pytestmark = [pytest.mark.stack, pytest.mark.both_databases]


def test_a_broker_that_loses_its_memory_loses_no_job_that_runs_or_waits(stack, wine):
    everything = {"resources": {"device": "cpu", "count": cores_of(stack)}}
    first = job_hold(stack, wine, name="runs", **everything)
    second = stack.job_submit(wine, {"name": "waits", **everything, "training": {"epochs": 1, "seed": 1}})
    job_let_go(stack, first)
    broker_forget(stack)
    for job in (first, second):
        stack.job_wait(job, "succeeded")
        assert len(attempts(stack, job)) == never_at_once(stack, job) == 1
        assert stack.get(f"/jobs/{job}/results")["metric"]
    at_rest(stack, first, second)


def test_a_locked_database_is_told_as_such_and_costs_no_run(stack, wine):
    if "DLH_DATABASE_URL" in stack.environment:
        pytest.skip("SQLite's alone: PostgreSQL has no one lock for all that write")
    job = job_hold(stack, wine, name="locked out")
    draft = stack.post("/jobs", {"project": stack.project, "dataset": wine, "spec": {"name": "later"}})["id"]
    answers = []

    def submit():
        headers = {"Authorization": f"Bearer {stack.token}"}
        answers.append(httpx.post(f"{stack.url}/api/v1/jobs/{draft}/submit", headers=headers, timeout=120))

    with database_locked(stack):
        job_let_go(stack, job)
        person = threading.Thread(target=submit)
        person.start()
        # Reading goes on; what must be written waits as long as the database's own limit, and is then refused.
        assert stack.job(draft)["state"] == "draft"
        person.join(180)
    (answer,) = answers
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "database_away"), answer.text
    assert int(answer.headers["Retry-After"]) > 0
    stack.job_wait(job, "succeeded")
    assert len(attempts(stack, job)) == 1 and stack.job(job)["restarts"] == 0
    assert stack.job(draft)["state"] == "draft"
    stack.post(f"/jobs/{draft}/cancel")
    wait_for(
        lambda: stack.job(draft)["state"] == "cancelled",
        timeout_s=END_TIMEOUT_S,
        what="the database takes writes again",
    )
    at_rest(stack, job)
