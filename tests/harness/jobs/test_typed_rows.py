"""What rows keep as JSON, the plans and failures of runs and the ends of nodes, is read as typed values alone."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path

import pytest

from harness.jobs.failures import CAUSES, RunFailure, failure_of, failure_read, given_up
from harness.jobs.models import Job, JobAttempt
from harness.jobs.node_ends import NodeEnd, end_read
from harness.jobs.plan_rows import plan_read
from tests.harness.jobs.helpers import run_now
from worker.events import FailureCode, Outcome
from worker.plan import Limits, RankPlan, RunPlan
from worker.shares import Line

ROOT = Path(__file__).parents[3]
FIRST_RANK = {
    "rank": 0, "node": "node-1", "local_rank": 0, "device": "cpu", "threads": 2, "others": [], "slowdown": 1.0,
    "rows": 0, "rows_most": 0, "line": None,
}  # fmt: skip
FIRST = {
    "job_id": "abc", "token": 3, "mode": "single", "ranks": [FIRST_RANK], "job_dir": "/s/jobs/abc",
    "dataset_dir": "/s/datasets/d/packed",
    "limits": {"memory_bytes": 9, "disk_bytes": 8, "processes": 512, "wall_s": None, "stall_s": 300.0},
    "minimum_sandbox_level": 1, "own_code": False, "resume_from": "step-00000004", "backend": "horovod",
    "environment": {}, "addresses": {}, "note": "", "version": 1,
}  # fmt: skip
"""A row as the first state of the sources wrote it."""


def kept(plan: RunPlan) -> RunPlan:
    """The plan as a row gives it back: lists for tuples, as in any JSON."""
    return plan_read(json.loads(plan.to_json()))


@pytest.fixture
def plan() -> RunPlan:
    """Every field differs from its default."""
    line = Line(fixed_s=0.5, row_s=0.25)
    rank = RankPlan(
        rank=0, node="a", local_rank=0, device="cuda:0", threads=3, others=("cuda:1",), slowdown=2.0, rows=5,
        rows_most=9, line=line,
    )  # fmt: skip
    other = RankPlan(rank=1, node="b", local_rank=0, device="cpu", threads=1)
    return RunPlan(
        job_id="abc", token=7, mode="sync", ranks=(rank, other), job_dir="/j", dataset_dir="/d",
        limits=Limits(memory_bytes=1, disk_bytes=2, processes=3, wall_s=4.0, stall_s=5.0),
        minimum_sandbox_level=2, own_code=True, resume_from="step-00000001", backend="torch", environment={"A": "1"},
        addresses={"a": "10.0.0.1", "b": "10.0.0.2"}, note="n", least=1, most=2, word="w", network=5, network_port=6,
        event_stream=4, weights_dir="/w",
    )  # fmt: skip


def test_a_plan_comes_back_from_its_row_as_it_was(plan):
    assert kept(plan) == plan == RunPlan.from_dict(json.loads(plan.to_json()))
    for one in fields(RunPlan):
        assert one.name == "version" or getattr(plan, one.name) != getattr(plan_read({}), one.name), one.name


def test_a_row_of_the_first_release_has_what_came_later_as_nothing():
    plan = plan_read(FIRST)
    assert plan == RunPlan.from_dict(FIRST)
    assert (plan.least, plan.most, plan.word, plan.network, plan.network_port, plan.event_stream) == (0, 0, "", 0, 0, 0)
    assert (plan.nodes, plan.resume_from, plan.limits.disk_bytes) == (("node-1",), "step-00000004", 8)


def test_a_row_of_a_later_release_is_read_though_no_node_would_take_it(plan):
    later = json.loads(plan.to_json())
    later |= {"version": 2, "moon": 1, "limits": later["limits"] | {"moon": 1}}
    later["ranks"] = [rank | {"moon": 1} for rank in later["ranks"]]
    assert plan_read(later).ranks == plan.ranks and plan_read(later).limits == plan.limits
    with pytest.raises(ValueError, match="version 2"):
        RunPlan.from_dict(later)


def test_a_row_without_a_plan_has_no_ranks():
    assert plan_read({}).nodes == () and plan_read({"ranks": None, "limits": None}).world_size == 0
    assert plan_read({"ranks": [{"node": "a"}]}).nodes == ("a",)


@pytest.mark.django_db
@pytest.mark.usefixtures("tasks_sent")
def test_an_attempt_has_its_plan_typed(job, node_make):
    node_make()
    run_now(job)
    attempt = JobAttempt.objects.only("plan").get()
    assert attempt.run_plan == RunPlan.from_dict(attempt.plan)
    assert attempt.run_plan.job_id == job.pk and attempt.get_deferred_fields() >= {"job_id", "option"}


def test_a_failure_comes_back_from_its_row_as_it_was():
    body = {"code": "nan_loss", "message": "m", "hint": "h", "step": 0, "traceback": "t", "suffered": True}
    told = failure_of(body, fallback=FailureCode.PROGRAM_ERROR)
    row = told.to_dict()
    assert list(row) == ["code", "message", "hint", "step", "traceback"] and type(row["code"]) is str
    assert failure_read(json.loads(json.dumps(row))) == told
    assert Job(failure=row).run_failure == told == JobAttempt(failure=row).run_failure


@pytest.mark.parametrize("body", [None, {}])
def test_where_nothing_failed_there_is_no_failure(body):
    assert failure_read(body) is Job(failure=body).run_failure is JobAttempt(failure=body).run_failure is None


def test_a_failure_of_another_release_is_told_as_far_as_it_goes():
    told = failure_read({"code": "moon_fell", "message": "The moon fell.", "moon": 1})
    assert told == RunFailure(code="moon_fell", message="The moon fell.", hint="")
    assert told.cause is None and failure_read({"message": "m"}).cause is None


def test_a_run_that_is_given_up_names_the_next_step_of_its_cause():
    told = given_up(RunFailure(code="node_lost", message="Lost.", hint="h", traceback="t"), 3)
    assert told.message == "Lost. It was restarted 3 times without a new checkpoint, then given up."
    assert (told.hint, told.traceback) == (CAUSES[FailureCode.NODE_LOST].hint, "t")
    assert given_up(RunFailure(code="moon_fell", message="m", hint="h"), 1).hint == "h"


def test_the_end_of_a_node_comes_back_from_its_row_as_it_was():
    failure = {"code": "stalled", "message": "m", "suffered": True}
    end = NodeEnd(node="a", outcome=Outcome.LOST, failure=failure, rescue=("step-00000004",), unmet=True, ended_s=7.5)
    row = end.to_dict()
    assert (
        list(row) == ["node", "outcome", "failure", "rescue", "leftover", "unmet", "ended_s"]
        and type(row["outcome"]) is str
    )
    assert end_read(json.loads(json.dumps(row))) == end and end.has_suffered and end.has_stalled
    assert end.message == "m" and end_read({}).message == ""


def test_the_end_of_a_node_in_another_release_s_row_is_told_as_far_as_it_goes():
    assert end_read({"node": "a", "outcome": "paused"}) == NodeEnd(node="a", outcome=Outcome.PAUSED)
    assert end_read({"node": "a", "outcome": "moon_fell", "failure": None, "moon": 1}).outcome is Outcome.LOST


def sources() -> list[str]:
    """All of the portal's Python files and templates."""
    files = [*ROOT.glob("harness/**/*.py"), *ROOT.glob("templates/**/*.html")]
    return [file.read_text(encoding="utf-8") for file in files]


def test_nobody_reads_their_keys_past_the_types():
    raw = re.compile(r"""\.(?:plan|failure)(?:\[|\.get\(| or \{\}|\.(?:message|hint|step|traceback|code)\b)""")
    assert [found for text in sources() for found in raw.findall(text)] == []


def test_queries_name_keys_that_they_have():
    named = {found for text in sources() for found in re.findall(r"\b(plan|failure)__([a-z_]+?)(?:__[a-z]+)?\b", text)}
    assert ("plan", "network_port") in named and ("failure", "code") in named
    known = {"plan": {one.name for one in fields(RunPlan)}, "failure": {one.name for one in fields(RunFailure)}}
    assert {(field, key) for field, key in named if key not in known[field]} == set()
