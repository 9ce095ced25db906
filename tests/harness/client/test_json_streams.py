"""What programs read of `dlh`: one value, or one a line, with nothing else beside it, whatever happens meanwhile."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from harness.client import Client, watch
from harness.client.errors import Unreachable
from harness.jobs.models import Job
from tests.harness.client.conftest import Dlh, state_set

pytestmark = pytest.mark.usefixtures("portal")


@pytest.fixture
def gone_after(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Has a job answered for so many times; then the portal is gone for good."""
    monkeypatch.setattr(watch, "POLL_S", 0.0)
    monkeypatch.setattr(watch, "REFRESH_S", 0.0)
    monkeypatch.setattr(watch, "outlasting", lambda ask, *_, **__: ask())
    ask = Client.job

    def begin(times: int) -> None:
        left = iter(range(times))

        def asked(self: Any, job_id: str) -> Any:
            if next(left, None) is None:
                raise Unreachable("The portal does not answer.", hint="Is it running?")
            return ask(self, job_id)

        monkeypatch.setattr(Client, "job", asked)

    return begin


def test_a_portal_that_is_gone_while_a_job_is_followed_is_one_more_line(dlh: Dlh, job: Any, gone_after: Any) -> None:
    state_set(job, "running")
    gone_after(3)
    ended = dlh("watch", job.pk, "--json")
    *jobs, last = map(json.loads, ended.out.splitlines())
    assert ended.code == 4 and jobs and {one["id"] for one in jobs} == {job.pk}
    assert last["error"]["code"] == "unreachable"


@pytest.mark.parametrize("as_json", [True, False])
def test_who_waits_for_a_new_job_is_told_which_it_is_where_the_portal_is_gone(
    dlh: Dlh, dataset: Any, gone_after: Any, as_json: bool
) -> None:
    gone_after(2)
    ended = dlh("submit", "--data", dataset.pk, "--wait", *(["--json"] if as_json else []))
    made = Job.objects.get().pk
    assert ended.code == 4
    if as_json:
        error = ended.json["error"]
        assert error["details"] == {"job": made} and f"`dlh watch {made}` follows it" in error["hint"]
    else:
        assert f"It is job {made}: `dlh watch {made}` follows it." in ended.err


def test_letters_that_an_output_does_not_know_reach_a_program_all_the_same(portal: SimpleNamespace, job: Any) -> None:
    name = "Bl\u00fcten \U0001f338"
    state_set(job, "queued", name=name)
    code = "import sys; from harness.client.cli.app import main; sys.argv = ['dlh', 'jobs', '--json']; main()"
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True)
    assert json.loads(done.stdout.decode("ascii"))["items"][0]["name"] == name


def test_a_token_is_asked_for_beside_what_a_program_reads(
    dlh: Dlh, portal: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DLH_TOKEN")
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr("typer._click.termui.hidden_prompt_func", lambda _: portal.token)
    ended = dlh("login", portal.url, "--json")
    assert ended.json["username"] == "owner" and "Token:" in ended.err


def test_measured_points_are_written_to_the_output_as_json_where_it_is_asked_for(dlh: Dlh) -> None:
    assert isinstance(dlh("pool", "calibration", "export", "-", "--json").json, dict)
    assert not dlh("pool", "calibration", "export", "-").out.startswith("{")
