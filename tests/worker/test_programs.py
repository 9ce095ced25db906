"""A program tried beside training: its whole answer reaches who asked, and an end without a word is named."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest

from tests.worker.conftest import JobFixture
from worker import programs
from worker.sandbox import Completed


def tried(job: JobFixture, monkeypatch: pytest.MonkeyPatch, **ended: Any) -> dict[str, Any]:
    """Answer of a check whose program ended so."""
    done = {"returncode": 0, "stdout": "", "stderr": "", "level": 0} | ended
    monkeypatch.setattr(programs, "program_run", lambda _: Completed(**done))
    return programs.check({"check_id": "c", "job_dir": str(job.paths.root), "dataset_dir": str(job.paths.root)})


def test_what_the_check_noticed_of_a_program_that_runs_is_answered(
    job: JobFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = {"ok": True, "problem": None, "parameters": 6, "output_shape": [16, 2], "notes": ["Probabilities already."]}
    answer = tried(job, monkeypatch, stdout=f"a word of the program\n{json.dumps(told)}\n")
    assert answer == {**told, "check_id": "c"}


@pytest.mark.parametrize(("code", "words"), [(-signal.SIGSEGV, "was ended by SIGSEGV"), (3, "ended with exit code 3")])
def test_a_program_that_ends_without_a_word_is_told_how_it_ended(
    job: JobFixture, monkeypatch: pytest.MonkeyPatch, code: int, words: str
) -> None:
    problem = tried(job, monkeypatch, returncode=code)["problem"]
    assert problem["message"] == f"The program {words} and said nothing."
