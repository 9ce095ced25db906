"""A draft is queued as it is by `dlh submit`; whoever follows one that is not is told how; what is told is not cut."""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness.client.conftest import Dlh, state_set

pytestmark = pytest.mark.usefixtures("portal")
METRIC = "balanced_accuracy_of_the_rare_classes"


def test_a_draft_is_submitted_as_it_is(dlh: Dlh, job: Any) -> None:
    told = dlh("submit", job.pk, "--json")
    assert (told.code, told.json["id"], told.json["state"]) == (0, job.pk, "queued")
    again = dlh("submit", job.pk)
    assert again.code == 2 and "A job that is queued cannot be submitted" in again.err


def test_what_makes_a_job_does_not_go_with_a_draft(dlh: Dlh, job: Any, dataset: Any) -> None:
    for option in (("--data", dataset.pk), ("--name", "other"), ("--deadline", "4h"), ("--draft",)):
        ended = dlh("submit", job.pk, *option)
        assert ended.code == 2 and "cannot be read: No such file" in ended.err
        assert f"`dlh submit {job.pk}`" in ended.err
    assert dlh("show", job.pk, "--json").json["state"] == "draft"


def test_what_is_neither_a_file_nor_a_draft_is_told_as_such(dlh: Dlh) -> None:
    ended = dlh("submit", "nosuch")
    assert ended.code == 2 and "neither a file nor a draft nosuch" in ended.err and "--state draft" in ended.err


@pytest.mark.parametrize("command", ["watch", "resume"])
def test_of_a_draft_that_is_not_submitted_the_command_that_does_is_told(dlh: Dlh, job: Any, command: str) -> None:
    ended = dlh(command, job.pk)
    assert ended.code == 2 and f"`dlh submit {job.pk}`" in ended.err
    assert dlh(command, job.pk, "--json").json["error"]["hint"]


def test_off_a_terminal_nothing_of_a_job_that_is_followed_is_cut(dlh: Dlh, ended_job: Any) -> None:
    values = {"train/loss": 0.25, "val/loss": 0.5, f"val/{METRIC}": 0.75}
    state_set(ended_job, "succeeded", epochs=23, epoch=23.0, metric_name=METRIC, last_values=values)
    ended = dlh("watch", ended_job.pk)
    line = next(line for line in ended.err.splitlines() if line.startswith("succeeded"))
    assert "epoch 23/23" in line and f"val/{METRIC} 0.75" in line and "…" not in line
