"""What is said of the curves of a job."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from harness.pages.job_view import curves_source


def test_only_what_the_job_surely_does_to_its_training_loss_is_told(job_make: Any, people: SimpleNamespace) -> None:
    from harness.jobs.services import program_file_write

    wish = {"training": {"label_smoothing": 0.1}, "model": {"family": "mlp", "params": {"dropout": 0.2}}}
    both = "Training loss is measured with softened targets, dropout; validation loss without."
    job, own = job_make(**wish), job_make(own_model="def build(spec): ...\n", **wish)
    assert curves_source(job)["notes"]["loss"] == both
    assert curves_source(own)["notes"]["loss"] == both.replace(", dropout", "")
    for name, note in (("data.py", both), ("train.py", both.replace("softened targets, ", "")), ("model.py", "")):
        program_file_write(user=people.owner, job=job, name=name, text="def build(spec): ...\n")
        assert curves_source(job)["notes"]["loss"] == note
