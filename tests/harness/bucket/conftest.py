"""A store of the test's own, so that a pass copies what the test made and nothing else."""

import pytest
from django.utils import timezone

from harness.store import StorePaths
from worker.states import JobState


@pytest.fixture(autouse=True)
def store(settings, tmp_path):
    settings.STORE = StorePaths(tmp_path / "store")
    settings.STORE.root.mkdir()
    return settings.STORE


@pytest.fixture
def finished(bucket, job, store):
    """A job that has ended, with all that a run leaves."""
    from harness.jobs.models import Job

    paths = store.job(job.pk)
    for file, body in (
        (paths.results / "model.safetensors", b"w" * 100_000),
        (paths.results / "deep" / "picture.png", b"p"),
        (paths.checkpoints / "step-00000010" / "state.pt", b"s" * 70_000),
        (paths.rank_log(1, 0), b"line\n"),
        (paths.exit_file(1), b"{}"),
    ):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(body)
    Job.objects.filter(pk=job.pk).update(state=str(JobState.SUCCEEDED), finished_at=timezone.now())
    return job
