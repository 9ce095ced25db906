"""How a run begins: by its spec and surroundings, with every error told from here on."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from worker.memory_words import Phase
from worker.runtime import failures
from worker.runtime.data import DataError
from worker.runtime.device import default_threads, set_up_torch
from worker.runtime.pulse import pulse
from worker.runtime.report import Reporter
from worker.runtime.rng import seed_all
from worker.runtime.settings import Settings
from worker.runtime.spec import load_spec
from worker.runtime.spec_check import spec_check

if TYPE_CHECKING:
    from worker.runtime.run import Run


def run_started(kind: type[Run], spec_file: str | Path, arguments: Sequence[str] | None) -> Run:
    """A run of this kind, or one whose ranks come and go: read, checked, seeded and listening."""
    settings = Settings.read(sys.argv[1:] if arguments is None else arguments, os.environ)
    path = Path(spec_file).absolute()
    reporter = Reporter(settings.events, job_id=settings.job_id, token=settings.token, rank=settings.rank)
    runs: list[Run] = []
    failures.install_hook(reporter, path.parent, lambda: runs[0] if runs else None)
    if not settings.data.is_dir():
        hint = "Download the program with its data, or name the folder: python train.py --data FOLDER"
        raise DataError(f"There is no data folder {settings.data.name!r}.", hint)
    spec = load_spec(path)
    spec_check(spec, path)
    if settings.seat_fd is not None:
        from worker.runtime.elastic.run import ElasticRun  # it builds on `Run`

        kind = ElasticRun
    run = kind(spec, settings, reporter)
    runs.append(run)
    set_up_torch(run.device, settings.threads or default_threads(run.spec, run.world_size))
    seed_all(run.seed)
    run.control.listen()
    pulse.listen(run.teller.alive)
    run.teller.progress(Phase.LOADING)
    return run
