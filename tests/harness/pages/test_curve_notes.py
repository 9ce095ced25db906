"""What is said of the curves of a job."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from django.conf import settings

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


def test_a_criterion_of_the_persons_own_is_told(job: Any, people: SimpleNamespace) -> None:
    from harness.jobs.services import program_file_write

    text = (settings.STORE.job(job.pk).program / "train.py").read_text()
    assert text.count("    return F.cross_entropy(") == 1
    commented = text.replace("def criterion(", "# mine\ndef criterion(").replace("optimizer = ", "optimizer  =  ")
    own = text.replace("    return F.cross_entropy(", "    return 2 * F.cross_entropy(")
    for written, is_told in ((commented, False), (own, True), (own.replace("def criterion(", "def loss("), False)):
        program_file_write(user=people.owner, job=job, name="train.py", text=written)
        assert curves_source(job)["notes"]["loss"].startswith("Training loss is by the criterion") is is_told
