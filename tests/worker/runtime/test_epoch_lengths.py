"""An epoch that one number of ranks has begun, and another goes on with, where a batch has few rows for each."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from worker.events import EventKind
from worker.runtime.batches import BatchPlan
from worker.runtime.data import Part
from worker.runtime.report import Reporter
from worker.runtime.run import Run
from worker.runtime.settings import Settings
from worker.runtime.spec import as_spec

ROWS, BATCH = 43, 4
"""One rank makes 11 steps of them, the last of 3 rows; two make 10, the last of 7."""


class Kept(Reporter):
    """Keeps its notes in a list."""

    notes: list[str]

    def emit(self, kind: EventKind, **data: object) -> None:
        """Note it."""
        if kind is EventKind.NOTE:
            self.notes.append(str(data["message"]))


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The first rank of as many as a test sets, which goes on with epoch 2."""
    body = {"mode": "single", "objective": {"metric": "accuracy"}, "resources": {"device": "cpu"}}
    body |= {"training": {"seed": 1, "batch_size": BATCH, "epochs": 3}}
    settings = Settings.read(["--work", str(tmp_path)], {"DLH_EVENTS": str(tmp_path / "events.jsonl")})
    reporter = Kept(settings.events, job_id="one", token=0, rank=0)
    reporter.notes = []
    return Run(as_spec(body), settings, reporter)


def goes_on(run: Run, monkeypatch: pytest.MonkeyPatch, *, ranks: int, begun: int, made: int) -> int:
    """Steps that are made of epoch 2, of whose `begun` steps by other ranks so many are made already."""
    plan = BatchPlan(rows=ROWS, batch_size=BATCH, world_size=ranks)
    monkeypatch.setattr(run, "_plan", lambda part: plan)
    run.teller.plan(plan.steps, 0.0)
    saved = run.position.state_dict() | {"epoch": 1, "epoch_steps": begun, "step_in_epoch": made, "step": begun + made}
    run.position.load_state_dict(saved)
    run.teller.resume()
    part = Part((torch.zeros(ROWS, 1),), torch.zeros(ROWS, dtype=torch.int64), torch.arange(ROWS))
    return sum(1 for _ in run.batches(part))


@pytest.mark.parametrize(
    ("ranks", "begun", "made", "left"), [(1, 10, 10, 0), (1, 10, 9, 2), (2, 11, 9, 1), (2, 11, 10, 0), (1, 11, 10, 1)]
)
def test_rows_are_taken_once_by_whatever_ranks_go_on(
    run: Run, monkeypatch: pytest.MonkeyPatch, ranks: int, begun: int, made: int, left: int
) -> None:
    assert goes_on(run, monkeypatch, ranks=ranks, begun=begun, made=made) == left
    assert run.position.state_dict()["epoch_steps"] == BatchPlan(rows=ROWS, batch_size=BATCH, world_size=ranks).steps


def test_rows_that_the_ranks_are_too_many_for_are_told(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run.world_size = 2
    goes_on(run, monkeypatch, ranks=2, begun=11, made=10)
    assert isinstance(run.reporter, Kept)
    assert run.reporter.notes == ["Epoch 2 ends without its last 3 rows: too few for a step of 2 ranks."]


def test_the_length_of_the_run_follows_from_the_steps_that_were_made(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    goes_on(run, monkeypatch, ranks=2, begun=11, made=5)
    assert run.teller.steps_total == 11 + 10 + 10
    assert run.teller.epochs_at(11 + 5) == 1.5


def test_an_epoch_of_which_nothing_is_left_counts_with_the_steps_that_others_made_of_it(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert goes_on(run, monkeypatch, ranks=1, begun=10, made=10) == 0
    assert run.teller.steps_total == 10 + 10 + 11
    assert run.teller.epochs_at(20) == 2.0


@pytest.mark.parametrize(("begun_batch", "begun", "made", "left"), [(2, 21, 10, 6), (8, 6, 3, 5), (8, 6, 6, 0)])
def test_an_epoch_of_batches_of_another_size_goes_on_at_its_rows_without_a_word_of_rows_left_out(
    run: Run, monkeypatch: pytest.MonkeyPatch, begun_batch: int, begun: int, made: int, left: int
) -> None:
    run.position.epoch_batch = begun_batch
    assert goes_on(run, monkeypatch, ranks=1, begun=begun, made=made) == left
    assert run.reporter.notes == []
    assert run.position.state_dict()["epoch_batch"] == BATCH
