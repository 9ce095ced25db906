"""A draft is queued as it is by `dlh submit`; whoever follows one that is not is told how; what is told is not cut."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from harness.client import watch
from harness.jobs.models import Job
from harness.jobs.states import job_note
from harness.rates.models import RateTest
from tests.harness.client.conftest import Dlh, state_set

pytestmark = pytest.mark.usefixtures("portal")
METRIC = "balanced_accuracy_of_the_rare_classes"


def test_a_draft_is_submitted_as_it_is(dlh: Dlh, job: Any) -> None:
    told = dlh("submit", job.pk, "--json")
    assert (told.code, told.json["id"], told.json["state"]) == (0, job.pk, "queued")
    again = dlh("submit", job.pk)
    assert again.code == 2 and "A job that is queued cannot be submitted" in again.err
    assert "It was submitted already: it starts by itself." in again.err


def test_who_does_not_wait_is_told_the_command_that_goes_on(dlh: Dlh, job: Any, dataset: Any) -> None:
    assert f"`dlh watch {job.pk}` follows it." in dlh("submit", job.pk).err
    told = dlh("submit", "--data", dataset.pk, "--draft")
    made = told.out.split()[0]
    assert f"`dlh jobs offer {made}` tells what it would cost, `dlh submit {made}` queues it." in told.err
    assert "dlh watch" not in told.out and "dlh" not in dlh("submit", "--data", dataset.pk, "--draft", "--json").err


def test_what_makes_a_job_does_not_go_with_a_draft(dlh: Dlh, job: Any, dataset: Any) -> None:
    for option in (("--data", dataset.pk), ("--name", "other"), ("--deadline", "4h"), ("--draft",)):
        ended = dlh("submit", job.pk, *option)
        assert ended.code == 2 and "cannot be read: No such file" in ended.err
        assert f"`dlh submit {job.pk}`" in ended.err
    assert dlh("show", job.pk, "--json").json["state"] == "draft"


def test_what_it_learns_to_predict_is_told_where_the_spec_leaves_that_open(
    dlh: Dlh, dataset: Any, tmp_path: Path
) -> None:
    told = f"It learns to predict {dataset.profile['target']}."
    assert told in dlh("submit", "--data", dataset.pk, "--draft").err
    spec = tmp_path / "spec.yaml"
    spec.write_text(f"name: named\ndata: {{target: {dataset.profile['target']}}}\n")
    assert told not in dlh("submit", spec, "--data", dataset.pk, "--draft").err
    assert told not in dlh("submit", "--data", dataset.pk, "--draft", "--json").err


OPEN = {
    "another name": "name: other",
    "the dataset": "data: {dataset: DATASET}",
    "auto": "data: {target: auto}",
    "the split": "data: {split: {validation: 0.2, test: 0.2}}",
    "a column left out": "data: {exclude: [COLUMN]}",
    "the task": "task: tabular_classification",
}


@pytest.mark.parametrize("text", OPEN.values(), ids=OPEN)
def test_it_is_told_as_well_where_the_spec_says_other_things_of_the_data(
    dlh: Dlh, dataset: Any, tmp_path: Path, text: str
) -> None:
    spec = tmp_path / "spec.yaml"
    spec.write_text(text.replace("DATASET", dataset.pk).replace("COLUMN", dataset.profile["columns"][0]["name"]))
    made = dlh("submit", spec, "--data", dataset.pk, "--draft")
    target = dataset.profile["target"]
    assert (made.code, f"It learns to predict {target}." in made.err) == (0, True), made.err
    resolved = Job.objects.get().resolved["spec"]
    assert resolved["data"]["target"] == target


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


@pytest.fixture
def passes_through(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any, Sequence[str]], None]:
    """Has a draft whose range test comes first pass through states, one each time that it is asked for."""
    monkeypatch.setattr(watch, "POLL_S", 0.0)
    monkeypatch.setattr(watch, "REFRESH_S", 0.0)
    ask = watch.Client.job

    def begin(job: Any, states: Sequence[str]) -> None:
        rest = iter(states)

        def asked(self: Any, job_id: str) -> Any:
            if state := next(rest, ""):
                RateTest.objects.filter(job=job).update(submit=False)
                state_set(job, state)
            return ask(self, job_id)

        RateTest.objects.create(job=job, by=job.owner, submit=True)
        monkeypatch.setattr(watch.Client, "job", asked)

    return begin


@pytest.mark.parametrize(("ends_as", "code"), [("succeeded", 0), ("failed", 1)])
@pytest.mark.parametrize("command", [("submit", "--wait"), ("watch",)])
def test_who_waits_for_a_job_whose_rate_is_tested_first_waits_for_its_training(
    dlh: Dlh, job: Any, passes_through: Any, monkeypatch: pytest.MonkeyPatch, command: Any, ends_as: str, code: int
) -> None:
    monkeypatch.setattr("harness.rates.submitting.rate_before", lambda **_: True)
    passes_through(job, ["", "", "queued", "running", ends_as])
    ended = dlh(command[0], job.pk, *command[1:])
    assert ended.code == code and f": {ends_as}" in ended.out


def test_a_draft_that_is_not_submitted_after_its_test_is_told_with_the_reason(
    dlh: Dlh, job: Any, passes_through: Any
) -> None:
    passes_through(job, ["", "draft"])
    job_note(job, "person", "Not submitted: The disk quota is used up.")
    ended = dlh("watch", job.pk)
    assert ended.code == 5
    assert f"Not submitted: The disk quota is used up. `dlh submit {job.pk}` submits it again." in ended.err


@pytest.mark.parametrize("command", [("watch",), ("watch", "--json"), ("logs", "--follow")])
def test_who_follows_a_job_that_is_paused_is_told_how_it_goes_on(dlh: Dlh, job: Any, command: Any) -> None:
    state_set(job, "paused")
    ended = dlh(command[0], job.pk, *command[1:])
    assert ended.code == (0 if command[0] == "logs" else 5)
    assert (f"`dlh resume {job.pk}`" in ended.err) is ("--json" not in command)


@pytest.mark.parametrize("broken", ["training: {epochs: 010}", "training: ["])
def test_a_spec_that_cannot_be_read_is_told_where_it_would_name_the_data(
    dlh: Dlh, dataset: Any, tmp_path: Path, broken: str
) -> None:
    spec = tmp_path / "spec.yaml"
    spec.write_text(f"data: {{dataset: {dataset.pk}}}\n{broken}\n")
    ended = dlh("submit", spec)
    assert ended.code == 2 and "The spec cannot be read: line " in ended.err and "Which data" not in ended.err
