"""Into how many stages a run cuts its model where the platform has placed it for so many."""

from __future__ import annotations

from pathlib import Path

from worker.runtime.pipeline.place import stages_of
from worker.runtime.report import Reporter
from worker.runtime.run import Run
from worker.runtime.settings import Settings
from worker.runtime.spec import as_spec


def made(folder: Path, **environment: str) -> Run:
    """The rank of a program that was written for two stages."""
    body = {"mode": "pipeline", "pipeline": {"stages": 2, "schedule": "1f1b"}, "objective": {"metric": "accuracy"}}
    body |= {"training": {"seed": 1, "batch_size": 8, "epochs": 1}, "resources": {"device": "cpu"}}
    settings = Settings.read(["--work", str(folder)], {"DLH_EVENTS": str(folder / "events.jsonl"), **environment})
    return Run(as_spec(body), settings, Reporter(settings.events, job_id="one", token=0, rank=0))


def test_the_stages_that_were_placed_win_over_those_of_the_program(tmp_path: Path) -> None:
    run = made(tmp_path, DLH_MODE="pipeline", DLH_STAGES="4")
    assert stages_of(run.spec, 4) == 4
    assert run.spec.pipeline.schedule == "1f1b"
    assert stages_of(made(tmp_path, DLH_MODE="pipeline+sync", DLH_STAGES="3").spec, 6) == 3
    assert stages_of(made(tmp_path).spec, 2) == 2
